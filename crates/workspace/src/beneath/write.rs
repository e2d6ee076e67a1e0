//! One file, written whole: made, or put in the place of the content that its writer has seen. It is there with its new content
//! or with its old one, never with a part, and what somebody else wrote meanwhile is put back.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fchmod, mkdirat, openat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::git_folder::is_gits;
use super::hash::hash_of;
use super::walk::Walk;
use super::{BeneathError, Root, content_hash};

/// 8 MiB: what one message of a client has room for.
pub const WRITE_MAX: usize = 8 << 20;
/// What a new file may be for others is the user's umask.
const NEW: u32 = 0o666;

/// What must be there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected<'a> {
    /// Nothing.
    Absent,
    /// A file with this hash.
    Hash(&'a str),
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What its content is known by now.
    pub hash: String,
}

/// A file under a name of ours, gone again unless it is put in its place.
struct Draft<'a> {
    dir: BorrowedFd<'a>,
    name: OsString,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After it was put in its place there is nothing of that name.
        let _ = unlinkat(self.dir, &self.name, AtFlags::empty());
    }
}

impl Root {
    /// Writes one file. Never what belongs to git, and never through a link.
    pub fn write(&self, path: &Path, content: &[u8], expected: Expected<'_>) -> Result<Written, BeneathError> {
        if content.len() > WRITE_MAX {
            let (size, limit) = (content.len() as u64, WRITE_MAX as u64);
            return Err(BeneathError::TooLarge { path: path.to_owned(), size, limit });
        }
        self.put(path, content, expected, None)
    }

    /// Writes a file of any size, with these permissions or those of the file that was there.
    pub(crate) fn put(
        &self,
        path: &Path,
        content: &[u8],
        expected: Expected<'_>,
        mode: Option<u32>,
    ) -> Result<Written, BeneathError> {
        let failed = |errno: Errno| BeneathError::of(path, errno);
        let (walk, name) = self.place(path)?;
        let before = match expected {
            Expected::Absent => None,
            Expected::Hash(hash) => Some(seen(walk.here(), name, hash, path)?),
        };
        let mode = mode.map(Mode::from_raw_mode).or(before);
        let draft = draft(walk.here(), content, mode).map_err(failed)?;
        match expected {
            Expected::Absent => {
                renameat_with(walk.here(), &draft.name, walk.here(), name, RenameFlags::NOREPLACE).map_err(failed)?;
            }
            Expected::Hash(hash) => exchange(walk.here(), &draft, name, hash, path)?,
        }
        Ok(Written { hash: content_hash(content) })
    }

    /// Makes a link where nothing is.
    pub(crate) fn put_link(&self, path: &Path, target: &OsStr) -> Result<(), BeneathError> {
        let (walk, name) = self.place(path)?;
        symlinkat(target, walk.here(), name).map_err(|errno| BeneathError::of(path, errno))
    }

    /// Makes the folders above a path that are missing.
    pub fn make_folders(&self, path: &Path) -> Result<(), BeneathError> {
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        for folder in above.into_iter().rev() {
            let (walk, name) = self.place(folder)?;
            match mkdirat(walk.here(), name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(BeneathError::of(folder, errno)),
            }
        }
        Ok(())
    }

    /// Removes one file or link, if it is no folder and not git's.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), BeneathError> {
        let (walk, name) = self.place(path)?;
        unlinkat(walk.here(), name, AtFlags::empty()).map_err(|errno| BeneathError::of(path, errno))
    }

    /// The folder of a file to be written, and its name there.
    fn place<'a>(&'a self, path: &'a Path) -> Result<(Walk<'a>, &'a OsStr), BeneathError> {
        let bytes = path.as_os_str().as_bytes();
        let cut = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (above, name) = bytes.split_at_checked(cut).unwrap_or_default();
        if matches!(name, b"" | b"." | b"..") {
            return Err(BeneathError::Folder(path.to_owned()));
        }
        let above = Path::new(OsStr::from_bytes(above));
        let walk = self.resolver.walk(self.dir(), above).map_err(|errno| BeneathError::of(path, errno))?;
        let name = OsStr::from_bytes(name);
        if is_gits(self.path(), &walk, name) {
            return Err(BeneathError::Git(path.to_owned()));
        }
        Ok((walk, name))
    }
}

/// The permissions of the file that is there, if it is the one that was seen.
fn seen(dir: BorrowedFd<'_>, name: &OsStr, hash: &str, path: &Path) -> Result<Mode, BeneathError> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| BeneathError::of(path, errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(BeneathError::Link(path.to_owned())),
        FileType::Directory => return Err(BeneathError::Folder(path.to_owned())),
        _ => return Err(BeneathError::Special(path.to_owned())),
    }
    match is_still(dir, name, hash).map_err(|errno| BeneathError::of(path, errno))? {
        true => Ok(Mode::from_raw_mode(stat.st_mode & 0o7777)),
        false => Err(BeneathError::Changed(path.to_owned())),
    }
}

/// Whether a file has this content.
fn is_still(dir: BorrowedFd<'_>, name: &OsStr, hash: &str) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(false);
    }
    let found = hash_of(File::from(file)).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(found == hash)
}

/// The content under a name that nobody else takes, on the disk.
fn draft<'a>(dir: BorrowedFd<'a>, content: &[u8], mode: Option<Mode>) -> Result<Draft<'a>, Errno> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let name: OsString = format!(".ostler-{:016x}", u64::from_ne_bytes(random)).into();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: OwnedFd = openat(dir, &name, flags, Mode::from_raw_mode(NEW))?;
    let draft = Draft { dir, name };
    let mut file = File::from(file);
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if let Some(mode) = mode {
        fchmod(file.as_fd(), mode)?;
    }
    Ok(draft)
}

/// Puts the draft in the place of what was seen. Both change places at once; what comes out and is not what was seen goes back.
fn exchange(dir: BorrowedFd<'_>, draft: &Draft<'_>, name: &OsStr, hash: &str, path: &Path) -> Result<(), BeneathError> {
    let failed = |errno: Errno| BeneathError::of(path, errno);
    let swap = || renameat_with(dir, &draft.name, dir, name, RenameFlags::EXCHANGE);
    match swap() {
        // A file system that cannot: the last look was a moment ago.
        Err(Errno::INVAL | Errno::NOSYS) => {
            return renameat_with(dir, &draft.name, dir, name, RenameFlags::empty()).map_err(failed);
        }
        other => other.map_err(failed)?,
    }
    if is_still(dir, &draft.name, hash).unwrap_or(false) {
        return Ok(());
    }
    swap().map_err(failed)?;
    Err(BeneathError::Changed(path.to_owned()))
}
