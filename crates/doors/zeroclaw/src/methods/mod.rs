//! The methods, by name. Whatever waits for the disk or for a program does so on a thread that may.

mod agents;
mod approve;
mod initialize;
mod listing;
mod session;
mod status;

use std::sync::Arc;

use ostler_door_rpc::{Head, RpcError};
use ostler_engine::access::device::{Required, Right};
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

macro_rules! methods {
    ($($method:ident = $name:literal, $required:expr;)*) => {
        /// What can be asked for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Method {
            $($method),*
        }

        /// Their names, which a client is told.
        const NAMES: &[(&str, Method)] = &[$(($name, Method::$method)),*];

        impl Method {
            /// What a device must have for it, as at the native door.
            fn required(self) -> Required {
                match self {
                    $(Self::$method => $required),*
                }
            }
        }
    };
}

const VIEW: Required = Required::Right(Right::View);
const PROMPT: Required = Required::Right(Right::Prompt);

methods! {
    Initialize = "initialize", Required::Nothing;
    // To look at a session that is there; beginning one takes more.
    SessionNew = "session/new", VIEW;
    SessionClose = "session/close", PROMPT;
    SessionPrompt = "session/prompt", PROMPT;
    SessionCancel = "session/cancel", PROMPT;
    // Which answers it may give, the inbox says.
    SessionApprove = "session/approve", VIEW;
    SessionList = "session/list", VIEW;
    SessionListCode = "session/list-acp", VIEW;
    SessionMessages = "session/messages", VIEW;
    SessionState = "session/state", VIEW;
    SessionGitBranch = "session/git_branch", VIEW;
    SessionConfigure = "session/configure", PROMPT;
    // What was said is gone with it.
    SessionDelete = "session/delete", Required::Person;
    Status = "status", VIEW;
    Health = "health", VIEW;
    AgentsStatus = "agents/status", VIEW;
    TuiList = "tui/list", VIEW;
    ConfigSections = "config/sections", VIEW;
    ConfigTemplates = "config/templates", VIEW;
    LogsSubscribe = "logs/subscribe", VIEW;
}

pub(crate) fn find(name: &str) -> Option<Method> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
}

impl Method {
    /// The one that comes before all others.
    pub(crate) fn is_first(self) -> bool {
        self == Self::Initialize
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
    let allowed = if known { conn.who.may(&shared.engine, method.required()) } else { Err(error::not_initialised()) };
    if let Err(error) = allowed {
        return LateReply::reply(reply(&head, Err(error)));
    }
    let result = match method {
        Method::SessionPrompt => return session::prompt(shared, conn, head, params).await,
        Method::SessionNew => return session::new(shared, conn, head, params).await,
        Method::SessionGitBranch => return listing::git_branch(shared, conn, head, params).await,
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
        Method::SessionState => listing::state(shared, conn, params),
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
