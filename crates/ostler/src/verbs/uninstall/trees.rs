//! The work trees that were made for sessions: what in them would be lost, and their removal, which their repository is told.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_engine::session::{OWN_BRANCHES, WORKTREES};
use ostler_workspace::git::{Git, Left, RunError};

use crate::instances::FoundInstance;
use crate::output::CommandError;
use crate::verbs::helper;

pub(super) struct Tree {
    pub(super) path: PathBuf,
    /// What would be lost with it.
    pub(super) unsaved: Option<String>,
}

/// The work trees of all instances.
pub(super) fn find(instances: &[FoundInstance]) -> Vec<Tree> {
    let entries = instances.iter().flat_map(|found| fs::read_dir(found.dir.join(WORKTREES)).into_iter().flatten());
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().map(Tree::look).collect()
}

impl Tree {
    fn look(path: PathBuf) -> Self {
        // `remove_dir` takes only what is empty: whatever git says of it, nothing is lost with such a folder.
        let empty = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        let unsaved = match git(&path).and_then(|git| git.unsaved()) {
            _ if empty => None,
            Ok(unsaved) => unsaved.map(str::to_owned),
            Err(error) => Some(format!("cannot check it: git: {error}")),
        };
        Self { path, unsaved }
    }

    pub(super) fn told(&self) -> String {
        match &self.unsaved {
            Some(why) => format!("worktree {}: {why}", self.path.display()),
            None => format!("worktree {}", self.path.display()),
        }
    }

    /// Through git, so that the repository does not go on listing it. What git can not remove goes with its folder, if that
    /// is wanted. Gives back the branch that stays.
    pub(super) fn remove(&self, force: bool) -> Result<Option<String>, CommandError> {
        let why = match git(&self.path).and_then(|git| self.leave(&git, force)) {
            Ok(Left::Removed { branch, branch_removed }) => {
                return Ok(branch.filter(|_| !branch_removed).map(|branch| branch.to_string_lossy().into_owned()));
            }
            Ok(Left::Kept { why, .. }) => why,
            Err(error) => error.to_string(),
        };
        let gone = if force { fs::remove_dir_all(&self.path) } else { fs::remove_dir(&self.path) };
        gone.map(|()| None).map_err(|_| {
            CommandError::failed(format!("{} is still there: {why}", self.path.display()))
                .hint("remove it yourself; to delete it anyway: ostler uninstall --purge --force")
        })
    }

    fn leave(&self, git: &Git, force: bool) -> Result<Left, RunError> {
        if force && self.unsaved.is_some() {
            let branch = git.branch();
            return Ok(match git.drop_worktree(&self.path)? {
                true => Left::Removed { branch, branch_removed: false },
                false => Left::Kept { branch, why: "git refused".to_owned() },
            });
        }
        git.leave_worktree(&self.path, OWN_BRANCHES)
    }
}

/// A repository is not trusted: nothing that it names runs.
fn git(folder: &Path) -> Result<Git, RunError> {
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    Git::new(folder, &path, &variables, Arc::new(helper::forker())).guarded()
}
