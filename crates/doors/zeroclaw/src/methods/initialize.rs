//! The first request: which version, and who is there.

use std::collections::BTreeMap;
use std::ffi::OsString;

use ostler_api::Timestamp;
use ostler_door_rpc::RpcError;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{NAMES, meant};
use crate::connection::{Conn, Introduced};
use crate::error;
use crate::presence::Guest;
use crate::{DoorState, PROTOCOL};

/// The longest name that a client may claim for itself.
const NAME_MAX: usize = 128;

#[derive(Deserialize)]
struct Params {
    protocol_version: Option<u64>,
    tui_id: Option<String>,
    env: Option<BTreeMap<String, String>>,
    client_capabilities: Option<Value>,
}

/// May be called again: what a client says last is what counts.
pub(crate) fn initialize(shared: &DoorState, conn: &Conn, params: Map<String, Value>) -> Result<Value, RpcError> {
    let params: Params = meant(params)?;
    let version = params.protocol_version.unwrap_or(PROTOCOL);
    if version != PROTOCOL {
        return Err(error::version(version));
    }
    let fits = |id: &String| !id.is_empty() && id.len() <= NAME_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    // Who names itself got the name from a daemon before.
    let named = params.tui_id.filter(fits);
    let returns = named.is_some();
    let id = match named {
        Some(id) => id,
        None => fresh_id().map_err(super::failed)?,
    };
    let form = params.client_capabilities.as_ref().and_then(|can| can.get("elicitation")).is_some_and(shows_forms);
    // Variables are of another machine there.
    let env = params.env.filter(|_| !conn.who.is_remote()).map(variables);
    conn.introduce(Introduced { env, form, returns });
    let (label, transport) = (conn.who.label(), conn.who.transport());
    tracing::info!("zeroclaw door: {id} at {label}");
    shared.presence.introduce(conn.number, Guest { id: id.clone(), label, transport, since: Timestamp::now() });
    let command = |name: &str| json!({"id": name, "name": name});
    Ok(json!({
        "protocol_version": PROTOCOL,
        "server_version": shared.settings.version,
        "server_pid": shared.settings.pid,
        "tui_id": id,
        "capabilities": NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "commands": [command("help"), json!({"id": "new", "name": "new", "aliases": ["new-session"]}), command("model")],
    }))
}

/// Saying nothing about the kind of form means this one.
fn shows_forms(elicitation: &Value) -> bool {
    elicitation.as_object().is_some_and(|kinds| kinds.is_empty() || kinds.contains_key("form"))
}

/// What an agent can be given: the rest could not have been in an environment, is ours, or speaks of a terminal that it does
/// not have.
fn variables(env: BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    let ours = |name: &str| name.starts_with("OSTLER_") || matches!(name, "TERM" | "COLORTERM");
    let fits = |(name, value): &(String, String)| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') && !ours(name)
    };
    env.into_iter().filter(fits).map(|(name, value)| (name.into(), value.into())).collect()
}

fn fresh_id() -> std::io::Result<String> {
    let uuid = ostler_engine::uuid()?;
    Ok(format!("tui_{}", uuid.get(..8).unwrap_or(&uuid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_known_by_the_word_or_by_no_word_at_all() {
        assert!(shows_forms(&json!({})) && shows_forms(&json!({"form": {}})));
        assert!(!shows_forms(&json!({"url": {}})) && !shows_forms(&json!(true)));
    }

    #[test]
    fn variables_that_no_process_could_have_are_left_out() {
        let given = [("A", "1"), ("", "2"), ("B=C", "3"), ("D", "4\0"), ("OSTLER_PROCESS", "p1"), ("TERM", "xterm")];
        let given = given.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(variables(given), [("A".into(), "1".into())]);
    }
}
