//! What there is and how it is doing.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_api::Timestamp;
use ostler_door_rpc::RpcError;
use ostler_engine::MayWait;
use ostler_engine::session::{Session, Status, View};
use serde_json::{Value, json};

use super::buffer::Stats;
use super::failed;
use super::session::mode_of;
use crate::DoorState;
use crate::memory::{Memory, RUSTC};

/// In the words of this protocol. A turn that failed leaves a session that takes the next message like any other.
fn status_of(status: Status) -> &'static str {
    match status {
        Status::Idle | Status::Interrupted | Status::Failed => "idle",
        Status::Running | Status::Waiting => "busy",
        Status::Closed => "destroyed",
    }
}

/// A session that will run another prompt at once is busy in between.
fn status(view: &View) -> &'static str {
    if view.queued > 0 && view.status != Status::Closed { "busy" } else { status_of(view.status) }
}

fn describe(view: &View) -> Value {
    json!({
        "sessionId": view.uuid,
        "path": view.workspace.to_string_lossy(),
        "status": status(view),
        "mode": mode_of(view.autonomy),
        "cliType": view.agent.name(),
        "sdkSessionId": view.agent_session,
        "model": view.reported_model.as_ref().or(view.model.as_ref()),
        "createdAt": Timestamp::from_millis(view.created_ms),
        "lastActivityAt": Timestamp::from_millis(view.activity_ms),
    })
}

pub(super) fn list(shared: &DoorState) -> String {
    let sessions: Vec<Value> = shared.sessions().iter().map(|session| describe(&session.view())).collect();
    json!({ "sessions": sessions }).to_string()
}

pub(super) async fn sessions(shared: &Arc<DoorState>) -> Result<String, RpcError> {
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| {
        let sessions: Result<Vec<Value>, RpcError> =
            shared.sessions().iter().map(|session| monitored(wait, &shared, session)).collect();
        let sessions = sessions?;
        let (total, uptime) = (sessions.len(), shared.started.elapsed().as_secs());
        Ok(json!({ "sessions": sessions, "totalSessions": total, "uptime": uptime }).to_string())
    })
    .await
}

fn monitored(wait: &MayWait, shared: &DoorState, session: &Session) -> Result<Value, RpcError> {
    let stats = Stats::of(wait, shared, session).map_err(failed)?;
    let mut described = describe(&session.view());
    if let Some(members) = described.as_object_mut() {
        members.insert("queue".to_owned(), serde_json::from_str(&stats.json()).unwrap_or_default());
    }
    Ok(described)
}

pub(super) fn health(shared: &DoorState) -> String {
    let mut by_status: BTreeMap<&str, usize> = BTreeMap::new();
    let sessions = shared.sessions();
    for session in &sessions {
        *by_status.entry(status(&session.view())).or_default() += 1;
    }
    let memory = Memory::now();
    json!({
        "ok": true,
        "sessions": sessions.len(),
        "sessionsByStatus": by_status,
        "uptime": shared.started.elapsed().as_secs(),
        "memory": { "rss": memory.rss, "heapUsed": memory.heap_used, "heapTotal": memory.heap_total },
        "version": shared.settings.version,
        "rustVersion": RUSTC,
        "pid": shared.settings.pid,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_the_protocol() {
        assert_eq!([Status::Idle, Status::Running, Status::Waiting].map(status_of), ["idle", "busy", "busy"]);
        assert_eq!([Status::Interrupted, Status::Failed, Status::Closed].map(status_of), ["idle", "idle", "destroyed"]);
    }
}
