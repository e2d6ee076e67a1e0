//! A folder and what is beneath it, to a depth. No link is followed, no mount is entered, what git keeps is named and not
//! shown, and what does not fit is said to be missing.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::list::{each_name, look};
use super::{BeneathError, FileKind, Root, Stated};

/// Entries of one tree.
pub const TREE_MAX: usize = 5000;
/// Folders in folders.
pub const TREE_DEPTH_MAX: usize = 32;
/// Names of one folder that are kept while the first are looked for.
const NAMES_MAX: usize = 1_000_000;
/// What git keeps for itself.
const GIT: &str = ".git";

/// One file or folder of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// From the top of the tree on.
    pub path: PathBuf,
    /// What it is.
    pub stat: Stated,
    /// A folder whose content is not here, or not all of it: too deep, too much, unreadable, or git's.
    pub cut: bool,
}

/// A folder and what is beneath it; each folder before what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// In the order of their names within each folder.
    pub entries: Vec<TreeEntry>,
    /// Something is missing because there is too much of it.
    pub cut: bool,
}

/// What is still to be looked into.
struct Growing<'a> {
    root: &'a Root,
    top: &'a Path,
    depth: usize,
    limit: usize,
    tree: Tree,
}

impl Root {
    /// What is beneath a folder, `depth` folders deep and at most `limit` entries.
    pub fn tree(&self, path: &Path, depth: usize, limit: usize) -> Result<Tree, BeneathError> {
        let limit = limit.clamp(1, TREE_MAX);
        let folder = self.folder(path)?;
        let tree = Tree { entries: Vec::new(), cut: false };
        let mut growing = Growing { root: self, top: path, depth: depth.min(TREE_DEPTH_MAX), limit, tree };
        let cut = growing.grow(&folder, Path::new(""), 1).map_err(|errno| BeneathError::of(path, errno))?;
        growing.tree.cut |= cut;
        Ok(growing.tree)
    }

    fn folder(&self, path: &Path) -> Result<OwnedFd, BeneathError> {
        self.at(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)
    }
}

impl Growing<'_> {
    /// Adds what is in a folder; whether something of it is missing.
    fn grow(&mut self, folder: &OwnedFd, below: &Path, depth: usize) -> Result<bool, rustix::io::Errno> {
        let room = self.limit.saturating_sub(self.tree.entries.len());
        let (mut names, mut seen, mut cut): (BTreeSet<OsString>, usize, bool) = (BTreeSet::new(), 0, false);
        each_name(folder.as_fd(), |name| {
            names.insert(OsStr::from_bytes(name).to_owned());
            if names.len() > room {
                names.pop_last();
                cut = true;
            }
            seen += 1;
            Ok(seen < NAMES_MAX)
        })?;
        for name in names {
            if self.tree.entries.len() >= self.limit {
                self.tree.cut = true;
                return Ok(true);
            }
            let listed = look(folder.as_fd(), name.clone(), None);
            let Some(stat) = listed.stat else { continue };
            let path = below.join(&name);
            let at = self.tree.entries.len();
            self.tree.entries.push(TreeEntry { path: path.clone(), stat, cut: false });
            if stat.kind == FileKind::Folder {
                let missing = self.inside(&name, &path, depth);
                if let Some(entry) = self.tree.entries.get_mut(at) {
                    entry.cut = missing;
                }
            }
        }
        self.tree.cut |= cut;
        Ok(cut || seen >= NAMES_MAX)
    }

    /// Goes on inside a folder; whether something of it is missing.
    fn inside(&mut self, name: &OsStr, path: &Path, depth: usize) -> bool {
        if depth >= self.depth || name == GIT {
            return true;
        }
        // From the root again, so that only one folder is open for each level and none is left by a swap.
        let Ok(folder) = self.root.folder(&self.top.join(path)) else { return true };
        self.grow(&folder, path, depth + 1).unwrap_or(true)
    }
}
