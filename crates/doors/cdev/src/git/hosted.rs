//! What runs hooks, asks other machines or changes many files: a hosted process, whose end is the answer. Who goes meanwhile
//! finds what came of it in the feed.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use ostler_engine::feed::GitDone;
use ostler_engine::workspace::GitProcess;
use ostler_engine::workspace::work::{
    Commit, Fetch, GitError, HostedGit, Pull, PullHow, Push, SwitchTo, Untracked, WorkTree,
};
use ostler_engine::{MayWait, Process};
use ostler_story::Exit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::{opened, short, told};
use crate::error::{Code, Error};
use crate::method::Call;
use crate::place::shown;

/// How long an answer waits: a slow network, a long hook. The process goes on after that.
const ENDS_WITHIN: Duration = Duration::from_secs(15 * 60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// As many of git's last lines as an error shows.
const LINES: usize = 20;

/// Runs git to its end. What it said, or why it failed.
fn run(
    wait: &MayWait,
    call: &Call,
    tree: &WorkTree,
    what: &'static str,
    command: Result<HostedGit, GitError>,
) -> Result<String, Error> {
    let named = |error: Error| error.with("operation", what);
    let turn = call.write_turn(wait, tree, what)?;
    let command = command.map_err(|error| named(error.into()))?;
    let git = GitProcess { command, key: None, owner: None };
    let started = Handle::current().block_on(call.state.engine.host_git(git, turn));
    let process = started.map_err(|error| named(Error::new(Code::Git, error.to_string())))?;
    let until = Instant::now() + ENDS_WITHIN;
    while process.is_running() {
        if Instant::now() > until {
            let message = format!("git {what} still runs as {}; what comes of it is told then", process.id());
            return Err(named(Error::new(Code::Git, message)));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let said = last_words(wait, &process);
    match process.exit() {
        Some(Exit::Code(0)) => Ok(said),
        _ => Err(named(Error::new(Code::Git, if said.is_empty() { format!("git {what} failed") } else { said }))),
    }
}

fn last_words(wait: &MayWait, process: &Process) -> String {
    process.last_lines(wait, LINES).unwrap_or_default().join("\n")
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct CommitParams {
    pub(crate) message: String,
    /// Push it too.
    #[serde(default)]
    pub(crate) push: bool,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct Committed {
    pub(crate) success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha: Option<String>,
    pub(crate) message: String,
    pub(crate) files_committed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pushed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

pub(crate) fn commit(wait: &MayWait, call: &Call, params: CommitParams) -> Result<Committed, Error> {
    if params.message.trim().is_empty() {
        return Err(Error::params("git/commit: `message` is empty"));
    }
    let (folder, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let staged = tree.status(Untracked::No)?;
    let files = staged.changed.iter().filter(|change| change.index != b'.').count() as u64;
    let commit = Commit { message: Some(&params.message), amend: false, sign_off: false };
    let ran = run(wait, call, &tree, "commit", tree.commit_command(&commit));
    let sha = head(&tree).filter(|_| ran.is_ok()).map(|commit| short(&commit));
    let message = counted("Committed", files, "file");
    let done = GitDone { message: message.clone(), commit: sha.clone(), files: Some(files), ..of("commit", &ran) };
    told(call, &folder, &tree, done);
    ran?;
    let mut committed = Committed { success: true, sha, message, files_committed: files, pushed: None, error: None };
    if params.push {
        let push = PushParams { workspace_id: params.workspace_id, ..PushParams::default() };
        let pushed = self::push(wait, call, push);
        committed.pushed = Some(pushed.is_ok());
        committed.error = pushed.err().map(|error| format!("committed, but not pushed: {}", error.message));
    }
    Ok(committed)
}

/// What was done, and to how many.
fn counted(done: &str, count: u64, noun: &str) -> String {
    format!("{done} {count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The commit that is checked out.
fn head(tree: &WorkTree) -> Option<String> {
    tree.log(None, None, 0, 1).ok()?.pop().map(|entry| entry.commit)
}

/// What the feed is told of an operation.
fn of(operation: &str, ran: &Result<String, Error>) -> GitDone {
    GitDone {
        operation: operation.to_owned(),
        error: ran.as_ref().err().map(|error| error.message.clone()),
        ..GitDone::default()
    }
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PushParams {
    /// Replace what is there, if it is what was last seen there.
    pub(crate) force: bool,
    pub(crate) set_upstream: bool,
    pub(crate) remote: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct Pushed {
    pub(crate) success: bool,
    pub(crate) message: String,
    pub(crate) commits_pushed: u64,
}

fn name(text: &Option<String>) -> Option<&OsStr> {
    text.as_deref().filter(|text| !text.is_empty()).map(OsStr::new)
}

pub(crate) fn push(wait: &MayWait, call: &Call, params: PushParams) -> Result<Pushed, Error> {
    let (folder, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let ahead = tree.status(Untracked::No)?.branch.ahead_behind;
    // What follows nothing yet is compared with everything that was ever seen there.
    let count = ahead.map_or_else(|| tree.unpushed().unwrap_or(0), |(ahead, _)| ahead);
    let push = Push {
        remote: name(&params.remote),
        branch: name(&params.branch),
        set_upstream: params.set_upstream,
        force: params.force,
    };
    let ran = run(wait, call, &tree, "push", tree.push_command(&push));
    let message = if count == 0 { "Everything up-to-date".into() } else { counted("Pushed", count, "commit") };
    let pushed = ran.is_ok().then_some(count);
    told(call, &folder, &tree, GitDone { message: message.clone(), pushed, ..of("push", &ran) });
    ran?;
    Ok(Pushed { success: true, message, commits_pushed: count })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PullParams {
    /// Put our commits on top of theirs.
    pub(crate) rebase: bool,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(crate) struct Pulled {
    pub(crate) success: bool,
    pub(crate) message: String,
    pub(crate) commits_pulled: u64,
    pub(crate) files_changed: u64,
    pub(crate) conflicted_files: Vec<String>,
}

pub(crate) fn pull(wait: &MayWait, call: &Call, params: PullParams) -> Result<Pulled, Error> {
    let (folder, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let before = head(&tree);
    let how = if params.rebase { PullHow::Rebase } else { PullHow::AsSetUp };
    let ran = run(wait, call, &tree, "pull", tree.pull_command(&Pull { remote: None, branch: None, how }));
    let conflicted: Vec<String> = match tree.status(Untracked::No) {
        Ok(status) => status.conflicted.iter().map(|change| shown(&change.path)).collect(),
        Err(_) => Vec::new(),
    };
    let count = before.as_deref().and_then(|old| taken_in(&tree, old)).unwrap_or(0);
    let message = if count == 0 { "Already up to date".into() } else { counted("Pulled", count, "commit") };
    let pulled = ran.is_ok().then_some(count);
    let done = GitDone { message: message.clone(), pulled, conflicted: conflicted.clone(), ..of("pull", &ran) };
    told(call, &folder, &tree, done);
    if let Err(error) = ran {
        if conflicted.is_empty() {
            return Err(error);
        }
        let message = format!("conflicts in {}: {}", conflicted.join(", "), error.message);
        return Err(Error::new(Code::GitConflict, message)
            .with("operation", "pull")
            .with("conflicted_files", conflicted));
    }
    let files_changed = before.and_then(|old| Some((old, head(&tree)?))).map_or(0, |(old, new)| files(&tree, old, new));
    Ok(Pulled { success: true, message, commits_pulled: count, files_changed, conflicted_files: Vec::new() })
}

/// Commits of the upstream that were not here before.
fn taken_in(tree: &WorkTree, old: &str) -> Option<u64> {
    let upstream = tree.status(Untracked::No).ok()?.branch.upstream?;
    let upstream = String::from_utf8(upstream).ok()?;
    let there = tree.branches().ok()?.into_iter().find(|branch| branch.remote && branch.name == *upstream)?.commit;
    tree.log_between(old, &there).ok().map(|commits| commits.len() as u64)
}

fn files(tree: &WorkTree, old: String, new: String) -> u64 {
    use ostler_engine::workspace::work::DiffOf;
    tree.plain_diff(&DiffOf::Between(old, new), None).map_or(0, |diffs| diffs.files.len() as u64)
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct FetchParams {
    pub(crate) remote: Option<String>,
    pub(crate) prune: bool,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Fetched {
    pub(crate) success: bool,
    pub(crate) message: String,
}

pub(crate) fn fetch(wait: &MayWait, call: &Call, params: FetchParams) -> Result<Fetched, Error> {
    let (folder, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let fetch = Fetch { remote: name(&params.remote), prune: params.prune };
    let ran = run(wait, call, &tree, "fetch", tree.fetch_command(&fetch));
    told(call, &folder, &tree, GitDone { message: "Fetched".into(), ..of("fetch", &ran) });
    ran.map(|_| Fetched { success: true, message: "Fetched".into() })
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct CheckoutParams {
    /// A branch, and nothing else: no path, no option.
    pub(crate) branch: String,
    /// Make it first.
    #[serde(default)]
    pub(crate) create: bool,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct CheckedOut {
    pub(crate) success: bool,
    pub(crate) branch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from_branch: Option<String>,
    pub(crate) message: String,
}

pub(crate) fn checkout(wait: &MayWait, call: &Call, params: CheckoutParams) -> Result<CheckedOut, Error> {
    if params.branch.is_empty() {
        return Err(Error::params("git/checkout: `branch` is empty"));
    }
    let (folder, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let from_branch = branch_of(&tree);
    let branch = OsStr::new(&params.branch);
    let to = if params.create { SwitchTo::New { name: branch, start: None } } else { SwitchTo::Branch(branch) };
    let ran = run(wait, call, &tree, "checkout", tree.switch_command(to));
    let message = format!("Switched to branch '{}'", params.branch);
    let now = branch_of(&tree);
    told(call, &folder, &tree, GitDone { message: message.clone(), branch: now, ..of("checkout", &ran) });
    ran?;
    Ok(CheckedOut { success: true, branch: params.branch, from_branch, message })
}

fn branch_of(tree: &WorkTree) -> Option<String> {
    let status = tree.status(Untracked::No).ok()?;
    Some(super::branch_name(&status.branch)).filter(|name| !name.is_empty())
}
