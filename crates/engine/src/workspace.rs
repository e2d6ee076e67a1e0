//! Workspaces: folders whose files and git a client looks at and works with. Who may is `access`; what is beneath a folder, and
//! what git says of it, is the crate below. Here is what only the engine knows: who forks git, who writes now, and where what was
//! discarded is kept.
//!
//! What runs hooks is a hosted process like any other. Names are answered from an index, which a watch keeps; what changes in a
//! folder that somebody watches is told by the feed.

mod current;
mod finish;
mod finished;
mod index;
mod status;
mod watches;
mod writers;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use current::Currents;
pub use finish::{Finish, FinishError, FinishHow, FinishStep, Standing};
pub use finished::{FinishedTree, UndoError};
pub use index::{IndexStatus, WorkspaceIndex};
pub use ostler_workspace::beneath;
pub use ostler_workspace::git::RunError;
pub use ostler_workspace::git::work;
pub use ostler_workspace::index as names;
pub use ostler_workspace::search as content;
pub use ostler_workspace::watch::{Became, FileChange, GitPlace, Phase, WatchStatus};
pub use status::{TreeStatus, stands};
pub(crate) use watches::Watches;
pub use watches::{WatchError, WatchLease};
pub(crate) use writers::Writers;
pub use writers::{Busy, Turn};

use beneath::{BeneathError, Root};
use ostler_workspace::git::Git;
use work::{GitError, HostedGit, KeptChanges, WorkTree};

use crate::{Engine, MayWait, Process, SpawnError, SpawnRequest};

/// Where an instance keeps what was discarded.
pub const DISCARDED: &str = "discarded";

/// A git command to be hosted.
#[derive(Debug)]
pub struct GitProcess {
    /// What it is.
    pub command: HostedGit,
    /// The caller's key: the same key again gives the same process.
    pub key: Option<String>,
    /// The session or process that it is started from, if that is hosted.
    pub owner: Option<String>,
}

impl Engine {
    /// The folder at this absolute path.
    pub fn root(&self, _wait: &MayWait, path: &Path) -> Result<Root, BeneathError> {
        Root::open(path)
    }

    /// The work tree around a folder. Git is forked by the keeper.
    pub fn work_tree(&self, _wait: &MayWait, root: Root) -> Result<WorkTree, GitError> {
        let environment = self.environment();
        let runner = Arc::new(self.forker());
        let git = Git::new(root.path(), &environment.path(), &environment.snapshot(), runner);
        WorkTree::open(&git, root)
    }

    /// The right to change a repository, alone until it is dropped. `what` is told to those who wait.
    pub fn write_turn(&self, _wait: &MayWait, tree: &WorkTree, what: &str) -> Result<Turn, Busy> {
        self.inner.writers.take(tree.repository(), what)
    }

    /// The hosted process that was started under this key.
    pub fn started_under(&self, key: &str) -> Option<Process> {
        self.inner.by_key(key)
    }

    /// Runs git as a hosted process, with a journal. It keeps the right to change the repository until it ends.
    pub async fn host_git(&self, git: GitProcess, turn: Turn) -> Result<Process, SpawnError> {
        let GitProcess { command, key, owner } = git;
        let (program, args) = self.without_location(command.program, command.args, command.without);
        let request = SpawnRequest {
            program,
            args,
            env: command.env,
            cwd: Some(command.cwd),
            shown_as: Some("git".into()),
            key,
            owner,
            ..SpawnRequest::default()
        };
        let process = self.spawn(request).await?;
        turn.belongs_to(&process);
        Ok(process)
    }

    /// Variables that lead git elsewhere can only be taken out by a program: a hosted process has all of its user's.
    fn without_location(&self, program: PathBuf, args: Vec<OsString>, names: &[&str]) -> (OsString, Vec<OsString>) {
        let set: Vec<&str> = names.iter().copied().filter(|name| self.environment().get(name).is_some()).collect();
        if set.is_empty() {
            return (program.into(), args);
        }
        let unset = set.into_iter().flat_map(|name| ["-u".into(), name.into()]);
        ("env".into(), unset.chain([program.into()]).chain(args).collect())
    }

    /// Where what was discarded is kept for a day.
    pub fn discarded_folder(&self) -> PathBuf {
        self.inner.config.dir.join(DISCARDED)
    }

    /// What was discarded and can be put back, newest first; what is too old goes.
    pub fn discarded(&self, _wait: &MayWait) -> std::io::Result<Vec<KeptChanges>> {
        KeptChanges::list(&self.discarded_folder())
    }
}
