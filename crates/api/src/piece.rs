//! The story of a session in pieces: what `session.watch` and `session.read` tell whoever asks for `pieces`. The daemon has
//! folded the records; whoever shows them folds nothing.

use serde_json::Value;

use crate::approval::Verdict;
use crate::history::HistoryDiff;
use crate::schema::{wire, words};
use crate::session::SessionUsage;
use crate::time::Timestamp;

words! {
    /// What a piece tells; it says which members a piece has.
    pub enum PieceKind {
        /// A prompt was accepted and waits: `number`, `blocks`, `door`.
        Accepted = "accepted",
        /// It will never be answered: `number`, `text`.
        Dropped = "dropped",
        /// Its turn begins: `number`; `blocks` if it was accepted in what was told.
        Begun = "begun",
        /// More words of a block: `voice`, `text`.
        Words = "words",
        /// A whole block, in place of its words: `voice`, `text`.
        Whole = "whole",
        /// An answer's whole will never come: `text`, its words as far as they were told.
        CutOff = "cut_off",
        /// A tool is to be used: `id`, `name`, `title`, `input`, `does`, `parent`, `diffs`.
        Tool = "tool",
        /// It wrote something while it runs: `id`, `text`.
        ToolOutput = "tool_output",
        /// It has ended, or was refused: `id`, `text`, `is_error`, `diffs`.
        ToolEnded = "tool_ended",
        /// A person is asked: `approval`, `id` of the call, `title`.
        Waits = "waits",
        /// They answered: `approval`, `verdict`, `text`, `by`.
        Answered = "answered",
        /// Nobody needs to answer any more: `approval`.
        TakenBack = "taken_back",
        /// Something went wrong: `text`, `reason`, `is_error` if the turn ends of it.
        Trouble = "trouble",
        /// A process of the agent begins; `text` says what was wrong with the one before.
        Process = "process",
        /// The turn is over: `number`, `reason`, `text`, `stopped`, `usage`.
        Ended = "ended",
        /// The agent's plan, in place of the one before: `steps`.
        Plan = "plan",
        /// What the turn has used so far: `usage`.
        Usage = "usage",
        /// Something worth knowing: `text`.
        Notice = "notice",
        /// What the agent offers: `offers`, each list in place of the one before.
        Offers = "offers",
        /// What holds from now on is different.
        Changed = "changed",
        /// Somebody wants the turn to stop.
        Stopping = "stopping",
        /// What waits goes on when somebody says so: the machine was restarted.
        Held = "held",
        /// It takes no more prompts.
        Closed = "closed",
    }

    /// Who speaks.
    pub enum PieceVoice {
        /// The agent, to whoever prompted it.
        Answer = "answer",
        /// The agent, to itself.
        Thought = "thought",
    }

    /// What a part of a prompt is.
    pub enum PieceBlockKind {
        Text = "text",
        /// `mime` and `bytes`; the picture itself stays in the journal.
        Image = "image",
        File = "file",
    }
}

wire! {
    /// One piece.
    pub struct SessionPiece {
        pub kind: PieceKind,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub number: Option<u64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub blocks: Vec<PieceBlock>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub door: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub voice: Option<PieceVoice>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub input: Option<Value>,
        /// read, edit, delete, move, search, execute, think, fetch or other.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub does: Option<String>,
        /// The call of the sub-agent that uses it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub diffs: Vec<HistoryDiff>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub approval: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub verdict: Option<Verdict>,
        /// Who answered, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub by: Option<String>,
        /// completed, interrupted, failed, refused, max_tokens or max_steps; of trouble: agent, resume, login, setup or line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        /// Somebody wanted it to stop.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub stopped: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub usage: Option<SessionUsage>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub steps: Vec<PlanStep>,
        /// Lists by their name (`commands`, `modes`, `models`, …), each of `name`, `about` and `chosen`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub offers: Option<Value>,
        /// Something in it is too long to be shown, and was cut.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub cut: bool,
    }

    /// A part of a prompt.
    pub struct PieceBlock {
        pub kind: PieceBlockKind,
        /// Words, or the path of a file.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mime: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bytes: Option<u64>,
    }

    pub struct PlanStep {
        pub text: String,
        /// pending, running or done.
        pub status: String,
    }

    /// What a record tells; a record that tells nothing has no pieces, and none is sent for it.
    pub struct PiecesRecord {
        pub record: u64,
        pub time: Timestamp,
        pub pieces: Vec<SessionPiece>,
    }

    /// What a record of a watched session tells.
    pub struct SessionPieces {
        pub watch: u64,
        /// Its number: a watch from the next one goes on after it.
        pub record: u64,
        pub time: Timestamp,
        pub pieces: Vec<SessionPiece>,
    }
}

impl SessionPiece {
    /// A piece of which only the kind is said.
    pub fn new(kind: PieceKind) -> Self {
        Self {
            kind,
            number: None,
            blocks: Vec::new(),
            door: None,
            voice: None,
            text: None,
            id: None,
            name: None,
            title: None,
            input: None,
            does: None,
            parent: None,
            diffs: Vec::new(),
            is_error: false,
            approval: None,
            verdict: None,
            by: None,
            reason: None,
            stopped: false,
            usage: None,
            steps: Vec::new(),
            offers: None,
            cut: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_says_only_what_it_has() {
        let piece = SessionPiece { text: Some("hi".into()), ..SessionPiece::new(PieceKind::Notice) };
        assert_eq!(serde_json::to_string(&piece).unwrap(), r#"{"kind":"notice","text":"hi"}"#);
        assert_eq!(serde_json::from_str::<SessionPiece>(r#"{"kind":"closed"}"#).unwrap().kind, PieceKind::Closed);
    }
}
