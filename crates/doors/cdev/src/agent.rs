//! `agent/*`: the one agent that a client knows in a repository. It is the repository's current session, which the engine
//! remembers; whatever other doors began there is answered and stopped by its id.

use std::path::Path;
use std::time::{Duration, Instant};

use ostler_engine::access::device::Right;
use ostler_engine::session::{
    Change, CreateError, Interrupt, NewSession, Prompt, PromptError, Queue, SessionError, Status, View,
};
use ostler_engine::{MayWait, Session};
use ostler_story::{Agent, Alias, Autonomy, Lifetime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use crate::method::Call;
use crate::{DOOR, DoorState, shell};

/// How long an answer waits for the process that it names.
const STARTS_WITHIN: Duration = Duration::from_secs(2);
/// How long it waits for one to be gone: TERM, the engine's grace, KILL.
const GONE_WITHIN: Duration = Duration::from_secs(8);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Whether a conversation is begun or gone on with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// A conversation begins.
    #[default]
    New,
    /// The one that `session_id` names goes on.
    Continue,
}

/// How much the agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PermissionMode {
    /// It asks.
    Default,
    /// It changes files of the workspace, and asks for the rest.
    AcceptEdits,
    /// It asks for nothing.
    BypassPermissions,
    /// It looks and plans.
    Plan,
    /// It asks.
    Interactive,
}

impl PermissionMode {
    fn autonomy(self) -> Autonomy {
        match self {
            Self::Default | Self::Interactive => Autonomy::Ask,
            Self::AcceptEdits => Autonomy::Edits,
            Self::BypassPermissions => Autonomy::All,
            Self::Plan => Autonomy::Plan,
        }
    }
}

/// What an agent is told to do.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct RunParams {
    /// What to do, in words. Nothing in it is an option; one that begins with `!` is a command line where the settings say so.
    pub(crate) prompt: String,
    #[serde(default)]
    pub(crate) mode: Mode,
    /// The conversation to go on with.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    #[serde(default)]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Which agent; claude when left out.
    #[serde(default)]
    pub(crate) agent_type: Option<String>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
    /// The client's own name for this prompt: the same again in the same conversation is not run again.
    #[serde(default)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Started {
    /// `started`; `completed` for a command line that ended.
    pub(crate) status: String,
    /// The agent's process, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    pub(crate) session_id: String,
    pub(crate) mode: Mode,
    /// `shell` for a command line; its `session_id` is a process.
    pub(crate) agent_type: String,
    /// How a command line ended, once it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    /// What a command line said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
}

impl Started {
    /// A turn of an agent.
    pub(crate) fn turn(view: &View, pid: Option<u32>, mode: Mode) -> Self {
        Self {
            status: "started".into(),
            pid,
            session_id: id_of(view),
            mode,
            agent_type: view.agent.name().to_owned(),
            exit_code: None,
            output: None,
        }
    }
}

/// Which agent is meant: the current one of a workspace, or that of a session.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct WhichParams {
    pub(crate) session_id: Option<String>,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Stopped {
    /// `stopped`, or `stopping` when it takes its time.
    pub(crate) status: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AgentStatus {
    /// `idle`, `running`, `waiting`, `stopped` or `error`.
    pub(crate) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
    pub(crate) agent_type: String,
    /// What it waits for: the `tool_use_id` of its open request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting_for: Option<String>,
}

impl ClaudeState {
    /// Where a session stands, in the document's words.
    fn of(view: &View) -> Self {
        match view.status {
            Status::Idle | Status::Closed => Self::Idle,
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Interrupted if view.broke_off && !view.rebooted => Self::Error,
            Status::Interrupted => Self::Stopped,
            Status::Failed => Self::Error,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }
}

/// The protocol's word for where a session stands.
pub(crate) fn state_of(view: &View) -> &'static str {
    ClaudeState::of(view).word()
}

/// What clients call a session, for as long as it is there: the conversation that one of them went on with, else our UUID. Claude
/// is told to call a new conversation that, too.
pub(crate) fn id_of(view: &View) -> String {
    let chosen = view.alias.as_ref().filter(|alias| alias.space == DOOR);
    chosen.map_or_else(|| view.uuid.clone(), |alias| alias.id.clone())
}

/// What the agent does, in the document's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClaudeState {
    /// Nothing runs.
    Idle,
    /// A turn runs.
    Running,
    /// It waits for somebody's answer.
    Waiting,
    /// The last turn was stopped.
    Stopped,
    /// The last turn failed.
    Error,
}

/// What the current session of the repository does; of several, of the one that matters most. Never waits.
pub(crate) fn claude_state(state: &DoorState) -> ClaudeState {
    let folders = state.settings.repo.clone().map_or_else(|| state.engine.workspaces(), |repo| vec![repo]);
    let current = folders.iter().filter_map(|folder| state.engine.current_session(folder));
    let states = current.map(|session| ClaudeState::of(&session.view()));
    let weight = |state: &ClaudeState| match state {
        ClaudeState::Waiting => 4,
        ClaudeState::Running => 3,
        ClaudeState::Error => 2,
        ClaudeState::Stopped => 1,
        ClaudeState::Idle => 0,
    };
    states.max_by_key(weight).unwrap_or(ClaudeState::Idle)
}

pub(crate) fn run(wait: &MayWait, call: &Call, params: RunParams) -> Result<Started, Error> {
    if params.prompt.trim().is_empty() {
        return Err(Error::params("agent/run: `prompt` is empty"));
    }
    let folder = call.folder(params.workspace_id.as_deref())?;
    if let Some(line) = shell::command_of(call, &params.prompt) {
        return shell::run(wait, call, &folder, line);
    }
    let agent = agent_named(call, params.agent_type.as_deref())?;
    let resume = match (params.mode, params.session_id.as_deref()) {
        (Mode::Continue, None | Some("")) => {
            return Err(Error::params("agent/run: mode `continue` needs `session_id`"));
        }
        (Mode::Continue, Some(id)) => Some(id),
        (Mode::New, _) => None,
    };
    let session = call.state.engine.choose_current(wait, &folder, |current| {
        if let Some(current) = current.filter(is_busy) {
            return Err(running(&current));
        }
        let session = match resume {
            Some(id) => resumed(wait, call, &folder, id, params.permission_mode)?,
            None => create(wait, call, new_session(call, agent, &folder, params.permission_mode)?)?,
        };
        prompted(wait, &session, &params.prompt, params.key.clone())?;
        Ok(session)
    })?;
    let pid = first_pid(call, &session);
    Ok(Started::turn(&session.view(), pid, params.mode))
}

/// The agent that people call this.
pub(crate) fn agent_named(call: &Call, name: Option<&str>) -> Result<Agent, Error> {
    let name = name.filter(|name| !name.is_empty()).unwrap_or("claude");
    let unknown = |_| Error::params(format!("there is no agent {name:?}")).with("agent_type", name.to_owned());
    call.state.engine.sessions().agent(name).map_err(unknown)
}

pub(crate) fn is_busy(session: &Session) -> bool {
    let view = session.view();
    matches!(view.status, Status::Running | Status::Waiting) || view.queued > 0
}

pub(crate) fn running(session: &Session) -> Error {
    let view = session.view();
    Error::new(Code::AgentRunning, format!("{} is already running; stop it first", view.agent.name()))
        .with("current_state", state_of(&view))
        .with("session_id", id_of(&view))
}

/// A session that is to be made. More than to ask is for who may allow that.
pub(crate) fn new_session(
    call: &Call,
    agent: Agent,
    folder: &Path,
    mode: Option<PermissionMode>,
) -> Result<NewSession, Error> {
    let autonomy = mode.map_or(Autonomy::Ask, PermissionMode::autonomy);
    if matches!(autonomy, Autonomy::Edits | Autonomy::All) {
        call.needs(Right::LoosenAutonomy)?;
    }
    let program = call.state.settings.claude.clone().filter(|_| agent == Agent::Claude);
    Ok(NewSession {
        autonomy,
        program,
        lifetime: Lifetime::Turn,
        program_there: true,
        ..NewSession::new(agent, folder.to_owned(), DOOR)
    })
}

pub(crate) fn create(wait: &MayWait, call: &Call, new: NewSession) -> Result<Session, Error> {
    call.reaches(wait, &new.workspace)?;
    call.state.engine.sessions().create(wait, new).map_err(|error| {
        let code = match &error {
            CreateError::NoProgram(_) => Code::AgentMissing,
            CreateError::Workspace { .. } => Code::NotFound,
            CreateError::Unsupported(_) => Code::Params,
            _ => Code::Agent,
        };
        Error::new(code, error.to_string())
    })
}

/// Whether a text can be the id of a conversation at all: nothing else is ever looked for in a folder.
pub(crate) fn is_id(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&text.len()) && text.bytes().all(sign)
}

pub(crate) fn not_found(id: &str) -> Error {
    let shown: String = id.chars().take(128).collect();
    Error::new(Code::SessionNotFound, format!("no session {shown:?}: session/list names those there are"))
        .with("session_id", shown)
}

/// The session that clients call this, within a workspace or all.
pub(crate) fn session_named(call: &Call, folder: Option<&Path>, id: &str) -> Result<Session, Error> {
    if !is_id(id) {
        return Err(not_found(id));
    }
    let found = call.state.engine.sessions().find(&[DOOR], id).map_err(|error| match error {
        SessionError::NotFound(_) => not_found(id),
        SessionError::Ambiguous { .. } => Error::new(Code::SessionInvalid, error.to_string()).with("session_id", id),
    })?;
    let here = folder.is_none_or(|folder| found.view().workspace.starts_with(folder));
    if here { Ok(found) } else { Err(not_found(id)) }
}

/// The same, within the workspace that a request names.
pub(crate) fn session_in(call: &Call, workspace: Option<&str>, id: &str) -> Result<Session, Error> {
    session_named(call, call.within(workspace)?.as_deref(), id)
}

/// The session of a conversation that goes on: ours, or a new one around what its agent recorded.
fn resumed(
    wait: &MayWait,
    call: &Call,
    folder: &Path,
    id: &str,
    mode: Option<PermissionMode>,
) -> Result<Session, Error> {
    let (agent, conversation, workspace, chosen) = match session_named(call, Some(folder), id) {
        Ok(session) if session.view().status != Status::Closed => {
            loosened(wait, call, &session, mode)?;
            return Ok(session);
        }
        Ok(closed) => {
            let view = closed.view();
            let chosen = id_of(&view);
            (view.agent, view.agent_session, view.workspace, chosen)
        }
        Err(error) if error.code != Code::SessionNotFound || !is_id(id) => return Err(error),
        Err(_) => {
            let (agent, id) = crate::session::recorded(wait, call, folder, id)?;
            (agent, Some(id.clone()), folder.to_owned(), id)
        }
    };
    let new = new_session(call, agent, &workspace, mode)?;
    let alias = Some(Alias { space: DOOR.to_owned(), id: chosen });
    create(wait, call, NewSession { resume: conversation, alias, ..new })
}

/// Changes how much an open session may do, if it was said.
fn loosened(wait: &MayWait, call: &Call, session: &Session, mode: Option<PermissionMode>) -> Result<(), Error> {
    let Some(autonomy) = mode.map(PermissionMode::autonomy).filter(|wanted| *wanted != session.view().autonomy) else {
        return Ok(());
    };
    call.needs(Right::LoosenAutonomy)?;
    let change = Change { autonomy: Some(autonomy), ..Change::default() };
    session
        .change(wait, change, || call.guest.caller.clone())
        .map_err(|error| Error::new(Code::Agent, error.to_string()))
}

/// Hands a prompt over; one that would have to wait is refused.
pub(crate) fn prompted(wait: &MayWait, session: &Session, text: &str, key: Option<String>) -> Result<(), Error> {
    let prompt = Prompt { key, queue: Queue::Refuse, ..Prompt::text(text, DOOR) };
    session.prompt(wait, prompt).map(drop).map_err(|error| match error {
        PromptError::Busy | PromptError::QueueFull(_) => running(session),
        PromptError::Empty | PromptError::TooLong(_) => Error::params(error.to_string()),
        PromptError::Closed => not_found(&id_of(&session.view())),
        PromptError::OnScreen | PromptError::Io(_) => Error::new(Code::Agent, error.to_string()),
    })
}

/// The process that takes the prompt, if it is there soon.
fn first_pid(call: &Call, session: &Session) -> Option<u32> {
    let until = Instant::now() + STARTS_WITHIN;
    loop {
        let view = session.view();
        if let Some(pid) = pid_of(call, &view) {
            return Some(pid);
        }
        let over = !matches!(view.status, Status::Running | Status::Waiting);
        if over || Instant::now() > until {
            return None;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn pid_of(call: &Call, view: &View) -> Option<u32> {
    let process = call.state.engine.resolve(view.process.as_deref()?).ok()?;
    process.is_running().then(|| process.pid())
}

/// The session that is meant: one by its id, or the current one.
fn meant(call: &Call, params: &WhichParams) -> Result<Option<Session>, Error> {
    match params.session_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => session_in(call, params.workspace_id.as_deref(), id).map(Some),
        None => {
            let folder = call.folder(params.workspace_id.as_deref())?;
            Ok(call.state.engine.current_session(&folder))
        }
    }
}

pub(crate) fn stop(wait: &MayWait, call: &Call, params: WhichParams) -> Result<Stopped, Error> {
    let idle = || Error::new(Code::AgentNotRunning, "claude is not running").with("current_state", "idle");
    let session = meant(call, &params)?.filter(is_busy).ok_or_else(idle)?;
    let how = Interrupt { clear_queue: true, end_process: true };
    let stopped = session.interrupt(wait, how).map_err(Error::internal)?;
    if !stopped.turn && stopped.dropped == 0 && !is_busy(&session) {
        return Err(idle());
    }
    let until = Instant::now() + GONE_WITHIN;
    while is_busy(&session) && Instant::now() < until {
        std::thread::sleep(LOOK_AGAIN);
    }
    let status = if is_busy(&session) { "stopping" } else { "stopped" };
    Ok(Stopped { status: status.into() })
}

pub(crate) fn status(call: &Call, params: WhichParams) -> Result<AgentStatus, Error> {
    let Some(session) = meant(call, &params)? else {
        let (state, agent_type) = ("idle".to_owned(), "claude".to_owned());
        return Ok(AgentStatus { state, pid: None, session_id: None, agent_type, waiting_for: None });
    };
    let view = session.view();
    let waiting_for = session.asked().first().map(|(approval, asked)| crate::permission::id_of(approval, asked));
    Ok(AgentStatus {
        state: state_of(&view).into(),
        pid: pid_of(call, &view),
        session_id: Some(id_of(&view)),
        agent_type: view.agent.name().to_owned(),
        waiting_for,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_a_path() {
        for id in ["../evil", "a/b", "", "..", "a.b", "x\0", "..%2fevil", &"a".repeat(129)] {
            assert!(!is_id(id), "{id:?}");
        }
        assert!(is_id("b3a1c2d4-0000-4000-8000-000000000000") && is_id("sess_1"));
    }

    #[test]
    fn modes_are_read_by_their_own_words() {
        let read = |word: &str| serde_json::from_value::<PermissionMode>(word.into()).map(PermissionMode::autonomy);
        assert_eq!(read("default").unwrap(), Autonomy::Ask);
        assert_eq!(read("acceptEdits").unwrap(), Autonomy::Edits);
        assert_eq!(read("bypassPermissions").unwrap(), Autonomy::All);
        assert_eq!(read("plan").unwrap(), Autonomy::Plan);
        assert_eq!(read("interactive").unwrap(), Autonomy::Ask);
        assert!(read("root").is_err());
    }
}
