//! The methods, by name. Whatever waits for the disk does so on a thread that may; nobody waits for anybody else.

mod buffer;
mod monitor;
mod session;

use std::sync::Arc;

use ostler_door_rpc::RpcError;
use ostler_door_web::Peer;
use ostler_engine::session::Session;

pub(crate) use buffer::{Owed, hand_over};

use crate::DoorState;
use crate::envelope::{Params, failed, no_session, no_such_method};

/// What a method answers.
pub(crate) enum Reply {
    /// A result as JSON, or an error.
    Result(Result<String, RpcError>),
    /// The result of a health check, which is marked twice.
    Health(String),
    /// Events that were owed, and are until the client has them.
    Owed(Session, Owed),
}

/// Calls a method. `session.send` is none of these: it answers with a stream.
pub(crate) async fn call(shared: &Arc<DoorState>, peer: Peer, method: &str, params: &Params) -> Reply {
    Reply::Result(match method {
        "session.create" => session::create(shared, params).await,
        "session.resume" => session::resume(shared, peer, params).await,
        "session.destroy" => session::destroy(shared, params).await,
        "session.list" => Ok(monitor::list(shared)),
        "session.set_mode" => session::set_mode(shared, peer, params).await,
        "session.set_model" => session::set_model(shared, peer, params).await,
        "session.interrupt" => session::interrupt(shared, params).await,
        "session.queue_stats" => buffer::queue_stats(shared, params).await,
        "session.reconnect" => match buffer::reconnect(shared, params).await {
            Ok(Some((session, owed))) => return Reply::Owed(session, owed),
            Ok(None) => Ok(r#"{"bufferedEvents":[]}"#.to_owned()),
            Err(error) => Err(error),
        },
        "health.check" => return Reply::Health(monitor::health(shared)),
        "monitor.sessions" => monitor::sessions(shared).await,
        other => Err(no_such_method(other)),
    })
}

/// The session that a method is about.
pub(crate) fn known(shared: &DoorState, id: &str) -> Result<Session, RpcError> {
    shared.session(id)?.ok_or_else(|| no_session(id))
}
