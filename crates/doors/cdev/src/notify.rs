//! Events on the wire: `event/<type>`, with the members of the event, its type and its time beside each other.

use ostler_api::Timestamp;
use ostler_door_rpc::notify_of;
use serde::Serialize;

/// What goes with every event.
#[derive(Serialize)]
struct Params<'a, T: Serialize> {
    event: &'a str,
    timestamp: Timestamp,
    #[serde(flatten)]
    payload: &'a T,
}

/// Appends an event as one line. `payload` is an object.
pub(crate) fn push<T: Serialize>(out: &mut Vec<u8>, event: &str, timestamp: Timestamp, payload: &T) {
    let params = Params { event, timestamp, payload };
    if let Err(error) = notify_of(out, &format!("event/{event}"), &params) {
        tracing::error!("cdev: an event {event} could not be written: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_event_is_a_notification_with_its_members_side_by_side() {
        let mut out = Vec::new();
        push(&mut out, "file_changed", Timestamp::from_micros(0), &json!({ "path": "a" }));
        let said: Value = serde_json::from_slice(&out).unwrap();
        let params = json!({ "event": "file_changed", "timestamp": "1970-01-01T00:00:00.000000Z", "path": "a" });
        assert_eq!(said, json!({ "jsonrpc": "2.0", "method": "event/file_changed", "params": params }));
        assert!(out.ends_with(b"}\n"));
    }

    #[test]
    fn what_is_no_object_is_not_sent_by_halves() {
        let mut out = b"before\n".to_vec();
        push(&mut out, "error", Timestamp::from_micros(0), &7);
        assert_eq!(out, b"before\n");
    }
}
