//! `session/*`: conversations. Ours and those that an agent recorded in a terminal are one list, and read alike.

mod elements;
mod live;
mod messages;
mod watch;

pub(crate) use elements::*;
pub(crate) use live::*;
pub(crate) use messages::*;
pub(crate) use watch::*;

use std::path::Path;

use ostler_api::Timestamp;
use ostler_engine::MayWait;
use ostler_engine::history::{Entry, Filter, History, HistoryError, Meant};
use ostler_story::Agent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{is_id, not_found};
use crate::error::{Code, Error};
use crate::method::Call;

const LIST_USUALLY: u32 = 50;
const LIST_MAX: u32 = 500;
const REST_USUALLY: u32 = 20;
const REST_MAX: u32 = 100;

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ListParams {
    /// Only conversations with this agent.
    pub(crate) agent_type: Option<String>,
    pub(crate) limit: Option<u32>,
    pub(crate) offset: u32,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Sessions {
    /// Newest first.
    pub(crate) sessions: Vec<SessionInfo>,
    pub(crate) total: usize,
    pub(crate) limit: u32,
    pub(crate) offset: u32,
}

/// A list as REST gives it, with the session that is current.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RestSessions {
    pub(crate) sessions: Vec<SessionInfo>,
    /// The session that `agent/stop` would stop, or nothing.
    pub(crate) current: String,
    pub(crate) total: usize,
    pub(crate) limit: u32,
    pub(crate) offset: u32,
}

/// A conversation, as a list shows it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionInfo {
    pub(crate) session_id: String,
    pub(crate) agent_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_prompt: Option<String>,
    pub(crate) message_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<String>,
    pub(crate) last_updated: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) project_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file_path: Option<String>,
    /// Where it stands, if it is one of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
}

pub(crate) fn time(ms: u64) -> String {
    Timestamp::from_millis(ms).to_string()
}

/// Whether a conversation belongs to a workspace: by where it works, or by the folder in which its agent recorded it.
fn is_in(entry: &Entry, folder: &Path) -> bool {
    let works = entry.workspace().is_some_and(|workspace| workspace.starts_with(folder));
    works || entry.conversation.as_ref().is_some_and(|found| found.transcript.is_filed_under(folder))
}

fn listed(wait: &MayWait, call: &Call, params: &ListParams, limit: u32) -> Result<(Vec<SessionInfo>, usize), Error> {
    let folder = call.within(params.workspace_id.as_deref())?;
    let agent = params.agent_type.clone().filter(|agent| !agent.is_empty());
    let history = call.state.engine.history(wait);
    let mut found = history.list(&Filter { workspace: None, agent }, &|_| true).entries;
    found.retain(|entry| folder.as_deref().is_none_or(|folder| is_in(entry, folder)));
    let total = found.len();
    let page = found.into_iter().skip(params.offset as usize).take(limit as usize);
    Ok((page.map(|entry| described(call, &history, entry)).collect(), total))
}

/// As many as were asked for, or are usual, and not more than there may be.
pub(crate) fn most<T: Copy + Default + Ord>(asked: Option<T>, usual: T, max: T) -> T {
    asked.filter(|asked| *asked > T::default()).unwrap_or(usual).min(max)
}

pub(crate) fn list(wait: &MayWait, call: &Call, params: ListParams) -> Result<Sessions, Error> {
    let limit = most(params.limit, LIST_USUALLY, LIST_MAX);
    let (sessions, total) = listed(wait, call, &params, limit)?;
    Ok(Sessions { sessions, total, limit, offset: params.offset })
}

pub(crate) fn rest_list(wait: &MayWait, call: &Call, params: ListParams) -> Result<RestSessions, Error> {
    let limit = most(params.limit, REST_USUALLY, REST_MAX);
    let (sessions, total) = listed(wait, call, &params, limit)?;
    let folder = call.folder(params.workspace_id.as_deref()).ok();
    let current = folder.and_then(|folder| call.state.engine.current_session(&folder));
    let current = current.map(|session| crate::agent::id_of(&session.view())).unwrap_or_default();
    Ok(RestSessions { sessions, current, total, limit, offset: params.offset })
}

fn described(call: &Call, history: &History<'_>, mut entry: Entry) -> SessionInfo {
    history.complete(&mut entry);
    let agent_type = entry.agent().to_owned();
    let project_path = entry.workspace().map(|path| path.to_string_lossy().into_owned());
    let last_updated = time(entry.active_ms());
    let Entry { session, conversation, first_prompt } = entry;
    let recorded = conversation.as_ref().map(|found| found.transcript.id.clone());
    let own = session.as_ref().map(crate::agent::id_of);
    let file_size = conversation.as_ref().and_then(|found| found.bytes);
    let file = conversation.as_ref().map(|found| history.file(&found.transcript));
    let summary = conversation.map(|found| found.summary).unwrap_or_default();
    let title = session.as_ref().and_then(|view| view.name.clone().or_else(|| view.title.clone()));
    let first_prompt = summary.first_prompt.or(first_prompt);
    let counted = || session.as_ref().map(|view| call.state.counted.messages(history, view));
    let message_count = summary.messages.or_else(counted).unwrap_or(0);
    SessionInfo {
        session_id: own.or(recorded).unwrap_or_default(),
        agent_type,
        summary: title.or(summary.title).or_else(|| first_prompt.clone()),
        first_prompt,
        message_count,
        start_time: summary.began_ms.or(session.as_ref().map(|view| view.created_ms)).map(time),
        last_updated,
        branch: summary.branch,
        project_path,
        model: summary.model.or_else(|| session.as_ref()?.reported_model.clone()),
        file_size,
        file_path: file.map(|file| file.to_string_lossy().into_owned()),
        state: session.map(|view| crate::agent::state_of(&view).to_owned()),
    }
}

/// The conversation that clients call this. Ids are words: nothing that could be a path is looked for.
pub(crate) fn find(
    history: &History<'_>,
    folder: Option<&Path>,
    agent: Option<&str>,
    id: &str,
) -> Result<Meant, Error> {
    if !is_id(id) {
        return Err(not_found(id));
    }
    let meant = history.find_exactly(id).map_err(|error| unread(id, &error))?;
    let entry_here = |folder: &Path| {
        let session = meant.session.as_ref().map(|session| session.view().workspace);
        let filed = || meant.transcript.as_ref().is_some_and(|transcript| transcript.is_filed_under(folder));
        let works = || history.describe(&meant).is_ok_and(|entry| is_in(&entry, folder));
        session.is_some_and(|workspace| workspace.starts_with(folder)) || filed() || works()
    };
    let is_with = |agent: &str| match (&meant.session, &meant.transcript) {
        (Some(session), _) => session.view().agent.name() == agent,
        (None, Some(transcript)) => transcript.recorder.name() == agent,
        (None, None) => false,
    };
    let is_it = folder.is_none_or(entry_here) && agent.filter(|agent| !agent.is_empty()).is_none_or(is_with);
    if is_it { Ok(meant) } else { Err(not_found(id)) }
}

pub(crate) fn unread(id: &str, error: &HistoryError) -> Error {
    match error {
        HistoryError::NotFound(_) => not_found(id),
        HistoryError::Ambiguous { .. } => Error::new(Code::SessionInvalid, error.to_string()).with("session_id", id),
        HistoryError::Io(_) => Error::new(Code::Internal, error.to_string()).with("session_id", id),
    }
}

/// What an agent recorded under this id in a workspace, to go on with: the agent, and its id of it.
pub(crate) fn recorded(wait: &MayWait, call: &Call, folder: &Path, id: &str) -> Result<(Agent, String), Error> {
    let history = call.state.engine.history(wait);
    let transcript = find(&history, Some(folder), None, id)?.transcript.ok_or_else(|| not_found(id))?;
    Ok((transcript.recorder.agent(), transcript.id))
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct IdParams {
    pub(crate) session_id: String,
    #[serde(default)]
    pub(crate) agent_type: Option<String>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

pub(crate) fn get(wait: &MayWait, call: &Call, params: IdParams) -> Result<SessionInfo, Error> {
    let folder = call.within(params.workspace_id.as_deref())?;
    let history = call.state.engine.history(wait);
    let meant = find(&history, folder.as_deref(), params.agent_type.as_deref(), &params.session_id)?;
    let entry = history.describe(&meant).map_err(|error| unread(&params.session_id, &error))?;
    Ok(described(call, &history, entry))
}
