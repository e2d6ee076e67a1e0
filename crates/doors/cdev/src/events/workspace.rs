//! What happens to the files and the git of a workspace, in this protocol's events.

use std::path::Path;

use ostler_engine::MayWait;
use ostler_engine::feed::{FileIs, Happened};
use ostler_story::FilePath;
use serde_json::{Value, json};

use super::Event;
use crate::{DoorState, git, place};

/// The event; nothing for a difference that is no more.
pub(super) fn event(wait: &MayWait, state: &DoorState, folder: &Path, happened: &Happened) -> Option<Event> {
    let mut event = match happened {
        Happened::File(file) => {
            let change = match file.is {
                FileIs::Created => "created",
                FileIs::Modified => "modified",
                FileIs::Deleted => "deleted",
                FileIs::Renamed => "renamed",
            };
            let members = json!({
                "path": file.path.to_string(),
                "change": change,
                "size": file.size,
                "old_path": file.was.as_ref().map(FilePath::to_string),
            });
            Event::new("file_changed", members)
        }
        Happened::Diff { path } => diff(wait, state, folder, path)?,
        Happened::Git(stands) => Event::new(
            "git_status_changed",
            json!({
                "branch": stands.branch.to_string(),
                "ahead": stands.ahead,
                "behind": stands.behind,
                "staged_count": stands.staged,
                "unstaged_count": stands.unstaged,
                "untracked_count": stands.untracked,
                "has_conflicts": stands.conflicts,
                "changed_files": stands.files.iter().map(FilePath::to_string).collect::<Vec<_>>(),
            }),
        ),
        Happened::Done(done) => {
            let mut members = json!({
                "operation": done.operation,
                "success": done.error.is_none(),
                "message": done.message,
                "error": done.error,
            });
            let more = [
                ("sha", done.commit.clone().map(Value::from)),
                ("files_affected", done.files.map(Value::from)),
                ("commits_pushed", done.pushed.map(Value::from)),
                ("commits_pulled", done.pulled.map(Value::from)),
                ("branch", done.branch.clone().map(Value::from)),
                ("conflicted_files", (!done.conflicted.is_empty()).then(|| done.conflicted.clone().into())),
            ];
            if let Some(members) = members.as_object_mut() {
                members.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
                for (name, nothing) in of_operation(&done.operation) {
                    members.entry(name).or_insert(nothing);
                }
            }
            Event::new("git_operation_completed", members)
        }
        Happened::Missed {} => Event::new("events_gap", json!({"reason": "missed"})),
        // From here on nothing is missed; what was before is for who asks.
        Happened::Watch { on: true, .. } => return None,
        Happened::Watch { on: false, why } => Event::new("events_gap", json!({"reason": "unwatched", "message": why})),
    };
    event.payload.insert("workspace_id".into(), place::id_of(folder).into());
    Some(event)
}

/// The members that the document gives an operation, as they are where there is nothing to say.
fn of_operation(operation: &str) -> Vec<(&'static str, Value)> {
    match operation {
        "commit" => vec![("sha", Value::Null), ("files_affected", json!(0))],
        "push" => vec![("commits_pushed", json!(0))],
        "pull" => vec![("commits_pulled", json!(0)), ("conflicted_files", json!([]))],
        "checkout" => vec![("branch", Value::Null)],
        "stage" | "unstage" | "discard" => vec![("files_affected", json!(0))],
        _ => Vec::new(),
    }
}

/// What is different in a file now.
fn diff(wait: &MayWait, state: &DoorState, folder: &Path, FilePath(path): &FilePath) -> Option<Event> {
    let root = state.engine.root(wait, folder).ok()?;
    let tree = state.engine.work_tree(wait, root).ok()?;
    let found = git::of_path(&tree, path.clone(), state.settings.max_diff_bytes).ok()?;
    let members = json!({
        "path": path.to_string_lossy(),
        "diff": found.diff,
        "is_staged": found.is_staged,
        "is_new": found.is_new,
        "is_truncated": found.is_truncated,
    });
    (!found.diff.is_empty()).then(|| Event::new("git_diff", members))
}
