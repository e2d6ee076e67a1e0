//! Which agents there are.

use std::sync::Arc;

use ostler_door_rpc::RpcError;
use ostler_engine::MayWait;
use ostler_engine::session::View;
use serde_json::{Value, json};

use crate::DoorState;

/// One that is not installed is not offered; looking for them reads folders.
pub(super) async fn status(shared: &Arc<DoorState>) -> Result<Value, RpcError> {
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| {
        let sessions = shared.sessions();
        let agents = shared.engine.sessions().agents(wait);
        let agent = |(name, there): &(String, bool)| {
            let of = |view: &&View| view.agent.name() == name;
            let live = sessions.iter().filter(of).filter(|view| view.process.is_some()).count();
            json!({
                "alias": name,
                "enabled": there,
                "live_sessions": live,
                "persisted_sessions": sessions.iter().filter(of).count(),
                "channels": [],
            })
        };
        Ok(json!({"agents": agents.iter().map(agent).collect::<Vec<_>>()}))
    })
    .await
}
