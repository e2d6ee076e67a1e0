//! The freshly made destination, held open: everything is created relative to that descriptor, one
//! component at a time and without following links, so nothing can land outside it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, stat};
use rustix::io::Errno;

use super::dest::Dest;
use crate::{Op, PathError};

/// Files and directories are for their owner only, whatever the archive says.
const DIR_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Longest path that other programs could still open.
const MAX_PATH: usize = 4095;

pub(super) struct Root {
    path: PathBuf,
    dir: OwnedFd,
}

fn dir_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

impl Root {
    /// Makes the destination and the directories above it. The destination itself must be new: what
    /// somebody else put there since it was wiped is not used.
    pub(super) fn create(dest: &Dest) -> Result<Self, PathError> {
        make_parents(&dest.parent)?;
        let mkdir = |errno| PathError::new(Op::Mkdir, &dest.path, errno);
        let parent = openat(CWD, &dest.parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(mkdir)?;
        mkdirat(&parent, &dest.name, DIR_MODE).map_err(mkdir)?;
        let dir = openat(&parent, &dest.name, dir_flags(), Mode::empty()).map_err(mkdir)?;
        Ok(Root { path: dest.path.clone(), dir })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of components under the root, for messages.
    pub(super) fn join(&self, parts: &[&[u8]]) -> PathBuf {
        let mut path = self.path.clone();
        path.extend(parts.iter().map(|part| OsStr::from_bytes(part)));
        path
    }

    /// Makes the directory and those above it.
    pub(super) fn create_dir(&self, parts: &[&[u8]]) -> Result<(), PathError> {
        self.check_length(Op::Mkdir, parts)?;
        self.enter(parts).map(drop)
    }

    /// Makes or empties the file, making the directories above it.
    pub(super) fn create_file(&self, parts: &[&[u8]]) -> Result<File, PathError> {
        self.check_length(Op::Open, parts)?;
        let failed = |errno| PathError::new(Op::Open, self.join(parts), errno);
        let Some((name, above)) = parts.split_last() else {
            return Err(failed(Errno::ISDIR));
        };
        let dir = self.enter(above)?;
        let file = openat(
            dir.as_ref().map_or(self.dir.as_fd(), OwnedFd::as_fd),
            *name,
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            FILE_MODE,
        )
        .map_err(failed)?;
        Ok(File::from(file))
    }

    fn check_length(&self, op: Op, parts: &[&[u8]]) -> Result<(), PathError> {
        let below: usize = parts.iter().map(|part| part.len() + 1).sum();
        if self.path.as_os_str().len() + below > MAX_PATH {
            return Err(PathError::new(op, self.join(parts), Errno::NAMETOOLONG));
        }
        Ok(())
    }

    /// Walks down from the root, making what is missing; `None` is the root itself.
    fn enter(&self, parts: &[&[u8]]) -> Result<Option<OwnedFd>, PathError> {
        let mut at: Option<OwnedFd> = None;
        for (depth, part) in parts.iter().enumerate() {
            let here = at.as_ref().map_or(self.dir.as_fd(), OwnedFd::as_fd);
            let next = step(here, part).map_err(|errno| {
                let path = self.join(parts.get(..=depth).unwrap_or_default());
                PathError::new(Op::Mkdir, path, errno)
            })?;
            at = Some(next);
        }
        Ok(at)
    }
}

fn step(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    match openat(dir, name, dir_flags(), Mode::empty()) {
        Err(Errno::NOENT) => {
            mkdirat(dir, name, DIR_MODE)?;
            openat(dir, name, dir_flags(), Mode::empty())
        }
        // A link in the way is no directory of ours.
        Err(Errno::LOOP) => Err(Errno::NOTDIR),
        other => other,
    }
}

/// Makes the directories that lead to the destination; existing ones may be links.
fn make_parents(path: &Path) -> Result<(), PathError> {
    let mut missing: Vec<&Path> = path.ancestors().collect();
    missing.reverse();
    for dir in missing {
        let failed = |errno| PathError::new(Op::Mkdir, dir, errno);
        match stat(dir) {
            Ok(meta) if is_dir(&meta) => {}
            Ok(_) => return Err(failed(Errno::NOTDIR)),
            Err(_) => match mkdirat(CWD, dir, DIR_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            },
        }
    }
    Ok(())
}

fn is_dir(meta: &rustix::fs::Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(meta.st_mode) == rustix::fs::FileType::Directory
}
