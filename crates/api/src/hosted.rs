//! `hosted.*`: sessions, terminal programs and commands in one list, for whoever wants to see what there is and not how it
//! is hosted.

use crate::process::ProcessInfo;
use crate::schema::{wire, words};
use crate::session::{SessionInfo, SessionStatus};
use crate::time::Timestamp;

words! {
    /// What is hosted.
    pub enum HostedKind {
        /// A conversation with an agent.
        Session = "session",
        /// A program on a terminal of its own.
        Terminal = "terminal",
        /// A program with pipes.
        Command = "command",
    }

    /// How it is doing, in one word for all kinds.
    pub enum HostedState {
        /// It does not go on without a person: a request waits, or a terminal program claims so.
        NeedsYou = "needs_you",
        Working = "working",
        /// It waits for words, and is in nobody's way.
        Ready = "ready",
        /// It is over, or was stopped, and nothing went wrong.
        Ended = "ended",
        Failed = "failed",
    }

    /// How a terminal program says that it is doing. Nobody has checked it.
    pub enum ClaimState {
        Idle = "idle",
        Working = "working",
        NeedsYou = "needs_you",
        Done = "done",
        Failed = "failed",
    }
}

wire! {
    /// What a terminal program says about itself by the signs that terminals understand. It grants nothing.
    pub struct Claim {
        pub state: ClaimState,
        /// With `needs_you`: permission, question or auth, where it said so.
        #[serde(default)]
        pub kind: Option<String>,
        /// What it is about, in its own words.
        #[serde(default)]
        pub title: Option<String>,
        #[serde(default)]
        pub message: Option<String>,
        /// Since when.
        #[serde(default)]
        pub since: Option<Timestamp>,
        /// What the program calls itself.
        #[serde(default)]
        pub app: Option<String>,
        /// How far it is, of 100.
        #[serde(default)]
        pub progress: Option<u16>,
        /// Said by the program itself (OSC 7501); else a guess from titles, progress, notifications and the bell.
        #[serde(default)]
        pub reported: bool,
    }

    /// What to list.
    pub struct HostedListParams {
        /// Also what is over.
        #[serde(default)]
        pub all: bool,
        /// With `all`: of what is over at most so many, the newest.
        #[serde(default)]
        pub over_max: Option<u32>,
        /// So many of the last lines of each, at most 64; none when left out.
        #[serde(default)]
        pub lines: u32,
        /// Also the branch that each folder is on.
        #[serde(default)]
        pub branches: bool,
        /// Only this one, by its whole id.
        #[serde(default)]
        pub id: Option<String>,
    }

    /// A session, a terminal program or a command.
    pub struct Hosted {
        pub kind: HostedKind,
        pub id: String,
        pub name: Option<String>,
        /// The agent, or the command as one line.
        pub what: String,
        /// The folder that it works in.
        pub workspace: Option<String>,
        /// With `branches`: the branch that the folder is on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        pub state: HostedState,
        /// Requests that wait for a person.
        #[serde(default)]
        pub needs_you: u64,
        /// What it said last, oldest line first, without what moves a cursor.
        #[serde(default)]
        pub lines: Vec<String>,
        pub began: Timestamp,
        /// When anything happened; for a process, when it began or ended.
        pub active: Timestamp,
        /// When it was over.
        pub ended: Option<Timestamp>,
        pub cost_usd: Option<f64>,
        /// Not there for its own sake: the session whose agent it is, or the request that it carries out.
        #[serde(default)]
        pub part_of: Option<String>,
        /// Of a terminal program or a command.
        #[serde(default)]
        pub process: Option<ProcessInfo>,
        /// Of a session.
        #[serde(default)]
        pub session: Option<SessionInfo>,
    }

    /// Oldest first.
    pub struct HostedList {
        pub hosted: Vec<Hosted>,
    }
}

impl From<ProcessInfo> for Hosted {
    fn from(info: ProcessInfo) -> Self {
        let ended = info.exit.as_ref().map(|exit| exit.time.unwrap_or(info.started));
        Self {
            kind: if info.tty { HostedKind::Terminal } else { HostedKind::Command },
            id: info.id.clone(),
            name: info.name.clone(),
            what: info.command(),
            workspace: info.cwd.clone(),
            branch: None,
            state: process_state(&info),
            needs_you: 0,
            lines: Vec::new(),
            began: info.started,
            active: ended.unwrap_or(info.started),
            ended,
            cost_usd: None,
            part_of: None,
            process: Some(info),
            session: None,
        }
    }
}

/// An end is a fact; before it, what a terminal program claims is all there is to know.
fn process_state(info: &ProcessInfo) -> HostedState {
    match (&info.exit, info.claim.as_ref().map(|claim| claim.state)) {
        (Some(exit), _) if exit.code == Some(0) => HostedState::Ended,
        (Some(_), _) => HostedState::Failed,
        (None, Some(ClaimState::NeedsYou)) => HostedState::NeedsYou,
        (None, Some(ClaimState::Idle | ClaimState::Done)) => HostedState::Ready,
        (None, Some(ClaimState::Working | ClaimState::Failed) | None) => HostedState::Working,
    }
}

impl From<SessionInfo> for Hosted {
    fn from(info: SessionInfo) -> Self {
        let state = match info.status {
            SessionStatus::Waiting => HostedState::NeedsYou,
            SessionStatus::Running => HostedState::Working,
            SessionStatus::Idle => HostedState::Ready,
            SessionStatus::Interrupted | SessionStatus::Closed => HostedState::Ended,
            SessionStatus::Failed => HostedState::Failed,
        };
        Self {
            kind: HostedKind::Session,
            id: info.id.clone(),
            name: info.name.clone().or_else(|| info.alias.clone()),
            what: info.agent.clone(),
            workspace: Some(info.worktree.clone().unwrap_or_else(|| info.workspace.clone())),
            branch: None,
            state,
            needs_you: info.approvals.len() as u64,
            lines: Vec::new(),
            began: info.created,
            active: info.activity,
            ended: (info.status == SessionStatus::Closed).then_some(info.activity),
            cost_usd: info.usage.as_ref().and_then(|usage| usage.cost_usd),
            part_of: None,
            process: None,
            session: Some(info),
        }
    }
}
