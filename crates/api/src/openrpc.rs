//! The OpenRPC document, made from the method types.

use serde_json::{Value, json};

use crate::feed::{FeedChanges, FeedGap, FeedLost};
use crate::method::METHODS;
use crate::piece::SessionPieces;
use crate::process::{Exited, Frame, Gap, Lost};
use crate::schema::Schema;
use crate::session::{SessionEvents, SessionGap, SessionLost};
use crate::session_event;

/// Describes every method of this protocol version. `program` is the version of the daemon's program.
pub fn document(program: &str) -> Value {
    let methods: Vec<Value> = METHODS
        .iter()
        .map(|method| describe(method.name, method.summary, &(method.params)(), Some((method.result)())))
        .collect();
    let notifications = [
        ("process.frame", "Bytes that a watched process wrote.", Frame::schema()),
        ("process.exit", "A watched process ended; the last notification of a watch.", Exited::schema()),
        ("process.gap", "Output is missing here, and why; the watch goes on at first_seq.", Gap::schema()),
        ("process.lost", "The journal cannot be read any further; the watch ends.", Lost::schema()),
        ("session.events", "One record of a watched session.", SessionEvents::schema()),
        ("session.pieces", "What one record of a watched session tells, in pieces.", SessionPieces::schema()),
        ("session.gap", "Records were let go by retention; the watch goes on at first.", SessionGap::schema()),
        ("session.lost", "The journal cannot be read any further; the watch ends.", SessionLost::schema()),
        ("feed.changes", "Changes of the instance, in their order.", FeedChanges::schema()),
        ("feed.gap", "Changes are missing here, and why; the watch goes on after oldest.", FeedGap::schema()),
        ("feed.lost", "The feed cannot be read any further; the watch ends.", FeedLost::schema()),
    ];
    let any: Vec<Value> = notifications.iter().map(|(.., params)| params.clone()).collect();
    let notifications: Vec<Value> =
        notifications.iter().map(|(name, summary, params)| describe(name, summary, params, None)).collect();
    let mut schemas = session_event::schemas();
    schemas.insert("Notification".into(), json!({ "oneOf": any }));
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "ostler",
            "version": program,
            "description": "JSON-RPC 2.0, one object per line, over the native door's unix socket.",
            "x-api-version": crate::API_VERSION,
        },
        "methods": methods,
        "x-notifications": notifications,
        "components": { "schemas": schemas },
    })
}

/// OpenRPC lists parameters one by one; ours are always sent by name.
fn describe(name: &str, summary: &str, params: &Value, result: Option<Value>) -> Value {
    let required = params.get("required").and_then(Value::as_array);
    let list: Vec<Value> = params
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(field, schema)| {
            let needed = required.is_some_and(|names| names.iter().any(|name| name == field));
            json!({"name": field, "required": needed, "schema": schema})
        })
        .collect();
    let mut method = json!({"name": name, "summary": summary.trim(), "paramStructure": "by-name", "params": list});
    if let (Some(method), Some(result)) = (method.as_object_mut(), result) {
        method.insert("result".into(), json!({"name": "result", "schema": result}));
    }
    method
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_described_with_its_required_parameters() {
        let document = document("0");
        let methods = document["methods"].as_array().unwrap();
        assert_eq!(methods.len(), METHODS.len());
        let spawn = methods.iter().find(|method| method["name"] == "process.spawn").unwrap();
        let params = spawn["params"].as_array().unwrap();
        let required: Vec<&str> = params
            .iter()
            .filter(|param| param["required"] == true)
            .filter_map(|param| param["name"].as_str())
            .collect();
        assert_eq!(required, ["program"]);
        assert!(params.iter().all(|param| param["schema"]["type"].is_string() || param["schema"]["enum"].is_array()));
    }

    #[test]
    fn everything_that_is_said_without_being_asked_is_described() {
        let document = document("0");
        let described: Vec<&str> =
            document["x-notifications"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        // Whoever reads one that is not there is told which there are.
        let refused = serde_json::from_str::<crate::Notification>(r#"{"method":"none","params":{}}"#).unwrap_err();
        let known = refused.to_string();
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).filter(|name| name.contains('.')).collect();
        assert_eq!(described, known);
    }

    #[test]
    fn what_the_description_calls_optional_may_really_be_left_out() {
        let params: crate::SpawnParams = serde_json::from_str(r#"{"program":"true"}"#).unwrap();
        assert!(params.args.is_empty() && params.tty.is_none() && !params.private);
    }
}
