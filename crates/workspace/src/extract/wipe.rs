//! Removes a directory tree without following a link, crossing into another file system, recursing,
//! or holding more than one descriptor for the depth of the tree.

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::dest::{Dest, Identity};
use crate::{Op, PathError};

/// Directory entries read with one call.
const ENTRIES: usize = 32 << 10;

fn dir_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK
}

/// Removes whatever is at the destination: a file, a link itself, or a whole tree.
pub(super) fn wipe(dest: &Dest) -> Result<(), PathError> {
    let unlink = |errno: Errno| PathError::new(Op::Unlink, &dest.path, errno);
    let parent = match openat(CWD, &dest.parent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(parent) => parent,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(unlink(errno)),
    };
    let refused = match unlinkat(&parent, &dest.name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(errno @ (Errno::ISDIR | Errno::PERM)) => errno,
        Err(errno) => return Err(unlink(errno)),
    };
    let dir = match openat(&parent, &dest.name, dir_flags(), Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(unlink(refused)),
        Err(errno) => return Err(PathError::new(Op::Open, &dest.path, errno)),
    };
    let stat = fstat(&dir).map_err(unlink)?;
    let identity = Identity::from(&stat);
    // The path may lead elsewhere than when it was checked.
    if dest.protects(identity) {
        return Err(unlink(Errno::PERM));
    }
    Tree::new(dest, dir, identity)?.remove_content()?;
    unlinkat(&parent, &dest.name, AtFlags::REMOVEDIR).map_err(unlink)
}

/// One directory on the way from the destination down to where the removal is.
struct Level {
    name: CString,
    identity: Identity,
    subdirs: Vec<CString>,
}

struct Tree<'a> {
    dest: &'a Dest,
    /// The directory of the last level.
    current: OwnedFd,
    levels: Vec<Level>,
}

impl<'a> Tree<'a> {
    fn new(dest: &'a Dest, dir: OwnedFd, identity: Identity) -> Result<Self, PathError> {
        let mut tree = Tree { dest, current: dir, levels: Vec::new() };
        tree.descend(CString::default(), identity)?;
        Ok(tree)
    }

    /// Takes `current`, just opened, as the next level and removes the files in it.
    fn descend(&mut self, name: CString, identity: Identity) -> Result<(), PathError> {
        self.levels.push(Level { name, identity, subdirs: Vec::new() });
        let subdirs = self.remove_files()?;
        if let Some(level) = self.levels.last_mut() {
            level.subdirs = subdirs;
        }
        Ok(())
    }

    fn remove_content(&mut self) -> Result<(), PathError> {
        loop {
            let Some(level) = self.levels.last_mut() else {
                return Ok(());
            };
            if let Some(name) = level.subdirs.pop() {
                self.open_subdir(name)?;
                continue;
            }
            let Some(done) = self.levels.pop() else {
                return Ok(());
            };
            let Some(above) = self.levels.last().map(|level| level.identity) else {
                return Ok(());
            };
            self.ascend(&done.name, above)?;
        }
    }

    fn open_subdir(&mut self, name: CString) -> Result<(), PathError> {
        let failed = |op, errno| PathError::new(op, self.path(&name), errno);
        let dir = openat(&self.current, &name, dir_flags(), Mode::empty()).map_err(|errno| failed(Op::Open, errno))?;
        let identity = Identity::from(&fstat(&dir).map_err(|errno| failed(Op::Unlink, errno))?);
        let here = self.levels.first().map(|level| level.identity.device);
        if here != Some(identity.device) {
            return Err(failed(Op::Unlink, Errno::XDEV));
        }
        if self.dest.protects(identity) {
            return Err(failed(Op::Unlink, Errno::PERM));
        }
        self.current = dir;
        self.descend(name, identity)
    }

    /// Goes back up and removes the emptied directory. Somebody may have moved it meanwhile: then
    /// its parent is not the one we came from, and going on there would remove what is not ours.
    fn ascend(&mut self, name: &CStr, above: Identity) -> Result<(), PathError> {
        let failed = |errno| PathError::new(Op::Unlink, self.path(name), errno);
        let up = openat(&self.current, c"..", dir_flags(), Mode::empty()).map_err(failed)?;
        if Identity::from(&fstat(&up).map_err(failed)?) != above {
            return Err(failed(Errno::STALE));
        }
        unlinkat(&up, name, AtFlags::REMOVEDIR).map_err(failed)?;
        self.current = up;
        Ok(())
    }

    /// Removes everything in the current directory but its subdirectories, which it names.
    fn remove_files(&self) -> Result<Vec<CString>, PathError> {
        let mut subdirs = Vec::new();
        for (name, kind) in
            read_names(self.current.as_fd()).map_err(|errno| PathError::new(Op::ReadDir, self.path(c""), errno))?
        {
            if kind == FileType::Directory {
                subdirs.push(name);
                continue;
            }
            match unlinkat(&self.current, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => subdirs.push(name),
                Err(errno) => return Err(PathError::new(Op::Unlink, self.path(&name), errno)),
            }
        }
        Ok(subdirs)
    }

    fn path(&self, name: &CStr) -> PathBuf {
        let mut path = self.dest.path.clone();
        for level in self.levels.iter().skip(1) {
            path.push(OsStr::from_bytes(level.name.as_bytes()));
        }
        if !name.is_empty() {
            path.push(OsStr::from_bytes(name.to_bytes()));
        }
        path
    }
}

fn read_names(dir: impl AsFd) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut buffer = vec![MaybeUninit::uninit(); ENTRIES];
    let mut reader = RawDir::new(dir, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = reader.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push((name.to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}
