//! What git says of a workspace. Nothing that the repository names is run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ostler_api::{
    FilePath, GitBranch, GitBranchList, GitChange, GitCommit, GitDiff, GitDiffOf, GitDiffParams, GitFileDiff, GitKept,
    GitKeptList, GitLog, GitLogParams, GitParams, GitRemote, GitRemoteList, GitStashList, GitStashed, GitStatus,
    GitStatusParams, GitUntracked, GitWorktree, GitWorktreeList, RpcError,
};
use ostler_engine::MayWait;
use ostler_engine::session::Status as SessionStatus;
use ostler_engine::workspace::work::{
    BranchInfo, Change, DiffOf, Diffs, FileDiff, KEEP_FOR, KeptChanges, LineCounts, LogEntry, Patch, WorkTree,
};

use crate::call::Call;
use crate::info::disk;
use crate::place::{Placed, bad, of_git, path, second, seen};
use crate::words::Translate;

/// Entries of one list.
const LIST_MAX: usize = 10_000;
/// Commits of a page, when nobody says how many.
const LOG_USUALLY: usize = 50;

fn tree(wait: &MayWait, call: &Call, params: &impl Placed) -> Result<WorkTree, RpcError> {
    crate::place::tree(wait, call, seen(wait, call, params)?)
}

pub(crate) fn status(wait: &MayWait, call: &Call, params: GitStatusParams) -> Result<GitStatus, RpcError> {
    let root = seen(wait, call, &params)?;
    let untracked = params.untracked.unwrap_or(GitUntracked::Folders).translated();
    let failed = |error| of_git(call, error);
    let (top, mut status, lines) = if params.lines {
        let tree = crate::place::tree(wait, call, root)?;
        let counts = |staged| tree.line_counts(staged).map_err(failed);
        (tree.top().to_owned(), tree.status(untracked).map_err(failed)?, (counts(true)?, counts(false)?))
    } else {
        let known = call.engine().git_status(wait, root, untracked).map_err(failed)?;
        (known.top.clone(), known.status.clone(), (LineCounts::new(), LineCounts::new()))
    };
    let (staged_lines, unstaged_lines) = lines;
    let lengths = [status.changed.len(), status.untracked.len(), status.conflicted.len()];
    status.changed.truncate(LIST_MAX);
    status.untracked.truncate(LIST_MAX);
    status.conflicted.truncate(LIST_MAX);
    let letter = |letter: u8| char::from(letter).to_string();
    let staged = status.changed.iter().filter(|change| change.index != b'.');
    let unstaged = status.changed.iter().filter(|change| change.work != b'.');
    let both = |change: &Change<PathBuf>| letter(change.index) + &letter(change.work);
    let name = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| path(Path::new(OsStr::from_bytes(bytes))));
    Ok(GitStatus {
        top: top.display().to_string(),
        branch: name(&status.branch.name),
        commit: status.branch.commit.clone(),
        upstream: name(&status.branch.upstream),
        ahead: status.branch.ahead_behind.map(|(ahead, _)| ahead),
        behind: status.branch.ahead_behind.map(|(_, behind)| behind),
        operation: status.operation.map(Translate::translated),
        shallow: status.shallow,
        staged: staged.map(|change| changed(change, letter(change.index), &staged_lines)).collect(),
        unstaged: unstaged.map(|change| changed(change, letter(change.work), &unstaged_lines)).collect(),
        untracked: status.untracked.iter().map(|name| path(name)).collect(),
        conflicted: status.conflicted.iter().map(|change| changed(change, both(change), &unstaged_lines)).collect(),
        cut: lengths.iter().any(|length| *length > LIST_MAX),
        filters_left_out: status.filters_left_out,
    })
}

fn changed(change: &Change<PathBuf>, status: String, lines: &LineCounts) -> GitChange {
    let lines = lines.get(&change.path).copied().flatten();
    GitChange {
        path: path(&change.path),
        from: change.from.as_deref().map(path),
        status,
        submodule: change.submodule,
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
    }
}

pub(crate) fn diff(wait: &MayWait, call: &Call, params: GitDiffParams) -> Result<GitDiff, RpcError> {
    let tree = tree(wait, call, &params)?;
    let of = match (params.of.unwrap_or(GitDiffOf::Unstaged), params.commit) {
        (GitDiffOf::Unstaged, None) => DiffOf::Unstaged,
        (GitDiffOf::Staged, None) => DiffOf::Staged,
        (GitDiffOf::Commit, Some(commit)) => DiffOf::Commit(commit.into()),
        (GitDiffOf::Since, Some(commit)) => DiffOf::Since(commit.into()),
        (GitDiffOf::Commit | GitDiffOf::Since, None) => return Err(bad("git.diff: which `commit`?")),
        (_, Some(_)) => return Err(bad("git.diff: `commit` is for `of` commit and since")),
    };
    let path = params.path.as_ref().map(|path| path.0.as_path());
    let diffs = if params.plain { tree.plain_diff(&of, path) } else { tree.diff(&of, path) };
    diffs.map(|diffs| differences(&diffs)).map_err(|error| of_git(call, error))
}

pub(crate) fn differences(diffs: &Diffs) -> GitDiff {
    GitDiff {
        files: diffs.files.iter().map(difference).collect(),
        cut: diffs.cut,
        filters_left_out: diffs.left_out.clone(),
    }
}

fn difference(file: &FileDiff) -> GitFileDiff {
    let mut told = GitFileDiff {
        path: path(&file.path),
        from: file.from.as_deref().map(path),
        status: char::from(file.letter).to_string(),
        submodule: file.submodule,
        binary: file.patch == Patch::Binary,
        patch: None,
        patch_data: None,
        added: None,
        removed: None,
        cut: false,
        bytes: None,
    };
    match &file.patch {
        Patch::Binary => {}
        Patch::Cut(bytes) => (told.cut, told.bytes) = (true, *bytes),
        Patch::Text { text, added, removed } => {
            (told.added, told.removed) = (Some(*added), Some(*removed));
            match std::str::from_utf8(text) {
                Ok(text) => told.patch = Some(text.to_owned()),
                Err(_) => told.patch_data = Some(crate::workspace::encoded(text)),
            }
        }
    }
    told
}

pub(crate) fn log(wait: &MayWait, call: &Call, params: GitLogParams) -> Result<GitLog, RpcError> {
    let tree = tree(wait, call, &params)?;
    let limit = if params.limit == 0 { LOG_USUALLY } else { params.limit as usize };
    let from = params.from.as_deref().map(OsStr::new);
    let path = params.path.as_ref().map(|path| path.0.as_path());
    let commits = tree.log(from, path, params.skip, limit).map_err(|error| of_git(call, error))?;
    Ok(GitLog { commits: commits.into_iter().map(commit).collect() })
}

pub(crate) fn commit(entry: LogEntry) -> GitCommit {
    let LogEntry { commit, parents, author, email, time, committed, subject, body } = entry;
    GitCommit { commit, parents, author, email, time: second(time), committed: second(committed), subject, body }
}

pub(crate) fn branches(wait: &MayWait, call: &Call, params: GitParams) -> Result<GitBranchList, RpcError> {
    let mut branches = tree(wait, call, &params)?.branches().map_err(|error| of_git(call, error))?;
    branches.truncate(LIST_MAX);
    Ok(GitBranchList { branches: branches.into_iter().map(branch).collect() })
}

fn branch(branch: BranchInfo) -> GitBranch {
    GitBranch {
        name: path(branch.name.as_ref()),
        remote: branch.remote,
        current: branch.current,
        commit: branch.commit,
        upstream: branch.upstream.as_deref().map(|name| path(name.as_ref())),
        ahead: branch.ahead_behind.map(|(ahead, _)| ahead),
        behind: branch.ahead_behind.map(|(_, behind)| behind),
        time: branch.time.map(second),
        worktree: branch.worktree.as_deref().map(path),
    }
}

pub(crate) fn remotes(wait: &MayWait, call: &Call, params: GitParams) -> Result<GitRemoteList, RpcError> {
    let remotes = tree(wait, call, &params)?.remotes().map_err(|error| of_git(call, error))?;
    let remote = remotes.into_iter().map(|remote| GitRemote {
        name: path(remote.name.as_ref()),
        url: remote.url,
        push_url: remote.push_url,
    });
    Ok(GitRemoteList { remotes: remote.collect() })
}

pub(crate) fn stashes(wait: &MayWait, call: &Call, params: GitParams) -> Result<GitStashList, RpcError> {
    let stashes = tree(wait, call, &params)?.stashes().map_err(|error| of_git(call, error))?;
    let stash = stashes.into_iter().take(LIST_MAX).map(|stash| GitStashed {
        commit: stash.commit,
        time: second(stash.time),
        message: stash.message,
    });
    Ok(GitStashList { stashes: stash.collect() })
}

/// The work trees, each with the sessions whose workspace is in it.
pub(crate) fn worktrees(wait: &MayWait, call: &Call, params: GitParams) -> Result<GitWorktreeList, RpcError> {
    let trees = tree(wait, call, &params)?.trees().map_err(|error| of_git(call, error))?;
    let sessions = call.engine().sessions().list();
    let open: Vec<(String, PathBuf)> = sessions
        .iter()
        .map(|session| session.view())
        .filter(|view| view.status != SessionStatus::Closed)
        .map(|view| (view.id, view.workspace.canonicalize().unwrap_or(view.workspace)))
        .collect();
    // A work tree may lie in another one: a session is in the innermost.
    let within = |place: &Path| {
        let holding = trees.iter().map(|tree| tree.path.as_path()).filter(|tree| place.starts_with(tree));
        holding.max_by_key(|tree| tree.as_os_str().len())
    };
    let worktrees = trees.iter().map(|tree| GitWorktree {
        path: path(&tree.path),
        commit: tree.commit.clone(),
        branch: tree.branch.as_deref().map(|name| path(name.as_ref())),
        bare: tree.bare,
        locked: tree.locked,
        gone: tree.gone,
        sessions: open.iter().filter(|(_, at)| within(at) == Some(&tree.path)).map(|(id, _)| id.clone()).collect(),
    });
    Ok(GitWorktreeList { worktrees: worktrees.collect() })
}

/// What was discarded in this workspace and can be put back.
pub(crate) fn kept(wait: &MayWait, call: &Call, params: GitParams) -> Result<GitKeptList, RpcError> {
    let root = seen(wait, call, &params)?;
    let all = call.engine().discarded(wait).map_err(|error| disk(call.engine(), "nothing was found", &error))?;
    let here = all.into_iter().filter(|kept| kept.root == root.path());
    Ok(GitKeptList { kept: here.map(|kept| kept_changes(&kept)).collect() })
}

pub(crate) fn kept_changes(kept: &KeptChanges) -> GitKept {
    GitKept {
        id: kept.id.clone(),
        root: kept.root.display().to_string(),
        paths: paths(&kept.paths),
        bytes: kept.bytes,
        discarded: kept.time.into(),
        until: (kept.time + KEEP_FOR).into(),
    }
}

pub(crate) fn paths(paths: &[PathBuf]) -> Vec<FilePath> {
    paths.iter().map(|name| path(name)).collect()
}
