//! The work trees of a repository.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::{GitError, WorkTree};

/// One work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Where it is.
    pub path: PathBuf,
    /// What is checked out; nothing before the first commit.
    pub commit: Option<String>,
    /// The branch, without `refs/heads/`; nothing where a commit is checked out.
    pub branch: Option<OsString>,
    /// It is the repository itself, without files.
    pub bare: bool,
    /// It must not be removed.
    pub locked: bool,
    /// Its folder is gone.
    pub gone: bool,
}

impl WorkTree {
    /// Every work tree of the repository, the main one first.
    pub fn trees(&self) -> Result<Vec<Tree>, GitError> {
        let listed = self.look("worktree", &["worktree", "list", "--porcelain", "-z"])?;
        let mut trees: Vec<Tree> = Vec::new();
        for line in listed.split(|byte| *byte == 0) {
            let at = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
            let (word, value) = (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default());
            if word == b"worktree" {
                trees.push(Tree { path: super::path_of(value), ..Tree::default() });
            }
            let Some(tree) = trees.last_mut() else { continue };
            match word {
                b"HEAD" if value.iter().any(|byte| *byte != b'0') => {
                    tree.commit = Some(String::from_utf8_lossy(value).into_owned());
                }
                b"branch" => {
                    let name = value.strip_prefix(b"refs/heads/").unwrap_or(value);
                    tree.branch = Some(OsStr::from_bytes(name).to_owned());
                }
                b"bare" => tree.bare = true,
                b"locked" => tree.locked = true,
                b"prunable" => tree.gone = true,
                _ => {}
            }
        }
        Ok(trees)
    }
}
