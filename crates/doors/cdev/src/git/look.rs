//! What git says of a repository. Nothing that the repository names is run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ostler_engine::MayWait;
use ostler_engine::workspace::work::{
    BranchInfo, Change, DiffOf, Diffs, FileDiff, LineCounts, Patch, Untracked, WorkTree,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{branch_name, opened};
use crate::error::{Code, Error};
use crate::method::Call;
use crate::place::{name_of, shown};
use crate::session::most;
use crate::workspace::WhichParams;

/// Commits of one answer.
const LOG_USUALLY: u32 = 50;
const LOG_MAX: u32 = 500;

/// How a repository stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitStatus {
    pub(crate) branch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    pub(crate) ahead: u64,
    pub(crate) behind: u64,
    pub(crate) staged: Vec<GitFile>,
    pub(crate) unstaged: Vec<GitFile>,
    pub(crate) untracked: Vec<GitFile>,
    pub(crate) conflicted: Vec<GitFile>,
    pub(crate) repo_name: String,
    pub(crate) repo_root: String,
    /// Filters that only the repository names. They were not run: a file that they would change may look changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters_left_out: Vec<String>,
}

/// A file that is different.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitFile {
    pub(crate) path: String,
    /// Git's letter.
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) additions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deletions: Option<u64>,
    /// What it was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old_path: Option<String>,
}

pub(crate) fn status(wait: &MayWait, call: &Call, params: WhichParams) -> Result<GitStatus, Error> {
    let (folder, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let status = tree.status(Untracked::All)?;
    let counts = |staged| tree.line_counts(staged).unwrap_or_default();
    let (staged_lines, unstaged_lines) = (counts(true), counts(false));
    let (ahead, behind) = status.branch.ahead_behind.unwrap_or_default();
    let upstream = status.branch.upstream.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
    let staged = status.changed.iter().filter(|change| change.index != b'.');
    let unstaged = status.changed.iter().filter(|change| change.work != b'.');
    let plain = |path: &Path, letter: &str| GitFile {
        path: shown(path),
        status: letter.to_owned(),
        additions: None,
        deletions: None,
        old_path: None,
    };
    Ok(GitStatus {
        branch: branch_name(&status.branch),
        upstream,
        ahead,
        behind,
        staged: staged.map(|change| file(change, change.index, &staged_lines)).collect(),
        unstaged: unstaged.map(|change| file(change, change.work, &unstaged_lines)).collect(),
        untracked: status.untracked.iter().map(|path| plain(path, "?")).collect(),
        conflicted: status.conflicted.iter().map(|change| plain(&change.path, "U")).collect(),
        repo_name: name_of(&folder),
        repo_root: shown(&folder),
        filters_left_out: status.filters_left_out,
    })
}

fn file(change: &Change<std::path::PathBuf>, letter: u8, lines: &LineCounts) -> GitFile {
    let counted = lines.get(&change.path).copied().flatten();
    GitFile {
        path: shown(&change.path),
        status: char::from(letter).to_string(),
        additions: counted.map(|(added, _)| added),
        deletions: counted.map(|(_, removed)| removed),
        old_path: change.from.as_deref().map(shown),
    }
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DiffParams {
    /// One file; everything when left out.
    pub(crate) path: Option<String>,
    pub(crate) workspace_id: Option<String>,
}

/// What is different in one file, or in all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct GitDiff {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// In git's own form.
    pub(crate) diff: String,
    /// It is in the index.
    pub(crate) is_staged: bool,
    /// Git does not know the file yet.
    pub(crate) is_new: bool,
    pub(crate) is_truncated: bool,
    /// Each file's own, where all were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diffs: Option<BTreeMap<String, String>>,
    /// Files of which there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) truncated_paths: Option<Vec<String>>,
    /// Filters and drivers of differences that were not run: a file that they are for may look different.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) filters_left_out: Vec<String>,
}

pub(crate) fn diff(wait: &MayWait, call: &Call, params: DiffParams) -> Result<GitDiff, Error> {
    let (_, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let most = call.state.settings.max_diff_bytes;
    match params.path.as_deref().filter(|path| !path.is_empty()) {
        None => everything(&tree, most),
        Some(path) => of_path(&tree, crate::file::within(path)?, most),
    }
}

/// The difference of one file: what is not staged, else what is.
pub(crate) fn of_path(tree: &WorkTree, path: PathBuf, most: usize) -> Result<GitDiff, Error> {
    if path.as_os_str().is_empty() {
        return Err(Error::params("git/diff: `path` names a folder; leave it out for everything"));
    }
    // A file that is too much is shown as far as it fits.
    let begun = |of: &DiffOf, file: &FileDiff, whole: Option<u64>, room: usize| {
        let text = tree.beginning(of, &file.path, room).unwrap_or_default();
        (String::from_utf8_lossy(&text).into_owned(), whole.is_none_or(|whole| (text.len() as u64) < whole))
    };
    let mut filters_left_out = Vec::new();
    for (of, is_staged) in [(DiffOf::Unstaged, false), (DiffOf::Staged, true)] {
        let Diffs { files, left_out, .. } = tree.diff(&of, Some(&path))?;
        filters_left_out = left_out;
        if files.is_empty() {
            continue;
        }
        let (mut diff, mut is_truncated) = (String::new(), false);
        for file in &files {
            let room = most.saturating_sub(diff.len());
            let (text, cut) = match file.patch {
                Patch::Cut(whole) => begun(&of, file, whole, room),
                _ => drawn(file, room),
            };
            diff.push_str(&text);
            is_truncated |= cut;
        }
        let is_new = files.iter().all(|file| file.letter == b'?' || file.letter == b'A');
        let path = Some(shown(&path));
        return Ok(GitDiff { path, diff, is_staged, is_new, is_truncated, filters_left_out, ..GitDiff::default() });
    }
    // Nothing is different: whether because it is as it was, or because there is no such file.
    tree.root().stat(&path)?;
    Ok(GitDiff { path: Some(shown(&path)), filters_left_out, ..GitDiff::default() })
}

fn everything(tree: &WorkTree, most: usize) -> Result<GitDiff, Error> {
    let (mut diffs, mut truncated, mut whole) = (BTreeMap::new(), Vec::new(), String::new());
    let mut filters_left_out = Vec::new();
    for of in [DiffOf::Staged, DiffOf::Unstaged] {
        let found = tree.diff(&of, None)?;
        filters_left_out = found.left_out;
        for file in found.files {
            let (text, cut) = drawn(&file, most.saturating_sub(whole.len()));
            whole.push_str(&text);
            truncated.extend(cut.then(|| shown(&file.path)));
            diffs.entry(shown(&file.path)).or_insert_with(String::new).push_str(&text);
        }
    }
    truncated.dedup();
    let is_truncated = !truncated.is_empty();
    let (diffs, truncated_paths) = (Some(diffs), Some(truncated));
    Ok(GitDiff { diff: whole, is_truncated, diffs, truncated_paths, filters_left_out, ..GitDiff::default() })
}

/// The text of a difference, and whether it is cut.
fn drawn(file: &FileDiff, most: usize) -> (String, bool) {
    let text = match &file.patch {
        Patch::Text { text, .. } => String::from_utf8_lossy(text).into_owned(),
        Patch::Binary => format!("Binary file {} differs\n", file.path.display()),
        Patch::Cut(_) => return (String::new(), true),
    };
    if text.len() <= most {
        return (text, false);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (text.get(..end).unwrap_or_default().to_owned(), true)
}

/// Every branch.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitBranches {
    pub(crate) current: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    pub(crate) ahead: u64,
    pub(crate) behind: u64,
    pub(crate) branches: Vec<GitBranch>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitBranch {
    pub(crate) name: String,
    pub(crate) current: bool,
    /// The same, for clients that read it by this name.
    pub(crate) is_current: bool,
    pub(crate) is_remote: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) behind: Option<u64>,
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

pub(crate) fn branches(wait: &MayWait, call: &Call, params: WhichParams) -> Result<GitBranches, Error> {
    let (_, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let all = tree.branches()?;
    let status = tree.status(Untracked::No)?;
    let (ahead, behind) = status.branch.ahead_behind.unwrap_or_default();
    let of = |branch: &BranchInfo| GitBranch {
        name: text(&branch.name),
        current: branch.current,
        is_current: branch.current,
        is_remote: branch.remote,
        upstream: branch.upstream.as_deref().map(text),
        ahead: branch.ahead_behind.map(|(ahead, _)| ahead),
        behind: branch.ahead_behind.map(|(_, behind)| behind),
    };
    Ok(GitBranches {
        current: branch_name(&status.branch),
        upstream: status.branch.upstream.as_deref().map(|name| String::from_utf8_lossy(name).into_owned()),
        ahead,
        behind,
        branches: all.iter().map(of).collect(),
    })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct LogParams {
    pub(crate) limit: Option<u32>,
    pub(crate) offset: u64,
    /// Only commits that changed this.
    pub(crate) path: Option<String>,
    /// Begin with this branch or commit.
    pub(crate) branch: Option<String>,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitLog {
    pub(crate) commits: Vec<GitCommitInfo>,
    pub(crate) has_more: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitCommitInfo {
    pub(crate) sha: String,
    pub(crate) short_sha: String,
    pub(crate) parents: Vec<String>,
    pub(crate) author: String,
    pub(crate) email: String,
    pub(crate) date: String,
    pub(crate) subject: String,
    pub(crate) body: String,
}

pub(crate) fn log(wait: &MayWait, call: &Call, params: LogParams) -> Result<GitLog, Error> {
    let (_, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let limit = most(params.limit, LOG_USUALLY, LOG_MAX) as usize;
    let path = params.path.as_deref().filter(|path| !path.is_empty()).map(crate::file::within).transpose()?;
    let from = params.branch.as_deref().filter(|branch| !branch.is_empty()).map(OsStr::new);
    let mut found = tree.log(from, path.as_deref(), params.offset, limit + 1)?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let commits = found.into_iter().map(|entry| GitCommitInfo {
        short_sha: super::short(&entry.commit),
        sha: entry.commit,
        parents: entry.parents,
        author: entry.author,
        email: entry.email,
        date: super::date(entry.time),
        subject: entry.subject,
        body: entry.body,
    });
    Ok(GitLog { commits: commits.collect(), has_more })
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitStashes {
    pub(crate) stashes: Vec<GitStashInfo>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct GitStashInfo {
    pub(crate) index: u64,
    pub(crate) sha: String,
    pub(crate) message: String,
    pub(crate) date: String,
}

pub(crate) fn stashes(wait: &MayWait, call: &Call, params: WhichParams) -> Result<GitStashes, Error> {
    let (_, tree) = opened(wait, call, params.workspace_id.as_deref())?;
    let found = tree.stashes()?;
    let of = |stash: ostler_engine::workspace::work::StashEntry| GitStashInfo {
        index: stash.number,
        sha: stash.commit,
        message: stash.message,
        date: super::date(stash.time),
    };
    Ok(GitStashes { stashes: found.into_iter().map(of).collect() })
}

/// The stash with this number, by its commit, which never means another.
pub(super) fn stash_commit(tree: &WorkTree, index: u64) -> Result<String, Error> {
    let all = tree.stashes()?;
    let found = all.into_iter().find(|stash| stash.number == index).map(|stash| stash.commit);
    found.ok_or_else(|| Error::new(Code::Git, format!("there is no stash {index}")))
}
