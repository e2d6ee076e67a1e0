//! A folder as a tree to a depth, each folder with what is beneath it in all.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Index, Known, Names};

/// Folders in folders.
pub const TREE_DEPTH_MAX: usize = 10;
/// Files and folders of one tree.
pub const TREE_NODES_MAX: usize = 5000;

/// A file or folder of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeNode {
    /// From the root on.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub folder: bool,
    /// Bytes of a file, or of everything beneath a folder.
    pub bytes: u64,
    /// Files beneath a folder, at any depth.
    pub files: u64,
    /// What is in a folder: folders first, each by name. Empty also where it is too deep.
    pub children: Vec<TreeNode>,
    /// Something of it is not here: too deep, or too much.
    pub cut: bool,
}

impl Index {
    /// A folder, `depth` folders deep; nothing if the index knows no such folder.
    pub fn tree(&self, folder: &Path, depth: usize) -> Option<TreeNode> {
        let names = self.read();
        if !folder.as_os_str().is_empty() && !names.get(folder).is_some_and(Known::is_folder) {
            return None;
        }
        let mut left = TREE_NODES_MAX;
        Some(grow(&names, folder, depth.min(TREE_DEPTH_MAX), &mut left))
    }
}

fn grow(names: &Names, folder: &Path, depth: usize, left: &mut usize) -> TreeNode {
    let mut node = TreeNode { path: folder.to_owned(), folder: true, ..TreeNode::default() };
    let skip = if folder.as_os_str().is_empty() { 0 } else { folder.as_os_str().len() + 1 };
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for (path, known) in names.beneath(folder) {
        if !known.is_folder() {
            node.files += 1;
            node.bytes += known.size;
        }
        let direct = path.get(skip..).is_some_and(|below| memchr::memchr(b'/', below).is_none());
        if !direct {
            continue;
        }
        if depth == 0 || *left == 0 {
            node.cut = true;
            continue;
        }
        *left -= 1;
        let path = Path::new(OsStr::from_bytes(path)).to_owned();
        if known.is_folder() {
            folders.push(path);
        } else {
            files.push(TreeNode { path, bytes: known.size, ..TreeNode::default() });
        }
    }
    let grown = folders.into_iter().map(|folder| grow(names, &folder, depth.saturating_sub(1), left));
    node.children = grown.collect();
    node.children.append(&mut files);
    node
}
