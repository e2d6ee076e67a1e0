//! `history.*`: every conversation that was ever had here, our sessions and what agents recorded in a terminal.

use crate::schema::{wire, words};
use crate::session::{SessionStatus, SessionUsage};
use crate::time::Timestamp;

words! {
    /// Who speaks.
    pub enum HistorySpeaker {
        Person = "person",
        Agent = "agent",
        /// The program around both: results of tools, notices, compaction.
        Program = "program",
    }

    /// What sort of element it is.
    pub enum HistoryElementKind {
        Text = "text",
        Thought = "thought",
        /// `mime` and `bytes`; the picture itself stays in the transcript.
        Image = "image",
        /// A tool is used: `id`, `name`, `title`, `input`, `diffs`.
        Tool = "tool",
        /// What came of it: `id` of the call, `text`, `is_error`, `diffs`.
        Result = "result",
        /// What was said before was summed up.
        Compaction = "compaction",
        /// Something worth knowing, or an error.
        Notice = "notice",
    }

    /// How a transcript is not the one that a position was in.
    pub enum HistoryChanged {
        /// It is shorter than it was.
        Truncated = "truncated",
        /// Another file has its name, or it was written anew.
        Replaced = "replaced",
    }

    /// What shows that a conversation is open elsewhere.
    pub enum HistoryEvidence {
        /// A program's command line names it.
        Argument = "argument",
        /// A program has its transcript open for writing.
        OpenFile = "open_file",
        /// Its transcript was written moments ago: a maybe.
        Recent = "recent",
    }
}

wire! {
    /// Which conversations.
    pub struct HistoryListParams {
        /// In this folder or beneath it.
        pub workspace: Option<String>,
        /// With this agent.
        pub agent: Option<String>,
        /// At most so many; 0 for as many as fit.
        #[serde(default)]
        pub limit: u32,
        /// Leave out so many of the newest.
        #[serde(default)]
        pub skip: u32,
    }

    /// Conversations, newest first.
    pub struct HistoryList {
        pub conversations: Vec<HistoryEntry>,
        /// How many there are in all.
        pub total: u64,
        /// Transcripts that there was no time to look into yet; ask again.
        pub behind: u64,
        /// Files that cannot be read, and why.
        pub unreadable: Vec<String>,
    }

    /// A conversation, each figure as far as it is told.
    pub struct HistoryEntry {
        /// What `history.*` takes: the session's id, or the agent's own id of the conversation.
        pub id: String,
        pub agent: String,
        /// The agent's own id of the conversation.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub conversation: Option<String>,
        /// The session that it is, or was last.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session: Option<String>,
        /// Where that session stands.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<SessionStatus>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workspace: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        /// What was asked first, in one line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub first_prompt: Option<String>,
        /// How many messages it has; a long transcript is counted by `history.get`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub messages: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub usage: Option<SessionUsage>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub began: Option<Timestamp>,
        pub active: Timestamp,
        /// The transcript's file.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub file: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bytes: Option<u64>,
        /// Only from `history.get`: a program that is not ours seems to be at it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub running: Option<HistoryRunning>,
    }

    pub struct HistoryRunning {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pid: Option<u32>,
        pub evidence: HistoryEvidence,
    }

    pub struct HistoryIdParams {
        /// Id or name of a session, the agent's own id of a conversation, or the unique beginning of one.
        pub id: String,
    }

    /// Messages from a place. Without one, the last of them; of `from`, `before` and `number` at most one.
    pub struct HistoryMessagesParams {
        pub id: String,
        /// This place and on.
        pub from: Option<String>,
        /// Back from this place.
        pub before: Option<String>,
        /// The message with this number and on; 0 is the first.
        pub number: Option<u64>,
        /// At most so many; 50 when left out, 500 at most.
        #[serde(default)]
        pub limit: u32,
        /// With `from`: wait so long for something new, at most 30000. Whoever follows asks again from `next`.
        #[serde(default)]
        pub wait_ms: u64,
    }

    pub struct HistoryMessages {
        /// In their order. One with an id that was told before replaces that one.
        pub messages: Vec<HistoryMessage>,
        /// Older ones: `before` this place.
        pub before: String,
        pub older: bool,
        /// Newer ones: `from` this place.
        pub next: String,
        /// There are newer ones already.
        pub newer: bool,
        /// The place that was asked for is none of this transcript any more: these begin anew.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub changed: Option<HistoryChanged>,
        /// Lines among these that could not be read.
        pub unread: u64,
    }

    pub struct HistoryMessage {
        /// Where it is: `from` this place begins with it. The text itself means nothing.
        pub position: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub time: Option<Timestamp>,
        pub speaker: HistorySpeaker,
        pub elements: Vec<HistoryElement>,
        /// Something in it is too long, and was cut.
        #[serde(default)]
        pub cut: bool,
    }

    /// A piece of a message; `kind` says which members it has.
    pub struct HistoryElement {
        pub kind: HistoryElementKind,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub input: Option<serde_json::Value>,
        #[serde(default)]
        pub is_error: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub diffs: Vec<HistoryDiff>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mime: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bytes: Option<u64>,
    }

    /// A change of a file, or of a part of it.
    pub struct HistoryDiff {
        pub path: String,
        /// What is replaced.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub old: Option<String>,
        /// What comes instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub new: Option<String>,
        /// The line at which it begins, where the agent tells it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub line: Option<u64>,
    }

    /// Words in what was said, run and touched. Without a capital letter they are found in either case.
    pub struct HistorySearchParams {
        pub query: String,
        /// Only in this conversation.
        pub id: Option<String>,
        pub workspace: Option<String>,
        pub agent: Option<String>,
        /// At most so many hits; 100 when left out, 1000 at most.
        #[serde(default)]
        pub limit: u32,
        /// At most so many of one conversation; 5 when left out.
        #[serde(default)]
        pub each: u32,
        /// How long to look, in milliseconds; 10000 when left out, 60000 at most.
        #[serde(default)]
        pub within_ms: u64,
    }

    pub struct HistoryFound {
        /// Conversations with hits, newest first.
        pub conversations: Vec<HistoryFoundIn>,
        /// Conversations that were looked through.
        pub searched: u64,
        /// Conversations that were not: no time, or hits enough.
        pub unsearched: u64,
        /// Transcripts that are not listed yet; ask again.
        pub behind: u64,
        pub bytes: u64,
        /// Lines that could not be read.
        pub unread: u64,
        /// Files that cannot be read, and why.
        pub unreadable: Vec<String>,
    }

    pub struct HistoryFoundIn {
        pub conversation: HistoryEntry,
        pub hits: Vec<HistoryHit>,
    }

    pub struct HistoryHit {
        /// `history.messages` `from` here begins with it.
        pub position: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub time: Option<Timestamp>,
        pub speaker: HistorySpeaker,
        /// The sort of element that holds it.
        pub kind: String,
        /// What stands around it, in one line.
        pub around: String,
    }
}
