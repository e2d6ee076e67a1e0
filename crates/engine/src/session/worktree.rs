//! A git work tree for a session: made when the session is, beneath the instance's folder, and removed when it is closed if
//! everything in it is committed. The repository is not trusted: nothing that it names runs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_workspace::git::{Git, Left, NewWorktree, WorktreeError};

use crate::{Environment, Forker, MayWait};

/// Where an instance keeps them.
pub const WORKTREES: &str = "worktrees";
/// Where it keeps folders of agents for whom nobody named one.
pub const WORKSPACES: &str = "zeroclaw/workspaces";
/// Branches that we named; those that hold nothing go with their work tree.
pub const OWN_BRANCHES: &str = "ostler/";
/// Characters of a name that tells two work trees apart.
const TOKEN: usize = 6;
/// Letters and digits that nobody confuses.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

/// Why a session gets no work tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// There is nothing to make one of.
    #[error("{} is in no git repository", .0.display())]
    NoRepository(PathBuf),
    /// Its branch has one already.
    #[error("branch {branch} is checked out in {}", path.display())]
    CheckedOut {
        /// Which branch.
        branch: String,
        /// Where.
        path: PathBuf,
    },
    /// Git, or the disk, said no.
    #[error("git worktree: {0}")]
    Failed(String),
}

/// What became of a work tree when its session was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFate {
    /// Where it is, or was.
    pub path: PathBuf,
    /// The branch that was checked out; empty if nobody could say.
    pub branch: String,
    /// Why it is still there; `None` when it is gone.
    pub kept: Option<String>,
    /// Its branch held nothing of its own and is gone too.
    pub branch_removed: bool,
}

/// A work tree that was made.
pub(super) struct Made {
    /// Its top.
    pub(super) path: PathBuf,
    /// The folder in it that stands for the one that was asked for.
    pub(super) workspace: PathBuf,
}

/// The work trees of an instance.
pub(super) struct Trees<'a> {
    pub(super) instance: &'a Path,
    pub(super) environment: &'a Environment,
    pub(super) forker: Forker,
}

impl Trees<'_> {
    /// Makes one, on the branch that is wanted or on one of its own.
    pub(super) fn make(
        &self,
        wait: &MayWait,
        folder: &Path,
        name: Option<&str>,
        branch: Option<&str>,
    ) -> Result<Made, TreeError> {
        let git = self.git(wait, folder).map_err(TreeError::Failed)?;
        let root = git.info().ok_or_else(|| TreeError::NoRepository(folder.to_owned()))?.root;
        let token = token().map_err(TreeError::Failed)?;
        let slug = name.map(slug).filter(|slug| !slug.is_empty());
        let own = slug.map_or_else(|| token.clone(), |slug| format!("{slug}-{token}"));
        let branch = branch.map_or_else(|| format!("{OWN_BRANCHES}{own}"), str::to_owned);
        let parent = self.instance.join(WORKTREES);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&parent)
            .map_err(|error| TreeError::Failed(format!("{}: {error}", parent.display())))?;
        let base = root.file_name().map(slug_of).filter(|name| !name.is_empty());
        let path = parent.join(format!("{}-{own}", base.as_deref().unwrap_or("tree")));
        let new = NewWorktree { branch: OsStr::new(&branch), path: path.as_os_str(), source: None };
        git.worktree_on(&new).map_err(|error| match error {
            WorktreeError::NotARepo => TreeError::NoRepository(folder.to_owned()),
            WorktreeError::CheckedOut { path, .. } => TreeError::CheckedOut { branch, path },
            other => TreeError::Failed(other.to_string()),
        })?;
        let inside = folder.canonicalize().ok().and_then(|folder| folder.strip_prefix(&root).map(Path::to_owned).ok());
        // The root itself has nothing to be joined, which would put a slash at its end.
        let inside = inside.filter(|inside| !inside.as_os_str().is_empty());
        let workspace = inside.map(|inside| path.join(inside)).filter(|folder| folder.is_dir());
        Ok(Made { workspace: workspace.unwrap_or_else(|| path.clone()), path })
    }

    /// Nobody has worked in it: gone, with its branch.
    pub(super) fn discard(&self, wait: &MayWait, path: &Path) {
        let left = self.left(wait, path);
        if !matches!(left, Ok(Left::Removed { .. })) {
            tracing::warn!("{}: work tree not removed: {left:?}", path.display());
        }
    }

    /// The session is closed: what becomes of its work tree. `None` when it is gone already.
    pub(super) fn leave(&self, wait: &MayWait, path: &Path, ended: bool) -> Option<TreeFate> {
        if !path.exists() {
            return None;
        }
        let text = |branch: Option<OsString>| branch.unwrap_or_default().to_string_lossy().into_owned();
        let (branch, kept, branch_removed) = match ended.then(|| self.left(wait, path)) {
            None => (String::new(), Some("the agent's process has not ended yet".to_owned()), false),
            Some(Ok(Left::Removed { branch, branch_removed })) => (text(branch), None, branch_removed),
            Some(Ok(Left::Kept { branch, why })) => (text(branch), Some(why), false),
            Some(Err(why)) => (String::new(), Some(why), false),
        };
        Some(TreeFate { path: path.to_owned(), branch, kept, branch_removed })
    }

    fn left(&self, wait: &MayWait, path: &Path) -> Result<Left, String> {
        self.git(wait, path)?.leave_worktree(path, OWN_BRANCHES).map_err(|error| error.to_string())
    }

    fn git(&self, _wait: &MayWait, folder: &Path) -> Result<Git, String> {
        let runner = Arc::new(self.forker.clone());
        let git = Git::new(folder, &self.environment.path(), &self.environment.snapshot(), runner);
        git.guarded().map_err(|error| error.to_string())
    }
}

/// What of a name fits a branch and a folder everywhere.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").chars().take(40).collect()
}

fn slug_of(name: &OsStr) -> String {
    slug(&name.to_string_lossy())
}

fn token() -> Result<String, String> {
    let mut random = [0; TOKEN];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).copied().map_or('a', char::from);
    Ok(random.iter().map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_a_branch_may_be_called() {
        for (name, want) in
            [("fix it", "fix-it"), ("../../etc", "etc"), ("-D", "D"), ("日本", ""), ("a@{b}.lock", "a-b-lock")]
        {
            assert_eq!(slug(name), want);
        }
        assert_eq!(token().unwrap().len(), TOKEN);
    }
}
