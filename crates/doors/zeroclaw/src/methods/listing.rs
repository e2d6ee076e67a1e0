//! What there is, and what was said.

use std::path::Path;
use std::sync::Arc;

use ostler_api::Timestamp;
use ostler_door_rpc::{Head, RpcError};
use ostler_engine::MayWait;
use ostler_engine::session::{Status, View};
use ostler_workspace::git;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::session::go_on;
use super::{About, failed, known, lives, meant};
use crate::connection::{Conn, LateReply};
use crate::frame::reply;
use crate::returning::Rest;
use crate::{CHAT, DoorState, history, name_of};

/// Messages that are sent together, unless a client wants fewer.
const PAGE: usize = 500;
/// What they may hold together, as they stand in a line: clients read up to 8 MiB.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Conversations that were begun as such.
pub(super) async fn chats(shared: &Arc<DoorState>) -> Result<Value, RpcError> {
    listed(shared, true).await
}

/// Work on code: what was begun as such, and whatever came through another door.
pub(super) async fn code(shared: &Arc<DoorState>) -> Result<Value, RpcError> {
    listed(shared, false).await
}

async fn listed(shared: &Arc<DoorState>, chats: bool) -> Result<Value, RpcError> {
    let shared = Arc::clone(shared);
    MayWait::run(move |wait| {
        shared.counts.keep(shared.engine.sessions());
        let is_chat = |view: &View| view.alias.as_ref().is_some_and(|alias| alias.space == CHAT);
        let sessions = shared.sessions();
        let listed = sessions.iter().rev().filter(|view| is_chat(view) == chats);
        let entries: Result<Vec<Value>, RpcError> = listed.map(|view| entry(wait, &shared, view)).collect();
        Ok(json!({"sessions": entries?}))
    })
    .await
}

fn entry(wait: &MayWait, shared: &DoorState, view: &View) -> Result<Value, RpcError> {
    Ok(json!({
        "session_id": name_of(view),
        "session_key": name_of(view),
        "agent_alias": view.agent.name(),
        "name": view.name,
        "state": state_of(view.status),
        "created_at": time(view.created_ms),
        "last_activity": time(view.activity_ms),
        "message_count": shared.counts.of(wait, &shared.lives_of(view)).map_err(failed)?,
        "workspace_dir": view.workspace,
    }))
}

fn time(millis: u64) -> String {
    Timestamp::from_millis(millis).to_string()
}

pub(super) fn state(shared: &DoorState, conn: &Conn, params: Map<String, Value>) -> Result<Value, RpcError> {
    let About { session_id } = meant(params)?;
    let session = known(shared, &session_id)?;
    if conn.returning().is_spared(session.id()) {
        return Ok(json!({"session_id": session_id, "state": state_of(Status::Idle), "turn_id": null}));
    }
    let view = session.view();
    let turn = view.turn.map(|number| number.to_string());
    Ok(json!({"session_id": session_id, "state": state_of(view.status), "turn_id": turn}))
}

/// A turn that waits for somebody is still one that runs.
fn state_of(status: Status) -> &'static str {
    match status {
        Status::Idle => "idle",
        Status::Running | Status::Waiting => "running",
        Status::Interrupted => "interrupted",
        Status::Failed => "failed",
        Status::Closed => "closed",
    }
}

#[derive(Deserialize)]
struct Messages {
    session_id: String,
    limit: Option<usize>,
    before_index: Option<usize>,
}

/// The last of them, or those before one that the client has. Of a turn to which it came while that ran the client has, or
/// gets, all there is: what was said in it is not told twice.
pub(super) async fn messages(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let conn = Arc::clone(conn);
    let Messages { session_id, limit, before_index } = meant(params)?;
    let lives = lives(shared, &session_id)?;
    MayWait::run(move |wait| {
        let spared = lives.last().filter(|session| conn.returning().is_spared(session.id()));
        let rest = spared.and_then(|session| rest_of(&session.view()));
        let upto = |session: &str| {
            rest.map(|rest| rest.upto).filter(|_| lives.last().is_some_and(|last| last.id() == session))
        };
        let all =
            history::of(wait, &lives, |session| conn.told_from(session).or_else(|| upto(session))).map_err(failed)?;
        if let Some(session) = spared {
            conn.returning().read(session.id(), rest);
        }
        let end = before_index.unwrap_or(all.len()).min(all.len());
        let start = page(all.get(..end).unwrap_or_default(), limit.unwrap_or(PAGE).min(PAGE));
        let messages = all.get(start..end).unwrap_or_default();
        Ok(json!({"session_id": session_id, "messages": messages, "total": all.len(), "start": start}))
    })
    .await
}

/// What follows the messages of a turn that runs.
fn rest_of(view: &View) -> Option<Rest> {
    Some(Rest { number: view.turn?, began: view.turn_began?, upto: view.last })
}

/// Where the page begins that ends here: at least one message, and no more than a line has room for.
fn page(messages: &[history::Message], limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |message: &&history::Message| {
        let first = bytes == 0;
        bytes += message.size();
        first || bytes <= PAGE_BYTES
    };
    messages.len() - messages.iter().rev().take(limit).take_while(fits).count()
}

/// Asked for about once a second: only files are read. Who asks again has drawn what it read before, and may be told on.
pub(super) async fn git_branch(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    head: Head,
    params: Map<String, Value>,
) -> LateReply {
    let found = async {
        let About { session_id } = meant(params)?;
        let workspace = known(shared, &session_id)?.view().workspace;
        let (shared, conn) = (Arc::clone(shared), Arc::clone(conn));
        MayWait::run(move |wait| {
            let drawn = conn.returning().polled(&session_id);
            let watch = drawn.map(|(id, rest)| go_on(wait, &shared, &conn, &id, rest)).transpose()?.flatten();
            Ok((branch_of(&workspace), watch))
        })
        .await
    };
    match found.await {
        Ok((branch, watch)) => {
            let mut answer = LateReply::reply(reply(&head, Ok(branch)));
            answer.watch = watch;
            answer
        }
        Err(error) => LateReply::reply(reply(&head, Err(error))),
    }
}

fn branch_of(workspace: &Path) -> Value {
    let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
    match git::checked_out(workspace) {
        Some(git::Head::Branch(branch)) => json!({"branch": text(&branch)}),
        Some(git::Head::Detached(commit)) => json!({"hash": text(&commit)}),
        None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_where_it_is_asked_to_and_holds_what_a_line_can() {
        let small = history::Message::said("user", "x".repeat(10));
        let large = history::Message::said("user", "x".repeat(PAGE_BYTES));
        assert_eq!(page(&vec![small.clone(); 9], 4), 5);
        assert_eq!(page(&[large.clone(), small.clone(), small.clone()], 9), 1);
        assert_eq!(page(&[small, large], 9), 1, "one that is too large comes alone");
        assert_eq!(page(&[], 9), 0);
    }
}
