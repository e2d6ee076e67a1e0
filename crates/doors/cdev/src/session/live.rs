//! `session/start`, `send`, `stop`, `input`, `respond`, `state`: the same as `agent/*` for clients that name their session in each
//! request, whichever agent it is with.

use ostler_engine::{MayWait, Session};
use ostler_story::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{self, Mode, PermissionMode, RunParams, Started};
use crate::error::{Code, Error};
use crate::method::Call;
use crate::permission::{self, RespondParams, Sent};
use crate::place;

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StartParams {
    /// A conversation to go on with.
    pub(crate) session_id: Option<String>,
    pub(crate) agent_type: Option<String>,
    pub(crate) permission_mode: Option<PermissionMode>,
    /// What to say first.
    pub(crate) prompt: Option<String>,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionStarted {
    pub(crate) session_id: String,
    pub(crate) workspace_id: String,
    pub(crate) agent_type: String,
    /// `running`, or `idle` where nothing was said yet.
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
}

pub(crate) fn start(wait: &MayWait, call: &Call, params: StartParams) -> Result<SessionStarted, Error> {
    let folder = call.folder(params.workspace_id.as_deref())?;
    let workspace_id = place::id_of(&folder);
    let session_id = params.session_id.filter(|id| !id.is_empty());
    let mode = if session_id.is_some() { Mode::Continue } else { Mode::New };
    let said = |started: Started| SessionStarted {
        session_id: started.session_id,
        workspace_id: workspace_id.clone(),
        agent_type: started.agent_type,
        status: "running".into(),
        pid: started.pid,
    };
    if let Some(prompt) = params.prompt.filter(|prompt| !prompt.trim().is_empty()) {
        let run = RunParams {
            prompt,
            mode,
            session_id,
            permission_mode: params.permission_mode,
            agent_type: params.agent_type,
            workspace_id: params.workspace_id,
            key: None,
        };
        return agent::run(wait, call, run).map(said);
    }
    let session = match session_id {
        Some(id) => agent::session_named(call, Some(&folder), &id)?,
        None => {
            let agent = agent::agent_named(call, params.agent_type.as_deref())?;
            agent::create(wait, call, agent::new_session(call, agent, &folder, params.permission_mode)?)?
        }
    };
    let view = session.view();
    let (agent_type, status) = (view.agent.name().to_owned(), agent::state_of(&view).to_owned());
    Ok(SessionStarted { session_id: agent::id_of(&view), workspace_id, agent_type, status, pid: None })
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct SendParams {
    pub(crate) prompt: String,
    /// The conversation; a new one when left out.
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    #[serde(default)]
    pub(crate) mode: Option<Mode>,
    #[serde(default)]
    pub(crate) permission_mode: Option<PermissionMode>,
    #[serde(default)]
    pub(crate) agent_type: Option<String>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
    #[serde(default)]
    pub(crate) key: Option<String>,
}

pub(crate) fn send(wait: &MayWait, call: &Call, params: SendParams) -> Result<Started, Error> {
    let session_id = params.session_id.filter(|id| !id.is_empty());
    let mode = params.mode.unwrap_or(if session_id.is_some() { Mode::Continue } else { Mode::New });
    let run = RunParams {
        prompt: params.prompt,
        mode,
        session_id,
        permission_mode: params.permission_mode,
        agent_type: params.agent_type,
        workspace_id: params.workspace_id,
        key: params.key,
    };
    agent::run(wait, call, run)
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct InputParams {
    pub(crate) session_id: String,
    /// The answer to what is asked, or the next thing to say.
    pub(crate) input: String,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

/// What was done with an input.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct InputTaken {
    /// `sent`.
    pub(crate) status: String,
    pub(crate) session_id: String,
}

pub(crate) fn input(wait: &MayWait, call: &Call, params: InputParams) -> Result<InputTaken, Error> {
    let session = agent::session_in(call, params.workspace_id.as_deref(), &params.session_id)?;
    match session.asked().first() {
        Some((approval, asked)) => {
            let answer = RespondParams {
                tool_use_id: permission::id_of(approval, asked),
                response: Some(params.input),
                is_error: false,
                session_id: None,
                workspace_id: params.workspace_id,
            };
            permission::respond(wait, call, answer)?;
        }
        None => agent::prompted(wait, &session, &params.input, None)?,
    }
    Ok(InputTaken { status: "sent".into(), session_id: params.session_id })
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct AnswerParams {
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) tool_use_id: Option<String>,
    pub(crate) response: String,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

pub(crate) fn respond(wait: &MayWait, call: &Call, params: AnswerParams) -> Result<Sent, Error> {
    let session = agent::session_in(call, params.workspace_id.as_deref(), &params.session_id)?;
    let open = || session.asked().first().map(|(approval, asked)| permission::id_of(approval, asked));
    let asked = params.tool_use_id.filter(|id| !id.is_empty()).or_else(open);
    let tool_use_id = asked.ok_or_else(|| Error::new(Code::Agent, "this session asks nothing"))?;
    let answer = RespondParams {
        tool_use_id,
        response: Some(params.response),
        is_error: params.is_error,
        session_id: Some(params.session_id),
        workspace_id: params.workspace_id,
    };
    permission::respond(wait, call, answer)
}

/// Where a session stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionState {
    pub(crate) session_id: String,
    pub(crate) workspace_id: String,
    pub(crate) agent_type: String,
    pub(crate) status: String,
    pub(crate) is_running: bool,
    pub(crate) waiting_for_input: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending_tool_use_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending_tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pending_input: Option<Json>,
    pub(crate) queued: usize,
    pub(crate) started_at: String,
    pub(crate) last_active: String,
}

pub(crate) fn state(call: &Call, params: super::IdParams) -> Result<SessionState, Error> {
    agent::session_in(call, params.workspace_id.as_deref(), &params.session_id).map(|session| stands(&session))
}

/// `workspace/session/activate`: what `agent/*` means from now on. Not while another one is at work, which it means until then.
pub(crate) fn activate(wait: &MayWait, call: &Call, params: super::IdParams) -> Result<SessionState, Error> {
    let folder = call.folder(params.workspace_id.as_deref())?;
    let chosen = agent::session_named(call, Some(&folder), &params.session_id)?;
    call.state.engine.choose_current(wait, &folder, |current| {
        match current.filter(|current| current.id() != chosen.id() && agent::is_busy(current)) {
            Some(busy) => Err(agent::running(&busy)),
            None => Ok(chosen.clone()),
        }
    })?;
    Ok(stands(&chosen))
}

fn stands(session: &Session) -> SessionState {
    let (view, asked) = (session.view(), session.asked());
    let open = asked.first();
    let status = agent::state_of(&view);
    SessionState {
        session_id: agent::id_of(&view),
        workspace_id: place::id_of(&view.workspace),
        agent_type: view.agent.name().to_owned(),
        status: status.to_owned(),
        is_running: matches!(status, "running" | "waiting"),
        waiting_for_input: open.is_some(),
        pending_tool_use_id: open.map(|(approval, asked)| permission::id_of(approval, asked)),
        pending_tool_name: open.map(|(_, asked)| permission::tool_of(asked).to_owned()),
        pending_input: open.map(|(_, asked)| permission::input_of(asked)),
        queued: view.queued,
        started_at: super::time(view.created_ms),
        last_active: super::time(view.activity_ms),
    }
}
