//! `session.changes`: what a session changed, from its tools and from git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_api::{
    ChangedFile, ErrorKind, FileEdit, FilePath, RpcError, SessionChanges, SessionChangesParams, Timestamp, TurnChanges,
};
use ostler_engine::MayWait;
use ostler_engine::session::ChangedTurn;
use ostler_engine::workspace::work::{DiffOf, Diffs, GitError, LogEntry, WorkTree};
use ostler_story::{Diff, ToolChanged};

use crate::call::Call;
use crate::git::look;
use crate::info::disk;
use crate::place::of_git;
use crate::session::own;

const MICROS: u64 = 1_000_000;

pub(crate) fn changes(wait: &MayWait, call: &Call, params: SessionChangesParams) -> Result<SessionChanges, RpcError> {
    let session = own(call, &params.id)?;
    let view = session.view();
    let unread = |error| disk(call.engine(), "what was said cannot be read", &error);
    let found = session.changes(wait, params.turn).map_err(unread)?;
    if let Some(turn) = params.turn.filter(|_| found.turns.is_empty()) {
        let message = format!("{} has no turn {turn}", crate::info::of_session(&session));
        let hint = match session.view().prompts {
            0 => "it was given no prompt yet".to_owned(),
            1 => "it had one turn: 1".to_owned(),
            last => format!("its turns are 1 to {last}"),
        };
        return Err(RpcError::new(ErrorKind::NotFound, message).hint(hint));
    }
    let roots = [Some(view.workspace.clone()), view.workspace.canonicalize().ok()];
    let roots: Vec<PathBuf> = roots.into_iter().flatten().collect();
    let turns = found.turns.iter().map(|turn| turn_changes(turn, &roots)).collect();
    let mut answer = SessionChanges { turns, diff: None, since_known: false, cut: found.cut };
    if params.git
        && let Some(tree) = work_tree(wait, call, &view.workspace)?
    {
        let only = params.turn.and(found.turns.first());
        let of_git = |error| of_git(call, error);
        for (told, turn) in answer.turns.iter_mut().zip(&found.turns) {
            told.commits = commits(&tree, turn).map_err(of_git)?.into_iter().map(look::commit).collect();
        }
        let began = only.map_or(view.created_ms / 1000, |turn| turn.began / MICROS);
        let since = tree.stood_at(began).map_err(of_git)?;
        answer.since_known = since.is_some();
        answer.diff = difference(&tree, since, only).map_err(of_git)?.as_ref().map(look::differences);
    }
    answer.turns.retain(|turn| params.turn.is_some() || !turn.files.is_empty() || !turn.commits.is_empty());
    Ok(answer)
}

/// Everything since then, committed or not; of one turn, what was committed in it.
fn difference(tree: &WorkTree, since: Option<String>, only: Option<&ChangedTurn>) -> Result<Option<Diffs>, GitError> {
    let of = match (only, since) {
        (None, since) => DiffOf::Since(since.unwrap_or_else(|| "HEAD".to_owned()).into()),
        (Some(turn), Some(old)) => match end_of(tree, turn)? {
            Some(new) => DiffOf::Between(old, new),
            None => return Ok(None),
        },
        (Some(_), None) => return Ok(None),
    };
    tree.diff(&of, None).map(Some)
}

/// The work tree of a session that is still there and is one.
fn work_tree(wait: &MayWait, call: &Call, workspace: &Path) -> Result<Option<WorkTree>, RpcError> {
    let Ok(root) = call.engine().root(wait, workspace) else { return Ok(None) };
    match call.engine().work_tree(wait, root) {
        Ok(tree) => Ok(Some(tree)),
        Err(GitError::NotARepository(_) | GitError::Bare(_)) => Ok(None),
        Err(error) => Err(of_git(call, error)),
    }
}

/// Where the work tree stood when a turn ended, or stands.
fn end_of(tree: &WorkTree, turn: &ChangedTurn) -> Result<Option<String>, GitError> {
    tree.stood_at(turn.ended.map_or(u64::MAX, |ended| ended / MICROS))
}

/// The commits that were made in a turn, as far as git tells.
fn commits(tree: &WorkTree, turn: &ChangedTurn) -> Result<Vec<LogEntry>, GitError> {
    match (tree.stood_at(turn.began / MICROS)?, end_of(tree, turn)?) {
        (Some(old), Some(new)) if old != new => tree.log_between(&old, &new),
        _ => Ok(Vec::new()),
    }
}

fn turn_changes(turn: &ChangedTurn, roots: &[PathBuf]) -> TurnChanges {
    TurnChanges {
        turn: turn.changed.number,
        began: Timestamp::from_micros(turn.began),
        ended: turn.ended.map(Timestamp::from_micros),
        files: turn.changed.changes.iter().flat_map(|change| files(change, roots)).collect(),
        commits: Vec::new(),
    }
}

/// The files of one call, each once.
fn files(change: &ToolChanged, roots: &[PathBuf]) -> Vec<ChangedFile> {
    let mut files: BTreeMap<&str, Vec<&Diff>> = change.paths.iter().map(|path| (path.as_str(), Vec::new())).collect();
    for diff in &change.diffs {
        files.entry(&diff.path).or_default().push(diff);
    }
    let edit = |diff: &&Diff| FileEdit { old: diff.old.clone(), new: diff.new.clone(), line: diff.line };
    let file = |(path, diffs): (&str, Vec<&Diff>)| ChangedFile {
        path: shown(Path::new(path), roots),
        tool: change.tool.clone(),
        edits: diffs.iter().map(edit).collect(),
        unfinished: !change.done,
    };
    files.into_iter().map(file).collect()
}

/// From the workspace on, where it is beneath it.
fn shown(path: &Path, roots: &[PathBuf]) -> FilePath {
    let beneath = roots.iter().find_map(|root| path.strip_prefix(root).ok());
    FilePath::from(beneath.unwrap_or(path))
}
