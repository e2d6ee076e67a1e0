//! Opening an ACP conversation: initialize, new or load, then mode and model, then ready.
//!
//! The numbers of these requests are fixed, so a response is understood without memory of its request, and what the
//! ledger shows as sent is not sent again.

use std::collections::BTreeSet;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as METHODS, AgentCapabilities, ErrorCode, Implementation, InitializeRequest, LoadSessionRequest,
    LoadSessionResponse, NewSessionRequest, ResumeSessionRequest, SessionId,
};
use ostler_story::{Agent, ErrorKind, Event, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::adapter::Lined;
use crate::json;
use crate::model;
use crate::rpc::{RpcError, Style};
use crate::setup::Setup;

use super::code;
use super::modes::{self, Choice, Offer};

const INITIALIZE: u64 = 1;
const SESSION: u64 = 2;
const SET_MODE: u64 = 3;
const SET_MODEL: u64 = 4;
/// Asked after a conversation was loaded. Agents may tell the old conversation after they answered the load; what comes
/// before the answer to this is old, too. It names no known method, and a refusal is an answer.
const MARK: u64 = 5;
/// The load of a conversation under its plain id, where it was tried as [`aside`] first.
const SESSION_PLAIN: u64 = 6;
/// Prompts are numbered from here.
pub(super) const FIRST_PROMPT: u64 = 16;

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Opening {
    sent: BTreeSet<u64>,
    session: Option<SessionId>,
    /// Requests that must be answered before the first prompt.
    waiting: BTreeSet<u64>,
    loading: bool,
    failed: bool,
    /// Whether it takes pictures.
    pub(super) images: bool,
}

impl Opening {
    /// The first line, unless it was sent.
    pub(super) fn begin(&mut self) -> Vec<u8> {
        let us = Implementation::new("ostler", env!("CARGO_PKG_VERSION")).title("ostler");
        // The capabilities of a client that offers nothing are the default.
        self.once(INITIALIZE, METHODS.initialize, &InitializeRequest::new(ProtocolVersion::V1).client_info(us))
    }

    /// The conversation, once prompts may go to it.
    pub(super) fn ready(&self) -> Option<&SessionId> {
        self.session().filter(|_| self.waiting.is_empty() && !self.failed)
    }

    /// The conversation.
    pub(super) fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Whether what is told now is an old conversation being loaded.
    pub(super) fn is_replay(&self) -> bool {
        self.loading
    }

    /// A request with this number is in the ledger.
    pub(super) fn sent(&mut self, number: u64) {
        self.sent.insert(number);
    }

    /// An answer to one of the requests here.
    pub(super) fn response(&mut self, number: u64, result: Result<Json, RpcError>, setup: &Setup) -> Lined {
        match (number, result) {
            (INITIALIZE, Ok(result)) => self.open(&result, setup),
            (SESSION, Ok(result)) => {
                let id = setup.resume.as_deref().map(|id| aside(setup, id));
                self.opened(&result, id, setup)
            }
            (SESSION_PLAIN, Ok(result)) => self.opened(&result, setup.resume.clone(), setup),
            (MARK, _) => {
                self.loading = false;
                self.waiting.remove(&MARK);
                Lined::default()
            }
            (SET_MODE, Ok(_)) => {
                self.waiting.remove(&SET_MODE);
                Lined::default()
            }
            (SET_MODEL, Ok(result)) => {
                self.waiting.remove(&SET_MODEL);
                self.runs(&result, setup)
            }
            (_, Ok(_)) => Lined::default(),
            (SESSION, Err(error)) if code(&error) != ErrorCode::AuthRequired && self.loading && is_aside(setup) => {
                let plain = LoadSessionRequest::new(setup.resume.clone().unwrap_or_default(), &setup.cwd);
                replied(self.once(SESSION_PLAIN, METHODS.session_load, &plain))
            }
            (number, Err(error)) => {
                let kind = match (number, code(&error)) {
                    (_, ErrorCode::AuthRequired) => ErrorKind::Login,
                    (SESSION | SESSION_PLAIN, _) if setup.resume.is_some() => ErrorKind::Resume,
                    (SET_MODE, _) => ErrorKind::Setup,
                    (SET_MODEL, _) => return self.stop(model::refused(setup, &error.text())),
                    _ => ErrorKind::Agent,
                };
                self.fail(error.text(), kind)
            }
        }
    }

    fn open(&mut self, agent: &Json, setup: &Setup) -> Lined {
        let can: AgentCapabilities = json::part(agent, "agentCapabilities").unwrap_or_default();
        self.images = can.prompt_capabilities.image;
        let Some(id) = setup.resume.as_deref().map(|id| aside(setup, id)) else {
            return replied(self.once(SESSION, METHODS.session_new, &NewSessionRequest::new(&setup.cwd)));
        };
        if can.session_capabilities.resume.is_some() {
            return replied(self.once(SESSION, METHODS.session_resume, &ResumeSessionRequest::new(id, &setup.cwd)));
        }
        if !can.load_session {
            let message = format!("{} cannot resume an earlier conversation", setup.agent.name());
            return self.fail(message, ErrorKind::Resume);
        }
        self.loading = true;
        self.waiting.insert(MARK);
        replied(self.once(SESSION, METHODS.session_load, &LoadSessionRequest::new(id, &setup.cwd)))
    }

    fn opened(&mut self, result: &Json, resumed: Option<String>, setup: &Setup) -> Lined {
        let Some(id) = json::part(result, "sessionId").or(resumed.map(SessionId::from)) else {
            return self.fail("the agent gave its conversation no id".to_owned(), ErrorKind::Agent);
        };
        // The answers to new, load and resume tell the same beside the id.
        let session = LoadSessionResponse::deserialize(result).unwrap_or_default();
        let (modes, models) = (Offer::modes(&session), Offer::models(&session, result));
        let mut lined = Lined::default();
        match modes::choose(setup, &modes) {
            Choice::Leave => {}
            Choice::Set(mode) => {
                self.waiting.insert(SET_MODE);
                let (method, params) = modes.set_mode(&id, &mode);
                lined.reply.extend(self.once(SET_MODE, method, &params));
            }
            Choice::Impossible(why) => lined.events.extend(self.fail(why, ErrorKind::Setup).events),
        }
        match setup.model.as_deref() {
            Some(wanted) if models.current != Some(wanted) && !is_started_with(setup, &models) => {
                self.waiting.insert(SET_MODEL);
                let (method, params) = models.set_model(&id, wanted);
                lined.reply.extend(self.once(SET_MODEL, method, &params));
            }
            _ => lined.events.insert(0, started(&id, models.current)),
        }
        if self.loading {
            lined.reply.extend(self.once(MARK, "_ostler/loaded", &json!({})));
        }
        self.session = Some(id);
        lined
    }

    /// A model was chosen: the agent may say which it runs then.
    fn runs(&mut self, result: &Json, setup: &Setup) -> Lined {
        let session = LoadSessionResponse::deserialize(result).unwrap_or_default();
        let told = Offer::models(&session, result).current;
        if let Some(differs) = told.and_then(|told| model::differs(setup, told)) {
            return self.stop(differs);
        }
        // A yes without a name is no name: what was asked for may not be what it runs.
        let events = self.session.iter().map(|id| started(id, told)).collect();
        Lined { events, reply: Vec::new() }
    }

    fn fail(&mut self, message: String, kind: ErrorKind) -> Lined {
        self.stop(Event::Error { message, fatal: true, kind })
    }

    fn stop(&mut self, error: Event) -> Lined {
        self.failed = true;
        Lined { events: vec![error], reply: Vec::new() }
    }

    fn once(&mut self, number: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
        if self.sent.insert(number) { Style::Marked.request(number, method, params) } else { Vec::new() }
    }
}

fn started(id: &SessionId, model: Option<&str>) -> Event {
    Event::Started { agent_session: Some(id.0.trim().to_owned()), model: model.map(str::to_owned) }
}

/// gemini and opencode are started with their model; where they tell none, there is nothing to compare.
fn is_started_with(setup: &Setup, models: &Offer<'_>) -> bool {
    models.current.is_none() && !matches!(setup.agent, Agent::Acp { .. })
}

fn replied(reply: Vec<u8>) -> Lined {
    Lined { events: Vec::new(), reply }
}

/// The id by which a conversation is loaded. gemini begins a new file for it, named by the minute and the id, before it looks
/// for the old one: in the minute in which the conversation began it would overwrite it. It looks without blanks but names
/// with them, so one in front keeps the two apart.
fn aside(setup: &Setup, id: &str) -> String {
    if is_aside(setup) { format!(" {id}") } else { id.to_owned() }
}

fn is_aside(setup: &Setup) -> bool {
    setup.agent == Agent::Gemini
}
