//! What an agent's tools changed, turn by turn: the second reader of a story's pieces that is not about words.
//!
//! A call that failed or was refused changed nothing. One that never ended may have: it is told, and said not to be finished.

use crate::{Diff, Piece, ToolCall, ToolKind};

/// Changes of one turn that are remembered, and their bytes: more than anybody reads.
const CALLS_MAX: usize = 2000;
const BYTES_MAX: usize = 4 << 20;

/// What the tools of one turn changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnChanged {
    /// The number of its prompt.
    pub number: u64,
    /// In the order of the calls.
    pub changes: Vec<ToolChanged>,
    /// It is over.
    pub over: bool,
    /// There was more than is remembered.
    pub cut: bool,
}

/// What one call changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChanged {
    /// The agent's id of the call.
    pub id: String,
    /// The tool, by the agent's name.
    pub tool: String,
    /// The files, where it does not tell what changed in them.
    pub paths: Vec<String>,
    /// What changed.
    pub diffs: Vec<Diff>,
    /// It has said that it is done.
    pub done: bool,
}

impl TurnChanged {
    /// A turn that begins.
    pub fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// What one more piece of the turn's story says.
    pub fn take(&mut self, piece: &Piece) {
        match piece {
            Piece::Tool(call) => self.called(call),
            Piece::ToolEnded { id, is_error: true, .. } => {
                self.changes.retain(|change| change.id != *id || change.done)
            }
            Piece::ToolEnded { id, diffs, .. } => {
                let room = self.room();
                let Some(change) = self.changes.iter_mut().rev().find(|change| change.id == *id) else { return };
                change.done = true;
                if change.diffs.is_empty() && bytes(diffs) <= room {
                    change.diffs.clone_from(diffs);
                }
            }
            Piece::Ended(_) => {
                self.over = true;
                self.changes.retain(|change| !change.paths.is_empty() || !change.diffs.is_empty());
            }
            _ => {}
        }
    }

    fn called(&mut self, call: &ToolCall) {
        let changes = matches!(call.kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move) || !call.diffs.is_empty();
        if !changes {
            return;
        }
        if self.changes.len() >= CALLS_MAX || bytes(&call.diffs) > self.room() {
            self.cut = true;
            return;
        }
        // An agent may tell of a call again, with more of its input.
        self.changes.retain(|change| change.id != call.id || change.done);
        let mut paths: Vec<String> = call.locations.iter().map(|location| location.path.clone()).collect();
        paths.retain(|path| call.diffs.iter().all(|diff| diff.path != *path));
        let (id, tool, diffs) = (call.id.clone(), call.name.clone(), call.diffs.clone());
        self.changes.push(ToolChanged { id, tool, paths, diffs, done: false });
    }

    fn room(&self) -> usize {
        BYTES_MAX.saturating_sub(self.changes.iter().map(|change| bytes(&change.diffs)).sum())
    }
}

fn bytes(diffs: &[Diff]) -> usize {
    diffs.iter().flat_map(|diff| [&diff.old, &diff.new]).flatten().map(String::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edit(id: &str, path: &str) -> Piece {
        let input = json!({"file_path": path, "old_string": "a", "new_string": "b"});
        Piece::Tool(Box::new(ToolCall::new(id, "Edit", ToolKind::Edit, input)))
    }

    fn ended(id: &str, is_error: bool) -> Piece {
        Piece::ToolEnded { id: id.into(), name: None, output: String::new(), is_error, diffs: Vec::new() }
    }

    #[test]
    fn what_failed_changed_nothing_and_what_never_ended_is_said_so() {
        let mut turn = TurnChanged::new(3);
        let read = ToolCall::new("r", "Read", ToolKind::Read, json!({"file_path": "/x"}));
        let pieces =
            [edit("1", "/a"), edit("2", "/b"), Piece::Tool(Box::new(read)), ended("1", false), ended("2", true)];
        pieces.iter().chain(&[edit("3", "/c")]).for_each(|piece| turn.take(piece));
        let told: Vec<_> = turn.changes.iter().map(|change| (change.diffs[0].path.as_str(), change.done)).collect();
        assert_eq!(told, [("/a", true), ("/c", false)]);
    }

    #[test]
    fn a_call_that_is_told_twice_is_one_and_its_result_may_bring_the_change() {
        let mut turn = TurnChanged::new(1);
        let bare = ToolCall::new("1", "write", ToolKind::Edit, json!({"path": "/a"}));
        turn.take(&Piece::Tool(Box::new(bare.clone())));
        turn.take(&Piece::Tool(Box::new(bare)));
        let diff = Diff { path: "/a".into(), old: None, new: Some("x".into()), line: None };
        let diffs = vec![diff];
        turn.take(&Piece::ToolEnded { id: "1".into(), name: None, output: String::new(), is_error: false, diffs });
        assert_eq!((turn.changes.len(), turn.changes[0].diffs.len(), turn.changes[0].done), (1, 1, true));
    }

    #[test]
    fn a_turn_that_changes_without_end_costs_bounded_memory() {
        let mut turn = TurnChanged::new(1);
        for number in 0..3 * CALLS_MAX {
            turn.take(&edit(&number.to_string(), "/a"));
        }
        assert!(turn.cut && turn.changes.len() == CALLS_MAX);
    }
}
