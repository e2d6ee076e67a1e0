//! `session.changes`: what a session changed, from its tools and from git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_api::{
    ChangedFile, FileEdit, FilePath, RpcError, SessionChanges, SessionChangesParams, Timestamp, TurnChanges,
};
use ostler_engine::Origin;
use ostler_engine::session::ChangedTurn;
use ostler_engine::workspace::work::{DiffOf, GitError, LogEntry, WorkTree};
use ostler_story::{Diff, ToolChanged};

use crate::DoorState;
use crate::git::look;
use crate::info::disk;
use crate::place::of_git;
use crate::session::own;

const MICROS: u64 = 1_000_000;

pub(crate) fn changes(
    shared: &DoorState,
    origin: &Origin,
    params: SessionChangesParams,
) -> Result<SessionChanges, RpcError> {
    let session = own(shared, origin, &params.id)?;
    let view = session.view();
    let found =
        session.changes(params.turn).map_err(|error| disk(&shared.engine, "what was said cannot be read", &error))?;
    if let Some(turn) = params.turn.filter(|_| found.turns.is_empty()) {
        let message = format!("{} has no turn {turn}", crate::info::of_session(&session));
        return Err(RpcError::new(ostler_api::ErrorKind::NotFound, message));
    }
    let roots = [Some(view.workspace.clone()), view.workspace.canonicalize().ok()];
    let roots: Vec<PathBuf> = roots.into_iter().flatten().collect();
    let mut told: Vec<TurnChanges> = found.turns.iter().map(|turn| turn_changes(turn, &roots)).collect();
    let mut answer = SessionChanges { turns: Vec::new(), diff: None, since_known: false, cut: found.cut };
    if params.git
        && let Some(tree) = work_tree(shared, &view.workspace)?
    {
        let failed = |error| of_git(shared, error);
        for (turn, of) in told.iter_mut().zip(&found.turns) {
            let commits = commits(&tree, of).map_err(failed)?;
            turn.commits = commits.into_iter().map(look::commit).collect();
        }
        let began = params.turn.and(found.turns.first()).map_or(view.created_ms / 1000, |turn| turn.began / MICROS);
        let since = tree.stood_at(began).map_err(failed)?;
        answer.since_known = since.is_some();
        let of = match (params.turn, since) {
            (None, Some(commit)) => Some(DiffOf::Since(commit.into())),
            (None, None) => Some(DiffOf::Since("HEAD".into())),
            (Some(_), Some(old)) => match found
                .turns
                .first()
                .and_then(|turn| end_of(&tree, turn).transpose())
                .transpose()
                .map_err(failed)?
            {
                Some(new) => Some(DiffOf::Between(old, new)),
                None => None,
            },
            (Some(_), None) => None,
        };
        answer.diff =
            of.map(|of| tree.diff(&of, None)).transpose().map_err(failed)?.map(|diffs| look::differences(&diffs));
    }
    told.retain(|turn| params.turn.is_some() || !turn.files.is_empty() || !turn.commits.is_empty());
    answer.turns = told;
    Ok(answer)
}

/// The work tree of a session that is still there and is one.
fn work_tree(shared: &DoorState, workspace: &Path) -> Result<Option<WorkTree>, RpcError> {
    let Ok(root) = shared.engine.root(workspace) else { return Ok(None) };
    match shared.engine.work_tree(root) {
        Ok(tree) => Ok(Some(tree)),
        Err(GitError::NotARepository(_) | GitError::Bare(_)) => Ok(None),
        Err(error) => Err(of_git(shared, error)),
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
