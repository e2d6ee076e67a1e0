//! Sessions are made, prompted, stopped and closed.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_door_rpc::{Head, RpcError, Watch};
use ostler_engine::MayWait;
use ostler_engine::session::{
    Accepted, Change, CreateError, Interrupt, NewSession, Prompt, PromptError, Session, SessionError, View,
};
use ostler_story::{Agent, Alias};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{About, failed, known, lives, meant, unknown};
use crate::attachments::{self, FileEntry};
use crate::connection::{Conn, LateReply, Tag};
use crate::error;
use crate::frame::reply;
use crate::returning::Rest;
use crate::turn::{Request, Turn, WAITED};
use crate::update::{Outcome, Updates};
use crate::{CHAT, CODE, DOOR, DoorState, history, name_of};

/// Sessions whose agent runs, at most: what clients of this protocol expect, and more than a machine runs with joy.
const LIVE_MAX: usize = 64;
/// How long a prompt waits for the turns before it: clients expect an answer by then.
const QUEUE_WAIT: Duration = Duration::from_secs(30);
/// How long closing waits for the agent; clients give up after 5 s.
const GONE_WITHIN: Duration = Duration::from_secs(4);
/// What is said where there is nothing to stop.
const IDLE: &str = "No active turn for this session";
/// As long as a name may be in any door.
const NAME_MAX: usize = 128;

#[derive(Deserialize)]
struct New {
    agent_alias: String,
    cwd: Option<PathBuf>,
    session_id: Option<String>,
    chat_mode: Option<String>,
}

/// A session that has the name already is the one that is meant. Who comes to a turn that runs is told all of it, from its
/// beginning to its end, and what waits for its people is shown again.
pub(super) async fn new(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    head: Head,
    params: Map<String, Value>,
) -> LateReply {
    let (ours, theirs) = (Arc::clone(shared), Arc::clone(conn));
    let made = MayWait::run(move |wait| {
        let (session, view) = opened(wait, &ours, &theirs, meant(params)?)?;
        theirs.open(session.id());
        let updates = Updates::of(name_of(&view));
        let watch = come_to(wait, &theirs, &session, &view, updates.clone())?;
        let mut waiting = Vec::new();
        if watch.is_none() {
            for (approval, asked) in session.asked() {
                theirs.show(&ours, &updates, &approval, &asked, &mut waiting);
            }
        }
        let told = history::of(wait, &ours.lives_of(&view), |session| theirs.told_from(session)).map_err(failed)?;
        let opened = json!({
            "session_id": name_of(&view),
            "agent_alias": view.agent.name(),
            "message_count": told.len(),
            "workspace_dir": view.workspace,
        });
        Ok((opened, waiting, watch))
    })
    .await;
    match made {
        Ok((opened, waiting, watch)) => {
            let mut answer = LateReply::reply(reply(&head, Ok(opened)));
            answer.reply.extend(waiting);
            answer.watch = watch;
            answer
        }
        Err(error) => LateReply::reply(reply(&head, Err(error))),
    }
}

/// What the client is told of the turn that runs; nothing if none does, or the client is being told already.
fn come_to(
    wait: &MayWait,
    conn: &Conn,
    session: &Session,
    view: &View,
    updates: Updates,
) -> Result<Option<Watch<Tag>>, RpcError> {
    let (Some(number), Some(began)) = (view.turn, view.turn_began) else { return Ok(None) };
    let Ok(place) = Arc::clone(&conn.turns).try_acquire_owned() else { return Ok(None) };
    let cursor = session.events(wait, began.saturating_sub(1)).map_err(failed)?;
    let Some(watch) = conn.follow(session.id(), number, Some(began)) else { return Ok(None) };
    if conn.introduced().is_some_and(|introduced| introduced.returns) {
        conn.returning().came(session.id());
    }
    let turn = Turn::new(updates, None, (session.id().to_owned(), number, watch), view.last, place);
    Ok(Some(Watch::events(session.id().to_owned(), Mutex::new(turn), cursor)))
}

/// The rest of a turn, for a client that came back to it and has drawn what it read.
pub(super) fn go_on(
    wait: &MayWait,
    shared: &DoorState,
    conn: &Conn,
    id: &str,
    rest: Rest,
) -> Result<Option<Watch<Tag>>, RpcError> {
    let Some(session) = shared.engine.sessions().get(id) else { return Ok(None) };
    let Ok(place) = Arc::clone(&conn.turns).try_acquire_owned() else { return Ok(None) };
    let cursor = session.events(wait, rest.began.saturating_sub(1)).map_err(failed)?;
    let Some(watch) = conn.follow(id, rest.number, Some(rest.upto)) else { return Ok(None) };
    let view = session.view();
    let of = (id.to_owned(), rest.number, watch);
    let turn = Turn::new(Updates::of(name_of(&view)), None, of, view.last, place).after(rest.upto);
    Ok(Some(Watch::events(id.to_owned(), Mutex::new(turn), cursor)))
}

fn opened(wait: &MayWait, shared: &DoorState, conn: &Conn, params: New) -> Result<(Session, View), RpcError> {
    let space = match params.chat_mode.as_deref() {
        None | Some("chat") => CHAT,
        Some("acp") => CODE,
        Some(other) => return Err(RpcError::params(format!("unknown chat_mode `{other}` (chat, acp)"))),
    };
    let cannot = |why: String| RpcError::internal(format!("Failed to create agent: {why}"));
    let sessions = shared.engine.sessions();
    let agent = sessions
        .agent(&params.agent_alias)
        .map_err(|unknown| cannot(format!("{unknown} ({})", unknown.known.join(", "))))?;
    // Where none was chosen it is called by its UUID.
    let id = match params.session_id {
        None => String::new(),
        Some(id) if is_name(&id) => id,
        Some(id) => {
            return Err(RpcError::params(format!(
                "`{id}` is no session id: letters, digits, - and _, up to {NAME_MAX}"
            )));
        }
    };
    match shared.session(&id) {
        Ok(session) => return same(session, &agent),
        Err(error @ SessionError::Ambiguous { .. }) => return Err(unknown(error)),
        Err(SessionError::NotFound(_)) => {}
    }
    conn.who.may_begin(&shared.engine)?;
    // A conversation that was closed under this name goes on where it was, as far as the agent remembers.
    let before = sessions.aliased(space, &id).pop().map(|session| session.view()).filter(|view| view.agent == agent);
    let workspace = match params.cwd.or_else(|| before.as_ref().map(|before| before.workspace.clone())) {
        Some(folder) => {
            conn.who.may_begin_in(wait, &shared.engine, &folder)?;
            folder
        }
        None => own_folder(shared, agent.name()).map_err(failed)?,
    };
    let resume = before.and_then(|before| before.agent_session);
    let new = NewSession {
        alias: Some(Alias { space: space.to_owned(), id }),
        resume,
        env: conn.introduced().and_then(|introduced| introduced.env).unwrap_or_default(),
        program_there: true,
        ..NewSession::new(agent.clone(), workspace, DOOR)
    };
    let session = sessions.create(wait, new).map_err(|error| match error {
        CreateError::Workspace { .. } => RpcError::params(error.to_string()),
        error => cannot(error.to_string()),
    })?;
    // Somebody may have been quicker.
    same(session, &agent)
}

/// The session, if it is a conversation with this agent.
fn same(session: Session, agent: &Agent) -> Result<(Session, View), RpcError> {
    let view = session.view();
    match view.agent == *agent {
        true => Ok((session, view)),
        false => {
            let (id, theirs) = (name_of(&view), view.agent.name());
            Err(RpcError::params(format!("session {id} is a conversation with {theirs}, not with {}", agent.name())))
        }
    }
}

fn is_name(id: &str) -> bool {
    (1..=NAME_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Where an agent works that was given no folder.
fn own_folder(shared: &DoorState, agent: &str) -> std::io::Result<PathBuf> {
    let folder = shared.settings.workspaces.join(agent);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    Ok(folder)
}

#[derive(Deserialize)]
struct PromptParams {
    session_id: String,
    prompt: String,
    #[serde(default)]
    attachments: Vec<FileEntry>,
    client_turn_generation: Option<u64>,
}

/// Accepts a prompt; the answer follows when its turn is over.
pub(super) async fn prompt(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    head: Head,
    params: Map<String, Value>,
) -> LateReply {
    let params: PromptParams = match meant(params) {
        Ok(params) => params,
        Err(error) => return LateReply::reply(reply(&head, Err(error))),
    };
    let updates = Updates::of(&params.session_id);
    let generation = params.client_turn_generation;
    let Ok(session) = shared.session(&params.session_id) else {
        let mut told = Vec::new();
        updates.turn_complete(Outcome::Failed, "turn cancelled by daemon: session_not_found", generation, &mut told);
        told.extend(reply(&head, known(shared, updates.session()).map(|_| Value::Null)));
        return LateReply::reply(told);
    };
    let Ok(place) = Arc::clone(&conn.turns).try_acquire_owned() else {
        return LateReply::reply(reply(&head, Err(error::busy("this connection waits for too many turns"))));
    };
    let env = conn.introduced().and_then(|introduced| introduced.env);
    let (ours, prompted, local) = (Arc::clone(shared), session.clone(), !conn.who.is_remote());
    let accepted = MayWait::run(move |wait| {
        let live = |view: &View| view.process.is_some();
        if !live(&prompted.view()) && ours.sessions().into_iter().filter(live).count() >= LIVE_MAX {
            return Err(error::too_many_sessions());
        }
        let blocks = attachments::blocks(&params.prompt, params.attachments, local, &|| prompted.files(wait))?;
        let accepted = prompted.prompt(wait, Prompt { blocks, env, ..Prompt::text("", DOOR) }).map_err(refused)?;
        let cursor = prompted.events(wait, accepted.record).map_err(failed)?;
        Ok((accepted, cursor))
    });
    match accepted.await {
        Ok((accepted, cursor)) => {
            wait_only_so_long(&session, accepted);
            conn.open(session.id());
            conn.returning().prompted(session.id());
            let watch = conn.follow(session.id(), accepted.number, None).unwrap_or_default();
            let (of, request) = ((session.id().to_owned(), accepted.number, watch), Request { head, generation });
            let turn = Mutex::new(Turn::new(updates, Some(request), of, 0, place));
            let mut answer = LateReply::reply(Vec::new());
            answer.watch = Some(Watch::events(session.id().to_owned(), turn, cursor).owed());
            answer
        }
        Err(error) => LateReply::reply(reply(&head, Err(error))),
    }
}

fn refused(error: PromptError) -> RpcError {
    match error {
        PromptError::Busy | PromptError::QueueFull(_) | PromptError::OnScreen => error::busy(error),
        PromptError::Empty | PromptError::TooLong(_) => RpcError::params(error.to_string()),
        PromptError::Closed => error::not_found("Session not found: it was closed"),
        PromptError::Io(error) => RpcError::internal(error.to_string()),
    }
}

/// A prompt whose turn does not come is taken back, and so it is said.
fn wait_only_so_long(session: &Session, accepted: Accepted) {
    if accepted.position == 0 {
        return;
    }
    let session = session.clone();
    drop(tokio::spawn(async move {
        tokio::time::sleep(QUEUE_WAIT).await;
        let taken = MayWait::pool(move |wait| session.take_back(wait, accepted.number, WAITED)).await;
        if let Ok(Err(error)) = taken {
            tracing::warn!("zeroclaw door: a prompt that waits could not be taken back: {error}");
        }
    }));
}

/// Stops the turn that runs; those that wait are not touched.
pub(super) async fn cancel(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let About { session_id } = meant(params)?;
    let session = match known(shared, &session_id) {
        Ok(session) if conn.owns(session.id()) => session,
        Err(error) if !conn.who.is_remote() => return Err(error),
        // One that is not there is not told apart.
        _ => return Err(error::not_owned()),
    };
    if conn.returning().spares(session.id()) {
        conn.hush(session.id());
        return Err(error::not_found(IDLE));
    }
    let stopped = MayWait::run(move |wait| session.interrupt(wait, Interrupt::default()).map_err(failed)).await?;
    match stopped.turn {
        true => Ok(json!({"session_id": session_id, "cancelled": true})),
        false => Err(error::not_found(IDLE)),
    }
}

pub(super) async fn close(shared: &Arc<DoorState>, params: Map<String, Value>) -> Result<Value, RpcError> {
    let About { session_id } = meant(params)?;
    known(shared, &session_id)?.end(GONE_WITHIN).await.map_err(failed)?;
    Ok(json!({"session_id": session_id, "closed": true}))
}

/// Closes it and deletes what was said, before it was closed and went on too.
pub(super) async fn delete(shared: &Arc<DoorState>, params: Map<String, Value>) -> Result<Value, RpcError> {
    let About { session_id } = meant(params)?;
    let lives = lives(shared, &session_id)?;
    for session in &lives {
        session.end(GONE_WITHIN).await.map_err(failed)?;
    }
    let shared = Arc::clone(shared);
    let forget =
        move |wait: &MayWait| lives.iter().filter(|session| !shared.engine.sessions().forget(wait, session)).count();
    let deleted = MayWait::run(move |wait| Ok::<_, RpcError>(forget(wait) == 0)).await?;
    Ok(json!({"session_id": session_id, "deleted": deleted}))
}

#[derive(Deserialize)]
struct Configure {
    session_id: String,
    overrides: Overrides,
}

/// What can be chosen here: the model. Providers and temperatures are the agents' own matter.
#[derive(Deserialize)]
struct Overrides {
    model: Option<String>,
}

pub(super) async fn configure(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let Configure { session_id, overrides } = meant(params)?;
    let session = known(shared, &session_id)?;
    let change = Change {
        model: overrides.model.map(|model| Some(model).filter(|model| !model.is_empty())),
        ..Change::default()
    };
    let conn = Arc::clone(conn);
    MayWait::run(move |wait| {
        session.change(wait, change, || conn.who.caller()).map_err(|error| RpcError::params(error.to_string()))
    })
    .await?;
    Ok(json!({"session_id": session_id, "configured": true}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_short_and_plain() {
        assert!(is_name("5f1c-AB_9") && is_name(&"a".repeat(NAME_MAX)));
        for bad in ["", "a/b", "a.b", "a b", "ü", &"a".repeat(NAME_MAX + 1)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
