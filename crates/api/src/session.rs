//! `session.*`: conversations with coding agents, and what their watchers are told.

pub use ostler_story::{Autonomy, Lifetime, LimitState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::piece::PiecesRecord;
use crate::process::{Missing, WinSize};
use crate::schema::{Schema, wire, words};
use crate::session_event::SessionEvent;
use crate::time::Timestamp;

words! {
    /// How a session is doing.
    pub enum SessionStatus {
        /// It takes a prompt.
        Idle = "idle",
        /// A turn is running.
        Running = "running",
        /// The agent waits for an answer: see `approvals`.
        Waiting = "waiting",
        /// The last turn was stopped, or its process ended in the middle; the next prompt goes on.
        Interrupted = "interrupted",
        /// The last turn failed; `why` says of what.
        Failed = "failed",
        /// It takes no more prompts. What was said is kept.
        Closed = "closed",
    }
}

wire! {
    /// What a session has used over all its turns and processes. A figure that no agent gave is absent.
    pub struct SessionUsage {
        pub input_tokens: Option<u64>,
        pub output_tokens: Option<u64>,
        /// Tokens of the input that came from a cache.
        pub cached_tokens: Option<u64>,
        pub cost_usd: Option<f64>,
        /// Tokens that the conversation holds now, and how many it can.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub context_used: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub context_size: Option<u64>,
    }

    /// How much of a limit of use is used up, as the agent tells it.
    pub struct UsageLimit {
        /// Which limit, in the agent's word.
        pub name: String,
        pub used_percent: Option<f64>,
        /// When it begins anew.
        pub resets: Option<Timestamp>,
        pub state: LimitState,
    }

    /// All there is to say about a session.
    pub struct SessionInfo {
        /// `s…`, unique for ever on this machine.
        pub id: String,
        pub uuid: String,
        pub name: Option<String>,
        /// What the clients of another door call it.
        pub alias: Option<String>,
        /// The agent's name; for a command of one's own its program.
        pub agent: String,
        pub workspace: String,
        pub autonomy: Autonomy,
        /// The agent's own word for its mode, where that was given instead.
        pub raw_mode: Option<String>,
        /// The model that was asked for.
        pub model: Option<String>,
        /// The model that answers, as the agent says; absent until it has said so.
        pub reported_model: Option<String>,
        /// What the agent calls the conversation, where it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        /// The limits of use that the agent told of.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub limits: Vec<UsageLimit>,
        /// The agent's own id of the conversation.
        pub agent_session: Option<String>,
        pub lifetime: Lifetime,
        /// The door it was made through.
        pub door: String,
        pub status: SessionStatus,
        /// Why it failed, or stopped by itself.
        pub why: Option<String>,
        /// A restart of the machine stopped it: `session.continue` goes on.
        #[serde(default)]
        pub rebooted: bool,
        /// Its last turn failed because nobody is logged in to the agent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub logged_out: bool,
        /// Prompts that wait for their turn.
        pub queued: u64,
        /// The prompt that is being answered.
        pub turn: Option<u64>,
        pub created: Timestamp,
        pub activity: Timestamp,
        /// The agent's process, while one lives.
        pub process: Option<String>,
        /// The newest record; a watch from the next one sees only what is new.
        pub last: u64,
        /// The git work tree that was made for it.
        pub worktree: Option<String>,
        /// The folder that the work tree was made for.
        pub repository: Option<String>,
        /// Requests of its agent that wait for a person.
        #[serde(default)]
        pub approvals: Vec<String>,
        pub usage: Option<SessionUsage>,
        /// The terminal program that has the conversation, while the agent's own screen is open: no prompts then.
        pub screen: Option<String>,
        /// The process that was to make its work tree ready has failed: this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failed_setup: Option<String>,
    }

    /// Opens the agent's own screen on a conversation, or finds the one that is open.
    pub struct ScreenParams {
        pub id: String,
        pub size: WinSize,
        /// What the person's terminal is, and their language.
        #[serde(default)]
        pub env: Vec<(String, String)>,
        /// Stop a turn that runs, and drop what waits.
        #[serde(default)]
        pub interrupt: bool,
    }

    /// A conversation to begin.
    pub struct SessionCreateParams {
        /// claude, codex, gemini, opencode, echo, acp (with `command`), or a name from the settings.
        pub agent: String,
        /// With agent `acp`: the program that speaks the Agent Client Protocol, and its arguments.
        #[serde(default)]
        pub command: Vec<String>,
        /// The agent's program, if it is not found by its usual name.
        pub program: Option<String>,
        /// The folder to work in, absolute.
        pub workspace: String,
        /// A name to find it by.
        pub name: Option<String>,
        /// `ask` when left out.
        pub autonomy: Option<Autonomy>,
        /// The agent's own word for a mode, instead of what `autonomy` stands for.
        pub raw_mode: Option<String>,
        pub model: Option<String>,
        /// `session` when left out.
        pub lifetime: Option<Lifetime>,
        /// The agent's own id of a conversation to go on with.
        pub resume: Option<String>,
        /// For the agent alone; kept in memory, written nowhere.
        #[serde(default)]
        pub env: Vec<(String, String)>,
        /// Make a git work tree of the workspace's repository for it, on a branch of its own.
        #[serde(default)]
        pub worktree: bool,
        /// With `worktree`: the branch to make; `ostler/…` when left out.
        pub branch: Option<String>,
        /// Two requests with the same key make one session.
        pub key: Option<String>,
    }

    /// What to list.
    pub struct SessionListParams {
        /// Also those that were closed.
        #[serde(default)]
        pub all: bool,
    }

    pub struct SessionList {
        pub sessions: Vec<SessionInfo>,
    }

    /// Which session: its id, its UUID, its name, a client's alias, the agent's own id, or a unique prefix of an id.
    pub struct SessionIdParams {
        pub id: String,
    }

    /// Which session, and a key that makes a repeated request harmless.
    pub struct SessionIdKeyParams {
        pub id: String,
        pub key: Option<String>,
    }

    /// Words for the agent. They wait for their turn if one is running.
    pub struct PromptParams {
        pub id: String,
        /// The prompt as text; or else `blocks`.
        pub text: Option<String>,
        #[serde(default)]
        pub blocks: Vec<PromptBlock>,
        /// Refuse instead of waiting for a running turn.
        #[serde(default)]
        pub refuse_if_busy: bool,
        /// Two requests with the same key are one prompt.
        pub key: Option<String>,
    }

    /// The prompt is in the journal: it will be answered, whatever happens to the client or the daemon.
    pub struct PromptAccepted {
        /// The session's id.
        pub session: String,
        /// Its number in this session, from 1.
        pub number: u64,
        /// 0: it runs now. Else its place among those that wait.
        pub position: u64,
        /// The record that says so: what follows from the prompt comes after it.
        pub record: u64,
        /// This key was accepted before; nothing was added.
        pub again: bool,
    }

    /// A prompt that waits for its turn, and what it says from now on.
    pub struct SessionEditParams {
        pub id: String,
        /// Its number in this session.
        pub number: u64,
        /// Its words, in place of those before; its pictures and files stay. Left out: it is taken back.
        pub text: Option<String>,
    }

    pub struct SessionEdited {
        /// It did wait, and this holds; else its turn has come, or it is not there.
        pub waited: bool,
    }

    /// Stops the running turn.
    pub struct InterruptParams {
        pub id: String,
        /// Also drop the prompts that wait.
        #[serde(default)]
        pub clear_queue: bool,
        /// End the agent's process at once, instead of asking the agent to stop first.
        #[serde(default)]
        pub end_process: bool,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    pub struct Interrupted {
        /// Something was running, or waiting and dropped.
        pub interrupted: bool,
        /// So many prompts waited and will not run.
        #[serde(default)]
        pub dropped: u64,
    }

    pub struct Continued {
        /// So many prompts that were held go on.
        pub held: u64,
        /// Nothing was held: the agent was told this.
        pub told: Option<String>,
    }

    /// What is to be different from the next turn on. What is left out stays; an empty text goes back to the agent's own.
    pub struct SessionChangeParams {
        pub id: String,
        pub name: Option<String>,
        pub autonomy: Option<Autonomy>,
        pub raw_mode: Option<String>,
        pub model: Option<String>,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// What became of the work tree that was made for a session.
    pub struct WorktreeFate {
        pub path: String,
        pub branch: String,
        /// It held no changes and is gone.
        pub removed: bool,
        /// Why it is still there.
        pub kept_because: Option<String>,
        /// Its branch had nothing of its own and is gone too.
        pub branch_removed: bool,
    }

    /// It takes no more prompts, and its process has ended.
    pub struct SessionClosed {
        pub session: SessionInfo,
        pub worktree: Option<WorktreeFate>,
    }

    /// From where to watch a session.
    pub struct WatchParams {
        pub id: String,
        /// The first record wanted; the oldest that is kept when left out.
        pub from: Option<u64>,
        /// Instead of `from`: begin with the last so many prompts.
        pub prompts: Option<u64>,
        /// Tell the story in pieces, as `session.pieces`, instead of records.
        #[serde(default)]
        pub pieces: bool,
    }

    /// A watch: records follow as `session.events`, and `session.gap` where retention cut. It goes on after the session is
    /// closed, until `session.unwatch`.
    pub struct Watching {
        /// Names this watch on this connection.
        pub watch: u64,
        pub session: SessionInfo,
        /// The first record that will come, if there is one already.
        pub from: u64,
        /// The newest record at this moment.
        pub last: u64,
    }

    pub struct UnwatchParams {
        pub watch: u64,
    }

    /// One record of a session's journal: what one line of the agent means, or what the daemon did.
    pub struct SessionEvents {
        pub watch: u64,
        /// Its number: a watch from the next one goes on after it.
        pub record: u64,
        pub time: Timestamp,
        /// Which process of the session said it, from 1; 0 for the daemon.
        pub source: u32,
        /// Where the line ended in what that process wrote; the largest number for what follows from the output's end.
        pub src_end: u64,
        /// None, one or several, told apart by their `type`.
        pub events: Vec<SessionEvent>,
    }

    /// Records from the newest backwards, a page at a time: what a screen shows first.
    pub struct SessionReadParams {
        pub id: String,
        /// Only records before this one; left out, the newest.
        pub before: Option<u64>,
        /// At most so many, 200 unless told; fewer come where they are long.
        pub limit: Option<u64>,
        /// Tell the story in pieces instead of records. Words whose block is whole in the same page are left out.
        #[serde(default)]
        pub pieces: bool,
    }

    pub struct SessionPage {
        /// In the order in which they were made.
        pub records: Vec<SessionRecord>,
        /// With `pieces`: what they tell; a record that tells nothing is left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub pieces: Vec<PiecesRecord>,
        /// The first record that was read: the page before this one ends before it.
        #[serde(default)]
        pub first: u64,
        /// There are older ones, before the first of these.
        pub more: bool,
        /// The newest record at this moment: a watch from the next one goes on after it.
        pub last: u64,
    }

    /// One record of a session's journal, as `session.events` tells it.
    pub struct SessionRecord {
        pub record: u64,
        pub time: Timestamp,
        pub source: u32,
        pub src_end: u64,
        pub events: Vec<SessionEvent>,
    }

    /// Records before `first` are missing; the watch goes on there.
    pub struct SessionGap {
        pub watch: u64,
        pub first: u64,
        /// Why; an older daemon knows retention only, and does not say.
        pub missing: Option<Missing>,
    }

    /// The journal cannot be read any further: the last notification of a watch.
    pub struct SessionLost {
        pub watch: u64,
        pub message: String,
    }

    /// What an agent wrote, as it wrote it, while its process is kept.
    pub struct SessionRawParams {
        pub id: String,
        /// `source` of the record.
        pub source: u32,
        /// `src_end` of the record before it with the same source; 0 for the first.
        pub from: u64,
        /// `src_end` of the record.
        pub to: u64,
    }

    pub struct SessionRaw {
        /// Base64; absent when the process's journal was let go.
        pub data: Option<String>,
    }
}

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PromptBlock {
    /// Words.
    Text { text: String },
    /// A picture: its media type, and its bytes in base64.
    Image { mime: String, data: String },
    /// A file of the workspace to look at.
    File { path: String },
}

impl SessionInfo {
    /// Where its work is: its work tree, or once it is closed the folder that that was made for, because it may be gone.
    pub fn folder(&self) -> &str {
        let closed = self.repository.as_ref().filter(|_| self.status == SessionStatus::Closed);
        closed.or(self.worktree.as_ref()).unwrap_or(&self.workspace)
    }
}

impl Schema for PromptBlock {
    fn schema() -> Value {
        let block = |kind: &str, fields: &[&str]| {
            let mut properties = serde_json::Map::from_iter([("type".to_owned(), json!({"const": kind}))]);
            properties.extend(fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))));
            let required: Vec<&str> = std::iter::once("type").chain(fields.iter().copied()).collect();
            json!({"type": "object", "properties": properties, "required": required})
        };
        json!({"oneOf": [block("text", &["text"]), block("image", &["mime", "data"]), block("file", &["path"])]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_text_or_blocks() {
        let plain: PromptParams = serde_json::from_str(r#"{"id":"s1","text":"hi"}"#).unwrap();
        assert!(plain.blocks.is_empty() && plain.text.as_deref() == Some("hi") && !plain.refuse_if_busy);
        let blocks: PromptParams =
            serde_json::from_str(r#"{"id":"s1","blocks":[{"type":"file","path":"a"},{"type":"text","text":"b"}]}"#)
                .unwrap();
        assert_eq!(blocks.blocks.first(), Some(&PromptBlock::File { path: "a".into() }));
        let names = PromptBlock::schema()["oneOf"].as_array().map(Vec::len);
        assert_eq!(names, Some(3));
    }

    #[test]
    fn a_session_needs_an_agent_and_a_folder_and_nothing_else() {
        let params: SessionCreateParams = serde_json::from_str(r#"{"agent":"echo","workspace":"/"}"#).unwrap();
        assert!(params.autonomy.is_none() && !params.worktree && params.env.is_empty());
        let required = SessionCreateParams::schema()["required"].clone();
        assert_eq!(required, json!(["agent", "workspace"]));
    }
}
