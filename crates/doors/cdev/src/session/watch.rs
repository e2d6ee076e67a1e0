//! `session/watch`, `session/unwatch`: what is said in a conversation from now on. Our own sessions are told to everybody anyway;
//! what another program writes is told to who watches it.

use std::sync::Arc;
use std::time::Duration;

use ostler_engine::MayWait;
use ostler_engine::history::Begin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{IdParams, find, unread};
use crate::agent;
use crate::connection::Connection;
use crate::error::{Code, Error};
use crate::events::Event;
use crate::method::Call;

/// How often a transcript is looked at: one `stat`.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether a conversation is watched.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Watching {
    /// `watching` or `unwatched`.
    pub(crate) status: String,
    pub(crate) watching: bool,
}

pub(crate) fn watch(wait: &MayWait, call: &Call, params: IdParams) -> Result<Watching, Error> {
    let connection = call.socket("watching")?;
    if let Some(name) = params.agent_type.as_deref().filter(|name| !name.is_empty()) {
        agent::agent_named(call, Some(name))?;
    }
    let folder = call.within(params.workspace_id.as_deref())?;
    let history = call.state.engine.history(wait);
    let id = params.session_id;
    let meant = find(&history, folder.as_deref(), params.agent_type.as_deref(), &id)?;
    // Our session tells by itself; twice would be once too often.
    let at = match meant.session {
        Some(_) => None,
        None => Some(history.page(&meant, Begin::Last, 1).map_err(|error| unread(&id, &error))?.next),
    };
    let was_looking = connection.transcripts.needs_looking();
    if !connection.transcripts.watch(&id, meant, at) {
        return Err(Error::new(Code::Full, "this connection watches too many sessions: session/unwatch some"));
    }
    connection.events.notice(Event::new("session_watch_started", json!({"session_id": id, "watching": true})));
    if at.is_some() && !was_looking {
        look(connection);
    }
    Ok(Watching { status: "watching".into(), watching: true })
}

/// Has the connection look now and then, for as long as it watches anything.
fn look(connection: &Arc<Connection>) {
    let connection = Arc::downgrade(connection);
    tokio::runtime::Handle::current().spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(connection) = connection.upgrade() else { return };
            if !connection.transcripts.needs_looking() {
                return;
            }
            connection.transcripts.make_due();
            connection.events.ring();
        }
    });
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct UnwatchParams {
    /// All that are watched when left out.
    pub(crate) session_id: Option<String>,
}

pub(crate) fn unwatch(_: &MayWait, call: &Call, params: UnwatchParams) -> Result<Watching, Error> {
    let connection = call.socket("watching")?;
    let id = params.session_id.as_deref().filter(|id| !id.is_empty());
    // By whichever of its names it was watched.
    let session = id.and_then(|id| agent::session_named(call, None, id).ok());
    for id in connection.transcripts.unwatch(id, session.as_ref()) {
        let members = json!({"session_id": id, "watching": false, "reason": "client_request"});
        connection.events.notice(Event::new("session_watch_stopped", members));
    }
    Ok(Watching { status: "unwatched".into(), watching: false })
}
