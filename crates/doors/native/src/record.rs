//! What a session's watcher is told. The journal's payload is JSON already, one object on a line, and is not read on its way.

use std::io::Write;

use ostler_api::Timestamp;
use ostler_door_rpc::notify;
use ostler_engine::{EventHead, Missing};

/// What the daemon says in the agents' own words is told in those words.
const SAID: &[u8] = br#"{"type":"said","event":"#;

/// One record.
pub(crate) fn push_record(watch: u64, head: &EventHead, payload: &[u8], out: &mut Vec<u8>) {
    let time = Timestamp::from_nanos(head.time_ns);
    let EventHead { record, source, src_end, .. } = head;
    notify(out, "session.events", |out| {
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            r#"{{"watch":{watch},"record":{record},"time":"{time}","source":{source},"src_end":{src_end},"events":["#
        );
        for (index, object) in objects(payload).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(object);
        }
        out.extend_from_slice(b"]}");
    });
}

/// The objects of a payload, in the agents' own words.
pub(crate) fn objects(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = payload.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| line.strip_prefix(SAID).and_then(|rest| rest.strip_suffix(b"}")).unwrap_or(line))
}

pub(crate) fn push_gap(watch: u64, first: u64, missing: Missing, out: &mut Vec<u8>) {
    let missing = crate::frame::word(missing);
    notify(out, "session.gap", |out| {
        let _ = write!(out, r#"{{"watch":{watch},"first":{first},"missing":"{missing}"}}"#);
    });
}

pub(crate) fn push_lost(watch: u64, message: &str, out: &mut Vec<u8>) {
    let message = serde_json::Value::from(message);
    notify(out, "session.lost", |out| {
        let _ = write!(out, r#"{{"watch":{watch},"message":{message}}}"#);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_api::{Notification, SessionEvents};

    fn written(payload: &str) -> SessionEvents {
        let head = EventHead { record: 7, source: 2, src_end: 99, time_ns: 1_500_000, len: payload.len() };
        let mut out = Vec::new();
        push_record(3, &head, payload.as_bytes(), &mut out);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line for each record");
        let Notification::Events(events) = serde_json::from_slice(&out).unwrap() else { panic!() };
        events
    }

    #[test]
    fn a_record_holds_every_object_of_its_payload() {
        let events = written("{\"type\":\"text\",\"text\":\"a\\nb\"}\n{\"type\":\"unknown\",\"kind\":\"x\"}\n");
        assert_eq!((events.watch, events.record, events.source, events.src_end), (3, 7, 2, 99));
        assert_eq!(events.time, Timestamp::from_micros(1500));
        let types: Vec<_> = events.events.iter().filter_map(|event| event.json()["type"].as_str()).collect();
        assert_eq!(types, ["text", "unknown"]);
        assert!(written("").events.is_empty());
    }

    #[test]
    fn what_the_daemon_says_for_the_agent_reads_like_the_agents_own() {
        let events =
            written("{\"type\":\"said\",\"event\":{\"type\":\"turn_ended\",\"reason\":\"interrupted\"}}\n").events;
        let events: Vec<_> = events.iter().map(ostler_api::SessionEvent::json).collect();
        assert_eq!(events, [&serde_json::json!({"type": "turn_ended", "reason": "interrupted"})]);
    }

    #[test]
    fn gaps_and_losses_read_as_their_types_say() {
        let mut out = Vec::new();
        push_gap(3, 8, Missing::Damaged, &mut out);
        assert!(matches!(serde_json::from_slice(&out).unwrap(), Notification::SessionGap(gap) if gap.first == 8));
        out.clear();
        push_lost(3, "a \"b\"", &mut out);
        assert!(
            matches!(serde_json::from_slice(&out).unwrap(), Notification::SessionLost(lost) if lost.message == "a \"b\"")
        );
    }
}
