//! Additional work trees of a repository.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::{Git, RunError};

/// A work tree to be made, on a branch that does not exist yet.
#[derive(Debug, Clone, Copy)]
pub struct NewWorktree<'a> {
    /// The new branch.
    pub branch: &'a OsStr,
    /// Where; relative to the repository.
    pub path: &'a OsStr,
    /// What the branch starts from; the current branch when absent.
    pub source: Option<&'a OsStr>,
}

/// A work tree that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// What the branch started from; `None` where nothing was ever committed.
    pub source: Option<OsString>,
}

/// Why no work tree was made.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The directory is not in a repository.
    #[error("not a git repository")]
    NotARepo,
    /// The branch has a work tree already.
    #[error("branch {} is checked out in {}", branch.display(), path.display())]
    CheckedOut {
        /// Which branch.
        branch: OsString,
        /// Where.
        path: PathBuf,
    },
    /// Git refused; the text is its own.
    #[error("{}", String::from_utf8_lossy(.0))]
    Refused(Vec<u8>),
    /// Git could not be run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Git {
    /// Makes a branch and a work tree that has it checked out.
    pub fn create_worktree(&self, new: &NewWorktree<'_>) -> Result<Created, WorktreeError> {
        if !self.is_repo() {
            return Err(WorktreeError::NotARepo);
        }
        refuse_option(new.branch)?;
        if new.path.is_empty() {
            // Git would make the branch and then abort.
            return Err(refused(b"fatal: no path given for the worktree"));
        }
        let source = match new.source {
            Some(source) => Some(source.to_owned()),
            None => self.current_branch(),
        };
        let mut args: Vec<&OsStr> = ["worktree", "add", "-b"].map(OsStr::new).to_vec();
        args.extend([new.branch, OsStr::new("--"), new.path]);
        args.extend(source.as_deref());
        let ran = self.guarded()?.change(args)?;
        if !ran.success {
            return Err(refused(ran.output.trim_ascii_end()));
        }
        Ok(Created { source })
    }

    /// Makes a work tree for a branch: the one that is there, if no other work tree has it, or else a new one.
    pub fn worktree_on(&self, new: &NewWorktree<'_>) -> Result<(), WorktreeError> {
        match self.branch_at(new.branch)? {
            None => self.create_worktree(new).map(drop),
            Some(path) if !path.as_os_str().is_empty() => {
                Err(WorktreeError::CheckedOut { branch: new.branch.to_owned(), path })
            }
            Some(_) => {
                refuse_option(new.branch)?;
                let args = ["worktree", "add", "--"].map(OsStr::new);
                let ran = self.guarded()?.change(args.into_iter().chain([new.path, new.branch]))?;
                if ran.success { Ok(()) } else { Err(refused(ran.output.trim_ascii_end())) }
            }
        }
    }

    /// Makes a work tree at the place of one that is gone, on a new branch. What git remembers of the old one is forgotten first.
    pub fn restore_worktree(&self, new: &NewWorktree<'_>) -> Result<(), WorktreeError> {
        refuse_option(new.branch)?;
        let git = self.guarded()?;
        git.change(["worktree", "prune"])?;
        let mut args: Vec<&OsStr> = ["worktree", "add", "--no-track", "-b"].map(OsStr::new).to_vec();
        args.extend([new.branch, OsStr::new("--"), new.path]);
        args.extend(new.source);
        let ran = git.change(args)?;
        if ran.success { Ok(()) } else { Err(refused(ran.output.trim_ascii_end())) }
    }

    /// The work tree that has this branch checked out, empty if none has; `None` if there is no such branch.
    fn branch_at(&self, branch: &OsStr) -> Result<Option<PathBuf>, RunError> {
        let wanted = [b"refs/heads/", branch.as_bytes()].concat();
        let args = ["for-each-ref", "--format=%(refname) %(worktreepath)", "--"].map(OsStr::new);
        let listed = self.query(args.into_iter().chain([OsStr::from_bytes(&wanted)]))?;
        let mut places = listed.output.split(|byte| *byte == b'\n').filter_map(|line| {
            let (name, path) = line.split_at(line.iter().position(|byte| *byte == b' ')?);
            (name == wanted).then(|| PathBuf::from(OsStr::from_bytes(path.get(1..).unwrap_or_default())))
        });
        Ok(places.next())
    }

    /// Removes a work tree, changes in it included. False when git refused.
    pub fn remove_worktree(&self, path: &OsStr) -> Result<bool, RunError> {
        let args = ["worktree", "remove", "--force", "--"].map(OsStr::new);
        let ran = self.guarded()?.change(args.into_iter().chain([path]))?;
        Ok(ran.success)
    }

    /// The branch to start from; `HEAD` when none is checked out, `None` before the first commit.
    fn current_branch(&self) -> Option<OsString> {
        self.line(["rev-parse", "--abbrev-ref", "HEAD"]).filter(|name| !name.is_empty()).map(OsString::from_vec)
    }
}

/// Git hands the name of the new branch to a second command of its own, where `-D` and the like
/// would be options. No valid branch name begins with a dash.
fn refuse_option(branch: &OsStr) -> Result<(), WorktreeError> {
    if !branch.as_bytes().starts_with(b"-") {
        return Ok(());
    }
    let name = branch.as_bytes();
    Err(refused(&[b"fatal: '", name, b"' is not a valid branch name"].concat()))
}

fn refused(said: &[u8]) -> WorktreeError {
    WorktreeError::Refused(said.to_vec())
}
