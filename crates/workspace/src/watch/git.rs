//! Which files in a repository's own folders say how it stands: what is checked out, staged and known of others, and the
//! settings that decide what git makes of it. Files by which git locks and notes are not among them.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::inotify::{Inotify, Watched};

/// Folders of names of branches and tags that are watched: who has more, has them packed.
const FOLDERS_MAX: usize = 2000;
/// Folders in folders of these.
const DEPTH_MAX: usize = 16;

/// Where git keeps a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitPlace {
    /// The top of the work tree.
    pub top: PathBuf,
    /// What is this work tree's own.
    pub git_dir: PathBuf,
    /// What all its work trees share.
    pub common_dir: PathBuf,
}

/// Files, and folders with what is in them, that say how a repository stands.
const TELLING: [&str; 19] = [
    "BISECT_LOG",
    "CHERRY_PICK_HEAD",
    "FETCH_HEAD",
    "HEAD",
    "MERGE_HEAD",
    "ORIG_HEAD",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "config",
    "config.worktree",
    "index",
    "modules",
    "packed-refs",
    "rebase-apply",
    "rebase-merge",
    "sequencer",
    "shallow",
    "worktrees",
    "refs",
];

/// What a change in a folder of git means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// Nothing that shows.
    Nothing,
    /// The repository may stand otherwise.
    State,
    /// So may what git has.
    Index,
    /// Other names may be ignored.
    Rules,
}

impl GitPlace {
    /// Watches what says how it stands.
    pub(super) fn watch(&self, inotify: &Inotify) {
        let mut left = FOLDERS_MAX;
        for folder in [&self.git_dir, &self.common_dir] {
            add(inotify, folder, 0, &mut left);
            for deep in ["refs", "reftable"] {
                add(inotify, &folder.join(deep), DEPTH_MAX, &mut left);
            }
        }
        add(inotify, &self.common_dir.join("info"), 0, &mut left);
    }

    /// What a change of a name in one of these folders means.
    pub(super) fn means(&self, inotify: &Inotify, folder: &Path, name: &OsStr) -> Means {
        if name.as_bytes().ends_with(b".lock") {
            return Means::Nothing;
        }
        if folder == self.common_dir.join("info") {
            return if name == "exclude" { Means::Rules } else { Means::State };
        }
        if folder == self.git_dir || folder == self.common_dir {
            return match name.to_str() {
                Some("index") => Means::Index,
                Some(name) if TELLING.contains(&name) => Means::State,
                _ => Means::Nothing,
            };
        }
        // A new folder among the names of branches is watched from now on; what came into it first is part of this change.
        let mut left = FOLDERS_MAX;
        add(inotify, &folder.join(name), DEPTH_MAX, &mut left);
        Means::State
    }

    /// How it stands, for where the system does not tell: times and sizes of what says it.
    pub(super) fn signature(&self) -> Vec<(PathBuf, u64, i64, i64)> {
        let (mut all, mut left) = (Vec::new(), FOLDERS_MAX);
        for folder in [&self.git_dir, &self.common_dir] {
            TELLING.iter().for_each(|name| sign(&folder.join(name), DEPTH_MAX, &mut all, &mut left));
        }
        ["info", "reftable"].iter().for_each(|name| sign(&self.common_dir.join(name), 1, &mut all, &mut left));
        all
    }
}

fn add(inotify: &Inotify, folder: &Path, depth: usize, left: &mut usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(open) = rustix::fs::open(folder, flags, Mode::empty()) else { return };
    if *left == 0 {
        return;
    }
    *left -= 1;
    inotify.add(Watched::Git(folder.to_owned()), open.as_fd());
    if depth == 0 {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add(inotify, &entry.path(), depth - 1, left);
        }
    }
}

fn sign(path: &Path, depth: usize, all: &mut Vec<(PathBuf, u64, i64, i64)>, left: &mut usize) {
    use std::os::unix::fs::MetadataExt;
    let Ok(stat) = path.symlink_metadata() else { return };
    if *left == 0 {
        return;
    }
    *left -= 1;
    all.push((path.to_owned(), stat.len(), stat.mtime(), stat.mtime_nsec()));
    if stat.is_dir() && depth > 0 {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            sign(&entry.path(), depth - 1, all, left);
        }
    }
}
