//! The names beneath a root, in memory: what is there, how large, how old, and what git and its name say of it. Whoever asks for
//! a file by some letters, for a folder, or for figures is answered from here, without a look at the disk.
//!
//! An index is shared by everybody who asks about its root. It is filled by one walk and kept by a [`crate::watch::Watch`];
//! ignored names are not in it, and neither is what git keeps for itself.

mod binary;
mod fuzzy;
mod list;
mod names;
mod query;
mod rules;
mod sensitive;
mod stats;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod walk;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use list::{FolderSummary, ListQuery, ListedFolder, Sort};
pub(crate) use names::{Flag, Known, Names};
pub use query::{Filters, FoundNames, NameQuery, QUERY_MAX, QueryMode};
pub use rules::ignored_by;
pub(crate) use rules::{Layer, Rules};
pub use stats::IndexStats;
pub use tree::{TREE_DEPTH_MAX, TREE_NODES_MAX, TreeNode};

use crate::beneath::{FileKind, Root};

/// Files and folders of one index: what is beyond is left out, and that is said.
pub const ENTRIES_MAX: usize = 1_200_000;

/// One file, as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    /// From the root on.
    pub path: PathBuf,
    /// A file, a link or something special; folders are told apart.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// When its content changed, in nanoseconds of the Unix clock.
    pub modified_ns: i64,
    /// Git has it; only as far as git was asked.
    pub tracked: bool,
    /// Git has it although its name is ignored.
    pub ignored: bool,
    /// Its content is no text, by its name or, where that says nothing, by its first bytes.
    pub binary: bool,
    /// Its name is one of those under which secrets are kept.
    pub sensitive: bool,
    /// How well it matches, where that was asked.
    pub score: Option<u32>,
}

/// Names beneath a root.
#[derive(Debug, Default)]
pub struct Index {
    names: RwLock<Names>,
}

/// How much is in an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files, links and special files.
    pub files: u64,
    /// Folders, the root not counted.
    pub folders: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// What the index itself takes, about.
    pub memory: u64,
}

impl Index {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Names> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much is in it.
    pub fn totals(&self) -> Totals {
        self.read().totals()
    }

    /// Says which files git has; `paths` are from the root on. What git has and the index has not, because it is ignored, is added.
    pub fn set_tracked(&self, root: &Root, paths: &[PathBuf]) {
        let missing: Vec<&Path> = {
            let mut names = self.write();
            names.clear(Flag::Tracked);
            let unknown = |path: &&PathBuf| !names.flag(path, Flag::Tracked);
            paths.iter().filter(unknown).map(PathBuf::as_path).collect()
        };
        // Outside of the lock: the disk may be slow.
        let found = missing.into_iter().filter_map(|path| Some((path, root.lstat(path).ok()?)));
        let found: Vec<_> = found.filter(|(_, stat)| stat.kind != FileKind::Folder).take(ENTRIES_MAX).collect();
        let mut names = self.write();
        for (path, stat) in found {
            let mut known = Known::of(path, &stat);
            known.set(Flag::Tracked);
            known.set(Flag::Ignored);
            names.insert(path, known);
        }
    }

    /// Regular files in a folder that pass the filters, behind this one, in the order of their bytes.
    pub(crate) fn searched_after(
        &self,
        after: Option<&Path>,
        folder: &Path,
        filters: &Filters,
        most: usize,
    ) -> Vec<PathBuf> {
        self.read()
            .files_after(after, folder)
            .filter(|(path, known)| filters.pass(path, *known))
            .take(most)
            .map(|(path, _)| PathBuf::from(OsStr::from_bytes(path)))
            .collect()
    }
}
