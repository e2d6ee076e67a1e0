//! What git keeps for itself: a file there may be a program that git runs, so nobody writes it as a file of the workspace.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, statat};

use super::walk::Walk;

/// Whether a place is git's: by its name, by being the same folder under another name (some file systems know no case), or by
/// what is in it (a bare repository).
pub(super) fn is_gits(root: &Path, walk: &Walk<'_>, last: &OsStr) -> bool {
    let named = |name: &OsStr| name.as_bytes().eq_ignore_ascii_case(b".git");
    root.iter().any(named)
        || named(last)
        || is_repository(walk.top())
        || same(walk.here(), last)
        || walk.steps().any(|(above, name, dir)| named(name) || same(above, name) || is_repository(dir))
}

/// Whether a name in a folder leads to what `.git` leads to there.
fn same(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let identity = |name: &OsStr| {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    identity(OsStr::new(".git")).is_some_and(|git| identity(name) == Some(git))
}

/// Whether git takes this folder for a repository.
fn is_repository(folder: BorrowedFd<'_>) -> bool {
    let kind = |name: &str| {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    };
    let is_dir = |name: &str| matches!(kind(name), Some(FileType::Directory | FileType::Symlink));
    kind("HEAD").is_some() && is_dir("objects") && is_dir("refs")
}
