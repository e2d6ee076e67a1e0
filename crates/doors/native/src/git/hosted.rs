//! What runs hooks, asks other machines or changes many files: answered with the hosted process that does it.

use std::ffi::OsStr;
use std::sync::Arc;

use ostler_api::{
    ErrorKind, GitCommitParams, GitFetchParams, GitMergeParams, GitPullHow, GitPullParams, GitPushParams,
    GitSwitchParams, ProcessInfo, RpcError,
};
use ostler_engine::MayWait;
use ostler_engine::workspace::work::{
    Commit, Fetch, GitError, HostedGit, Merge, Pull, PullHow, Push, SwitchTo, WorkTree,
};
use ostler_engine::workspace::{GitProcess, Turn};

use crate::call::Call;
use crate::info::describe;
use crate::place::{Placed, of_busy, of_git, owned, tree};

/// A request that becomes a git process.
pub(crate) trait Hosted: Placed {
    /// What it is called to those who wait for it.
    const WHAT: &'static str;

    /// Its key: the same key again is the same process.
    fn key(&self) -> Option<&str>;

    /// The command line, with every name looked up.
    fn command(&self, tree: &WorkTree) -> Result<HostedGit, GitError>;
}

/// Starts it and answers once it runs.
pub(crate) async fn start<P: Hosted + Send + 'static>(call: Arc<Call>, params: P) -> Result<ProcessInfo, RpcError> {
    // A name space of its own: no client may take a key that the engine gives.
    let key = params.key().map(|key| format!("{}:{key}", P::WHAT));
    let owner = call.engine().owner_for(&call.origin);
    let (looking, again) = (Arc::clone(&call), key.clone());
    let made = MayWait::pool(move |wait| prepared(wait, &looking, &params, again.as_deref())).await;
    let made = made.map_err(|lost| RpcError::new(ErrorKind::Internal, lost.to_string()))??;
    let (command, turn) = match made {
        Made::Before(info) => return Ok(*info),
        Made::Now(command, turn) => (command, turn),
    };
    let cwd = command.cwd.display().to_string();
    let process = call.engine().host_git(GitProcess { command, key, owner }, turn).await;
    process
        .map(|process| describe(&process))
        .map_err(|error| crate::process::refusal(call.engine(), &error, Some(&cwd)))
}

enum Made {
    /// The same key started this.
    Before(Box<ProcessInfo>),
    Now(HostedGit, Turn),
}

fn prepared(wait: &MayWait, call: &Call, params: &impl Hosted, key: Option<&str>) -> Result<Made, RpcError> {
    let root = owned(wait, call, params)?;
    if let Some(process) = key.and_then(|key| call.engine().started_under(key)) {
        return Ok(Made::Before(Box::new(describe(&process))));
    }
    let tree = tree(wait, call, root)?;
    let turn = write_turn(wait, call, &tree, params)?;
    let command = params.command(&tree).map_err(|error| of_git(call, error))?;
    Ok(Made::Now(command, turn))
}

fn write_turn<P: Hosted>(wait: &MayWait, call: &Call, tree: &WorkTree, _: &P) -> Result<Turn, RpcError> {
    call.engine().write_turn(wait, tree, P::WHAT).map_err(|busy| of_busy(&busy))
}

fn name(text: &Option<String>) -> Option<&OsStr> {
    text.as_deref().map(OsStr::new)
}

macro_rules! hosted {
    ($($params:ty = $what:literal, |$self:ident, $tree:ident| $command:expr;)*) => {
        $(impl Hosted for $params {
            const WHAT: &'static str = $what;

            fn key(&self) -> Option<&str> {
                self.key.as_deref()
            }

            fn command(&self, tree: &WorkTree) -> Result<HostedGit, GitError> {
                let ($self, $tree) = (self, tree);
                $command
            }
        })*
    };
}

hosted! {
    GitCommitParams = "git commit", |params, tree| tree.commit_command(&Commit {
        message: params.message.as_deref(),
        amend: params.amend,
        sign_off: params.sign_off,
    });
    GitPushParams = "git push", |params, tree| tree.push_command(&Push {
        remote: name(&params.remote),
        branch: name(&params.branch),
        set_upstream: params.set_upstream,
        force: params.force,
    });
    GitPullParams = "git pull", |params, tree| tree.pull_command(&Pull {
        remote: name(&params.remote),
        branch: name(&params.branch),
        how: match params.how {
            None => PullHow::AsSetUp,
            Some(GitPullHow::Rebase) => PullHow::Rebase,
            Some(GitPullHow::Merge) => PullHow::Merge,
            Some(GitPullHow::FastForward) => PullHow::FastForward,
        },
    });
    GitFetchParams = "git fetch", |params, tree| tree.fetch_command(&Fetch {
        remote: name(&params.remote),
        prune: params.prune,
    });
    GitSwitchParams = "git switch", |params, tree| tree.switch_command({
        let to = params.name.0.as_os_str();
        match (params.create, params.detach) {
            (true, true) => return Err(GitError::Asked("a new branch or no branch, not both")),
            (true, false) => SwitchTo::New { name: to, start: name(&params.start) },
            (false, true) => SwitchTo::Commit(to),
            (false, false) => SwitchTo::Branch(to),
        }
    });
    GitMergeParams = "git merge", |params, tree| tree.merge_command(&Merge {
        name: params.name.0.as_os_str(),
        fast_forward: params.fast_forward,
        message: params.message.as_deref(),
    });
}
