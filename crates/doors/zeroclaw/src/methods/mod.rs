//! The methods, by name. Whatever waits for the disk or for a program does so on a thread that may.

mod agents;
mod approve;
mod initialize;
mod listing;
mod session;
mod status;

use std::sync::Arc;

use ostler_door_rpc::{Head, RpcError};
use ostler_engine::access::device::Right;
use ostler_engine::session::{Session, SessionError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub(crate) use approve::decide;
pub(crate) use initialize::initialize;

use crate::DoorState;
use crate::connection::{Conn, LateReply};
use crate::error;
use crate::frame::reply;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    SessionNew,
    SessionClose,
    SessionPrompt,
    SessionCancel,
    SessionApprove,
    SessionList,
    SessionListCode,
    SessionMessages,
    SessionState,
    SessionGitBranch,
    SessionConfigure,
    SessionDelete,
    Status,
    Health,
    AgentsStatus,
    TuiList,
    ConfigSections,
    ConfigTemplates,
    LogsSubscribe,
}

/// Their names, which a client is told.
const NAMES: &[(&str, Method)] = &[
    ("initialize", Method::Initialize),
    ("session/new", Method::SessionNew),
    ("session/close", Method::SessionClose),
    ("session/prompt", Method::SessionPrompt),
    ("session/cancel", Method::SessionCancel),
    ("session/approve", Method::SessionApprove),
    ("session/list", Method::SessionList),
    ("session/list-acp", Method::SessionListCode),
    ("session/messages", Method::SessionMessages),
    ("session/state", Method::SessionState),
    ("session/git_branch", Method::SessionGitBranch),
    ("session/configure", Method::SessionConfigure),
    ("session/delete", Method::SessionDelete),
    ("status", Method::Status),
    ("health", Method::Health),
    ("agents/status", Method::AgentsStatus),
    ("tui/list", Method::TuiList),
    ("config/sections", Method::ConfigSections),
    ("config/templates", Method::ConfigTemplates),
    ("logs/subscribe", Method::LogsSubscribe),
];

pub(crate) fn find(name: &str) -> Option<Method> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
}

/// What a device must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: to say who it is.
    Nothing,
    Right(Right),
    /// It is for the person at the machine itself: no device may.
    Person,
}

impl Method {
    /// The one that comes before all others.
    pub(crate) fn is_first(self) -> bool {
        self == Self::Initialize
    }

    /// What a device needs for it, as at the native door.
    fn need(self) -> Need {
        match self {
            Self::Initialize => Need::Nothing,
            // To look at a session that is there; beginning one takes more.
            Self::SessionNew => Need::Right(Right::View),
            // Which answers it may give, the inbox says.
            Self::SessionApprove => Need::Right(Right::View),
            Self::SessionList | Self::SessionListCode | Self::SessionMessages => Need::Right(Right::View),
            Self::SessionState | Self::SessionGitBranch | Self::AgentsStatus => Need::Right(Right::View),
            Self::Status | Self::Health | Self::TuiList => Need::Right(Right::View),
            Self::ConfigSections | Self::ConfigTemplates | Self::LogsSubscribe => Need::Right(Right::View),
            Self::SessionPrompt | Self::SessionCancel | Self::SessionClose => Need::Right(Right::Prompt),
            Self::SessionConfigure => Need::Right(Right::Prompt),
            // What was said is gone with it.
            Self::SessionDelete => Need::Person,
        }
    }
}

/// Does what is asked, and answers.
pub(crate) async fn call(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    method: Method,
    head: Head,
    params: Map<String, Value>,
) -> LateReply {
    let known = method.is_first() || conn.introduced().is_some();
    let allowed = if known { conn.who.may(&shared.engine, method.need()) } else { Err(error::not_initialised()) };
    if let Err(error) = allowed {
        return LateReply::reply(reply(&head, Err(error)));
    }
    let result = match method {
        Method::SessionPrompt => return session::prompt(shared, conn, head, params).await,
        Method::SessionNew => return session::new(shared, conn, head, params).await,
        Method::Initialize => match conn.who.arrive(shared, &params).await {
            Ok(()) => initialize(shared, conn, params),
            Err(error) => return LateReply::farewell(reply(&head, Err(error))),
        },
        Method::SessionClose => session::close(shared, params).await,
        Method::SessionCancel => session::cancel(shared, conn, params).await,
        Method::SessionConfigure => session::configure(shared, conn, params).await,
        Method::SessionDelete => session::delete(shared, params).await,
        Method::SessionApprove => approve::approve(shared, conn, params).await,
        Method::SessionList => listing::chats(shared).await,
        Method::SessionListCode => listing::code(shared).await,
        Method::SessionMessages => listing::messages(shared, conn, params).await,
        Method::SessionState => listing::state(shared, params),
        Method::SessionGitBranch => listing::git_branch(shared, params).await,
        Method::Status => Ok(status::status(shared)),
        Method::Health => Ok(status::health(shared)),
        Method::TuiList => Ok(status::guests(shared)),
        Method::AgentsStatus => agents::status(shared).await,
        // There is nothing of the kind here, and clients do not start without an answer.
        Method::ConfigSections => Ok(json!({"sections": []})),
        Method::ConfigTemplates => Ok(json!({"templates": []})),
        Method::LogsSubscribe => Ok(json!({"subscribed": false})),
    };
    LateReply::reply(reply(&head, result))
}

/// The parameters, as a method means them. A member that is null is one that is missing.
fn meant<T: DeserializeOwned>(mut params: Map<String, Value>) -> Result<T, RpcError> {
    params.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(params)).map_err(|error| RpcError::params(error.to_string()))
}

/// A method about one session.
#[derive(Deserialize)]
struct About {
    session_id: String,
}

/// The session that a method is about.
fn known(shared: &DoorState, id: &str) -> Result<Session, RpcError> {
    shared.session(id).map_err(unknown)
}

fn unknown(error: SessionError) -> RpcError {
    match error {
        SessionError::NotFound(id) => error::not_found(format!("Session not found: {id}")),
        SessionError::Ambiguous { .. } => RpcError::params(error.to_string()),
    }
}

/// Every session that has been called this, oldest first, closed ones too: what was said in them is still there.
fn lives(shared: &DoorState, id: &str) -> Result<Vec<Session>, RpcError> {
    shared.lives(id).map_err(unknown)
}

fn failed(error: impl std::fmt::Display) -> RpcError {
    RpcError::internal(error.to_string())
}
