//! A person's answer to what an agent asks. It is bound to what this very connection was shown.

use std::sync::Arc;

use ostler_door_rpc::RpcError;
use ostler_engine::MayWait;
use ostler_engine::approval::DecideError;
use ostler_story::Decision;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meant;
use crate::DoorState;
use crate::connection::{Conn, Shown};

const ANSWERED: &str = "it was not shown on this connection, or has been answered";

#[derive(Deserialize)]
struct Params {
    session_id: String,
    request_id: String,
    decision: String,
    replacement: Option<Value>,
}

/// Nothing to acknowledge where the request was never shown here, or somebody else was quicker.
pub(super) async fn approve(
    shared: &Arc<DoorState>,
    conn: &Arc<Conn>,
    params: Map<String, Value>,
) -> Result<Value, RpcError> {
    let Params { session_id, request_id, decision, replacement } = meant(params)?;
    let meant = meaning(&decision, replacement)?;
    let reply = |acknowledged: bool, why: Option<String>| {
        let mut reply = json!({"session_id": session_id, "request_id": request_id, "acknowledged": acknowledged});
        if let (Some(members), Some(why)) = (reply.as_object_mut(), why) {
            members.insert("reason".to_owned(), why.into());
        }
        reply
    };
    let fits = |shown: &Shown| shown.session == session_id;
    let Some(whole) = conn.shown().get(&request_id).filter(|shown| fits(shown)).map(|shown| shown.whole) else {
        return Ok(reply(false, Some(ANSWERED.to_owned())));
    };
    if meant == Decision::Always && !whole {
        return Err(RpcError::params(
            "only a part of it was shown here, and a yes for ever needs all of it: allow_once, or `ostler approvals`",
        ));
    }
    let (shared, conn, id) = (Arc::clone(shared), Arc::clone(conn), request_id.clone());
    let decided = MayWait::run(move |wait| {
        // Taken away first: who has answered here need not be told that it was answered.
        let Some(shown) = conn.shown().remove(&id) else { return Ok(Err(ANSWERED.to_owned())) };
        let decided = decide(wait, &shared, &conn, &id, &shown.hash, meant);
        if decided.is_err() {
            conn.shown().insert(id, shown);
        }
        decided
    });
    Ok(match decided.await? {
        Ok(()) => reply(true, None),
        Err(why) => reply(false, Some(why)),
    })
}

/// What the words of this protocol mean.
fn meaning(decision: &str, replacement: Option<Value>) -> Result<Decision, RpcError> {
    Ok(match (decision, replacement) {
        ("allow_once", _) => Decision::Once,
        ("allow_always", _) => Decision::Always,
        ("reject" | "reject_once", _) => Decision::deny(),
        // What reads as a tool's input is one; anything else is a word to the agent.
        ("reject_with_edit", Some(Value::String(text))) => match serde_json::from_str(&text) {
            Ok(input @ Value::Object(_)) => Decision::Changed { input },
            _ => Decision::no(text),
        },
        ("reject_with_edit", Some(input @ Value::Object(_))) => Decision::Changed { input },
        ("reject_with_edit", _) => return Err(RpcError::params("reject_with_edit needs a replacement")),
        (other, _) => {
            let known = "allow_once, allow_always, reject, reject_with_edit";
            return Err(RpcError::params(format!("unknown decision `{other}` ({known})")));
        }
    })
}

/// Decides, if whoever is at the other end may: nobody that ostler hosts, and what lasts takes a terminal. Otherwise why it
/// came to nothing. May wait for the disk.
pub(crate) fn decide(
    wait: &MayWait,
    shared: &DoorState,
    conn: &Conn,
    approval: &str,
    hash: &str,
    decision: Decision,
) -> Result<Result<(), String>, RpcError> {
    let by = conn.who.decides(wait, &shared.engine, approval)?;
    match shared.engine.inbox().decide_here(wait, approval, hash, decision, by) {
        Ok(()) => Ok(Ok(())),
        Err(error @ DecideError::DoesNotFit(why)) => {
            conn.who.refused(wait, &shared.engine, approval, why);
            Err(RpcError::params(error.to_string()))
        }
        Err(error @ DecideError::Store(_)) => Err(RpcError::internal(error.to_string())),
        Err(error) => Ok(Err(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_one_decision() {
        assert_eq!(meaning("allow_once", None), Ok(Decision::Once));
        assert_eq!(meaning("allow_always", None), Ok(Decision::Always));
        assert_eq!(meaning("reject", None), Ok(Decision::deny()));
        assert_eq!(meaning("reject_with_edit", Some(json!("use less"))), Ok(Decision::no("use less")));
        let changed = Ok(Decision::Changed { input: json!({"a": 1}) });
        assert_eq!(meaning("reject_with_edit", Some(json!({"a": 1}))), changed);
        assert_eq!(meaning("reject_with_edit", Some(json!(r#"{"a":1}"#))), changed);
        assert!(meaning("reject_with_edit", None).is_err() && meaning("yes", None).is_err());
    }
}
