//! Sessions are made, changed, stopped and destroyed.

use std::sync::Arc;
use std::time::Duration;

use ostler_door_rpc::RpcError;
use ostler_door_web::Peer;
use ostler_engine::MayWait;
use ostler_engine::session::{Change, ChangeError, Interrupt, NewSession};
use ostler_story::{Agent, Autonomy, Lifetime};

use super::{failed, known};
use crate::envelope::{Params, missing, no_session};
use crate::{DOOR, DoorState, paths, skills};

/// TERM, five seconds, KILL, and a moment. Clients wait for 30 s.
const GONE_WITHIN: Duration = Duration::from_secs(12);
const OK: &str = r#"{"ok":true}"#;
const NOT_OK: &str = r#"{"ok":false}"#;

/// The modes of this protocol, and what each means.
const MODES: [(&str, Autonomy); 4] =
    [("auto", Autonomy::All), ("code", Autonomy::Edits), ("plan", Autonomy::Plan), ("ask", Autonomy::Ask)];

/// The mode that is meant by this autonomy.
pub(super) fn mode_of(autonomy: Autonomy) -> &'static str {
    MODES.iter().find(|(_, meant)| *meant == autonomy).map_or("auto", |(name, _)| name)
}

fn autonomy(mode: &str) -> Result<Autonomy, RpcError> {
    let found = MODES.iter().find(|(name, _)| *name == mode).map(|(_, meant)| *meant);
    found.ok_or_else(|| failed(format!("Invalid mode: {mode} (auto, code, plan, ask)")))
}

fn agent(shared: &DoorState, cli: &str) -> Result<Agent, RpcError> {
    let unknown = |known: &[String]| failed(format!("Unknown cli_type: {cli} ({})", known.join(", ")));
    shared.engine.sessions().agent(cli).map_err(|error| unknown(&error.known))
}

pub(super) async fn create(shared: &Arc<DoorState>, params: &Params) -> Result<String, RpcError> {
    let [path] = params.need(["path"])?;
    let path = path.to_owned();
    let autonomy = autonomy(params.text("mode")?.unwrap_or("auto"))?;
    let agent = agent(shared, params.text("cli_type")?.unwrap_or("claude"))?;
    let model = params.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned);
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| {
        let home = &shared.settings.home;
        let workspace = paths::folder(&path, home)?;
        skills::sync(&home.join(".codecast/skills"), &workspace, &agent);
        let new = NewSession { autonomy, model, lifetime: Lifetime::Turn, ..NewSession::new(agent, workspace, DOOR) };
        let session = shared.engine.sessions().create(wait, new).map_err(failed)?;
        Ok(format!(r#"{{"sessionId":"{}"}}"#, session.uuid()))
    })
    .await
}

pub(super) async fn resume(shared: &Arc<DoorState>, from: Peer, params: &Params) -> Result<String, RpcError> {
    let [id] = params.need(["sessionId"])?;
    let given = params.text("sdkSessionId")?.filter(|given| !given.is_empty()).map(str::to_owned);
    let Some(session) = shared.session(id)? else { return Ok(r#"{"ok":false,"fallback":false}"#.to_owned()) };
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| {
        let view = session.view();
        // A conversation that the agent no longer knows can not be gone on with: the next message begins a fresh one.
        let wanted = given.as_ref().or(view.lost.as_ref());
        let fallback = view.lost.is_some() && view.lost.as_ref() == wanted;
        if let Some(given) = given.filter(|_| !fallback) {
            let change = Change { agent_session: Some(Some(given)), ..Change::default() };
            session.change(wait, change, || from.caller(&shared.engine)).map_err(failed)?;
        }
        shared.place(wait, &session, |place| place.here()).map_err(failed)?;
        Ok(format!(r#"{{"ok":true,"fallback":{fallback}}}"#))
    })
    .await
}

/// Answers when the process is gone, or the last means against it has been used.
pub(super) async fn destroy(shared: &Arc<DoorState>, params: &Params) -> Result<String, RpcError> {
    let [id] = params.need(["sessionId"])?;
    let Some(session) = shared.session(id)? else { return Ok(NOT_OK.to_owned()) };
    session.end(GONE_WITHIN).await.map_err(failed)?;
    Ok(OK.to_owned())
}

pub(super) async fn set_mode(shared: &Arc<DoorState>, from: Peer, params: &Params) -> Result<String, RpcError> {
    let [id, mode] = params.need(["sessionId", "mode"])?;
    let autonomy = Some(autonomy(mode)?);
    change(shared, from, id, Change { autonomy, ..Change::default() }).await
}

/// A model that is null is the agent's own choice again; one that is missing is a mistake.
pub(super) async fn set_model(shared: &Arc<DoorState>, from: Peer, params: &Params) -> Result<String, RpcError> {
    let required = ["sessionId", "model"];
    if !params.has("model") {
        return Err(missing(&required));
    }
    let [id] = params.need(["sessionId"]).map_err(|_| missing(&required))?;
    let model = params.text("model")?.filter(|model| !model.is_empty()).map(str::to_owned);
    change(shared, from, id, Change { model: Some(model), ..Change::default() }).await
}

async fn change(shared: &Arc<DoorState>, from: Peer, id: &str, change: Change) -> Result<String, RpcError> {
    let (session, shared) = (known(shared, id)?, Arc::clone(shared));
    let id = id.to_owned();
    MayWait::run(move |wait| match session.change(wait, change, || from.caller(&shared.engine)) {
        Ok(()) => Ok(OK.to_owned()),
        Err(ChangeError::Closed) => Err(no_session(&id)),
        Err(error) => Err(failed(error)),
    })
    .await
}

pub(super) async fn interrupt(shared: &Arc<DoorState>, params: &Params) -> Result<String, RpcError> {
    let [id] = params.need(["sessionId"])?;
    let session = known(shared, id)?;
    MayWait::run(move |wait| {
        let stopped = session.interrupt(wait, Interrupt { clear_queue: true, end_process: true }).map_err(failed)?;
        Ok(format!(r#"{{"ok":true,"interrupted":{}}}"#, stopped.turn))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_an_autonomy_and_back() {
        for (name, meant) in MODES {
            assert_eq!((autonomy(name).unwrap(), mode_of(meant)), (meant, name));
        }
        assert_eq!(autonomy("bogus").unwrap_err().code, -32000);
        assert!(autonomy("Auto").is_err());
    }
}
