//! `hosted.*`: sessions, terminal programs and commands in one list, for whoever wants to see what there is and not how it
//! is hosted.

use std::time::Duration;

use crate::process::{Exit, ProcessInfo};
use crate::schema::{wire, words};
use crate::session::{LimitState, SessionInfo, SessionStatus, UsageLimit};
use crate::time::Timestamp;

/// How long a command that failed needs somebody; after that nobody comes for it.
const FAILED_FOR: Duration = Duration::from_secs(3600);

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
        /// It waits for words, and is in nobody's way; also after its turn was stopped.
        Ready = "ready",
        /// It is over, and nothing went wrong.
        Ended = "ended",
        Failed = "failed",
    }

    /// Where it stands in a list of everything.
    pub enum HostedSection {
        /// First: a question, a request, a failure, a login wall, a trust prompt, a usage limit, a restart of the machine.
        NeedsYou = "needs_you",
        /// It runs, or takes words: all that is open.
        Running = "running",
        /// Last; also what failed, once somebody has seen it, or after an hour.
        Ended = "ended",
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
        pub kind: Option<String>,
        /// What it is about, in its own words.
        pub title: Option<String>,
        pub message: Option<String>,
        /// Since when.
        pub since: Option<Timestamp>,
        /// What the program calls itself.
        pub app: Option<String>,
        /// How far it is, of 100.
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
        pub over_max: Option<u32>,
        /// So many of the last lines of each, at most 64; none when left out.
        #[serde(default)]
        pub lines: u32,
        /// Also the branch that each folder is on.
        #[serde(default)]
        pub branches: bool,
        /// Only this one, by its whole id.
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
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        pub state: HostedState,
        #[serde(default)]
        pub section: HostedSection,
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
        pub part_of: Option<String>,
        /// Of a terminal program or a command.
        pub process: Option<ProcessInfo>,
        /// Of a session.
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
            section: process_section(&info),
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

/// A daemon that does not know sections is older than they are.
impl Default for HostedSection {
    fn default() -> Self {
        Self::Running
    }
}

fn process_section(info: &ProcessInfo) -> HostedSection {
    match process_state(info) {
        HostedState::NeedsYou => HostedSection::NeedsYou,
        HostedState::Working | HostedState::Ready => HostedSection::Running,
        HostedState::Ended => HostedSection::Ended,
        HostedState::Failed => {
            let fresh = |exit: &Exit| exit.time.is_some_and(|ended| ended.elapsed() < FAILED_FOR);
            let news = |exit: &Exit| exit.how().is_failure() && fresh(exit) && !info.seen;
            if info.exit.as_ref().is_some_and(news) { HostedSection::NeedsYou } else { HostedSection::Ended }
        }
    }
}

fn session_section(info: &SessionInfo) -> HostedSection {
    let now = Timestamp::now();
    let spent = |limit: &UsageLimit| limit.state == LimitState::Reached && limit.resets.is_none_or(|at| at > now);
    match info.status {
        SessionStatus::Closed => HostedSection::Ended,
        SessionStatus::Waiting | SessionStatus::Failed => HostedSection::NeedsYou,
        SessionStatus::Interrupted if info.rebooted => HostedSection::NeedsYou,
        SessionStatus::Running | SessionStatus::Idle if info.limits.iter().any(spent) => HostedSection::NeedsYou,
        SessionStatus::Running | SessionStatus::Idle | SessionStatus::Interrupted => HostedSection::Running,
    }
}

impl From<SessionInfo> for Hosted {
    fn from(info: SessionInfo) -> Self {
        let state = match info.status {
            SessionStatus::Waiting => HostedState::NeedsYou,
            SessionStatus::Running => HostedState::Working,
            SessionStatus::Idle | SessionStatus::Interrupted => HostedState::Ready,
            SessionStatus::Closed => HostedState::Ended,
            SessionStatus::Failed => HostedState::Failed,
        };
        Self {
            kind: HostedKind::Session,
            id: info.id.clone(),
            name: info.name.clone().or_else(|| info.alias.clone()),
            what: info.agent.clone(),
            workspace: Some(info.folder().to_owned()),
            branch: None,
            state,
            section: session_section(&info),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn session(more: serde_json::Value) -> HostedSection {
        let time = Timestamp::now().to_string();
        let mut value = serde_json::json!({
            "id": "s1", "uuid": "u", "agent": "claude", "workspace": "/w", "autonomy": "ask", "lifetime": "session",
            "door": "native", "status": "idle", "queued": 0, "created": time, "activity": time, "last": 1,
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Hosted::from(serde_json::from_value::<SessionInfo>(value).unwrap()).section
    }

    fn process(exit: serde_json::Value) -> HostedSection {
        hosted(exit, false)
    }

    fn hosted(exit: serde_json::Value, seen: bool) -> HostedSection {
        let value = serde_json::json!({
            "id": "p1", "program": "make", "args": [], "state": "exited", "pid": 7, "started": Timestamp::now().to_string(),
            "exit": exit, "tty": false, "private": false, "first_seq": 1, "last_seq": 1, "stdout_bytes": 0,
            "stderr_bytes": 0, "stdin_applied": 0, "seen": seen,
        });
        Hosted::from(serde_json::from_value::<ProcessInfo>(value).unwrap()).section
    }

    #[test]
    fn what_asks_failed_or_cannot_go_on_needs_somebody_before_all_that_runs() {
        use HostedSection::{Ended, NeedsYou, Running};
        let status = |status: &str| session(serde_json::json!({"status": status}));
        assert_eq!(["waiting", "failed"].map(status), [NeedsYou; 2]);
        assert_eq!(["running", "idle", "interrupted"].map(status), [Running; 3]);
        assert_eq!(status("closed"), Ended);
        assert_eq!(session(serde_json::json!({"status": "interrupted", "rebooted": true})), NeedsYou);
        let limit = |state: &str, resets: Option<&str>| {
            session(serde_json::json!({"limits": [{"name": "five hours", "state": state, "resets": resets}]}))
        };
        assert_eq!(limit("reached", None), NeedsYou);
        assert_eq!(limit("near", None), Running);
        assert_eq!(limit("reached", Some("2020-01-01T00:00:00Z")), Running);
    }

    #[test]
    fn a_command_that_failed_needs_somebody_for_an_hour_unless_it_was_told_to_end_or_seen() {
        use HostedSection::{Ended, NeedsYou};
        let now = Timestamp::now().to_string();
        assert_eq!(process(serde_json::json!({"code": 1, "time": now})), NeedsYou);
        assert_eq!(process(serde_json::json!({"signal": 9, "time": now})), NeedsYou);
        assert_eq!(process(serde_json::json!({"signal": 15, "time": now})), Ended);
        assert_eq!(process(serde_json::json!({"code": 0, "time": now})), Ended);
        assert_eq!(hosted(serde_json::json!({"code": 1, "time": now}), true), Ended);
        assert_eq!(process(serde_json::json!({"code": 1, "time": "2020-01-01T00:00:00Z"})), Ended);
    }
}
