//! A request as it is on the wire: one JSON object, every member optional. Nothing of it is believed yet.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// What the sender wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    #[default]
    Exec,
    Stop,
    Ping,
}

/// The members that we know; others are for versions to come.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Request {
    #[serde(default = "fresh_id")]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) host: String,
    #[serde(default = "nobody")]
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) time: String,
    #[serde(default)]
    pub(crate) pipeline: Vec<Vec<String>>,
    #[serde(default)]
    pub(crate) action: Action,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default = "yes")]
    pub(crate) privileged: bool,
    #[serde(default)]
    pub(crate) forward_agent: bool,
    #[serde(default)]
    pub(crate) version: String,
}

impl Request {
    /// Reads one line.
    pub(crate) fn read(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<Object>(line).map(|Object(request)| request)
    }
}

/// Takes an object and nothing else: derived code would also take an array of the members in order.
struct Object(Request);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OnlyMaps;
        impl<'de> Visitor<'de> for OnlyMaps {
            type Value = Object;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("struct Request")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object, A::Error> {
                Request::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        from.deserialize_map(OnlyMaps)
    }
}

/// The most restrictive default: a client that forgets the member still goes through approval and sudo.
fn yes() -> bool {
    true
}

fn nobody() -> String {
    "unknown".to_owned()
}

/// Without randomness ids repeat, and the second request is refused as a duplicate: nothing runs twice.
fn fresh_id() -> String {
    ostler_engine::uuid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        Request::read(line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_member_is_optional_and_has_the_strictest_default() {
        let request = Request::read(b"{}").unwrap();
        assert_eq!((request.session.as_str(), request.privileged, request.forward_agent), ("unknown", true, false));
        assert_eq!((request.host.as_str(), request.time.as_str(), request.reason.as_str()), ("", "", ""));
        assert!(request.pipeline.is_empty() && request.env.is_empty() && request.action == Action::Exec);
    }

    #[test]
    fn an_absent_id_becomes_a_fresh_uuid_of_version_4() {
        let (a, b) = (Request::read(b"{}").unwrap().id, Request::read(b"{}").unwrap().id);
        assert_ne!(a, b);
        let groups: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(&a[14..15], "4");
        assert!(matches!(&a[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(Request::read(br#"{"id":""}"#).unwrap().id, "");
    }

    #[test]
    fn unknown_members_are_ignored() {
        assert!(Request::read(br#"{"future":{"a":[1,2]},"priority":9}"#).is_ok());
    }

    #[test]
    fn an_array_is_no_request() {
        assert_eq!(error(r#"["id","h","s"]"#), "invalid type: sequence, expected struct Request at line 1 column 0");
        assert_eq!(error("[]"), "invalid type: sequence, expected struct Request at line 1 column 0");
    }

    #[test]
    fn what_is_wrong_is_said_in_the_parsers_own_words() {
        assert_eq!(error("5"), "invalid type: integer `5`, expected struct Request at line 1 column 1");
        assert_eq!(error("null"), "invalid type: null, expected struct Request at line 1 column 4");
        assert_eq!(error("nope"), "expected ident at line 1 column 2");
        assert_eq!(error(r#"{"id":"x""#), "EOF while parsing an object at line 1 column 9");
        assert_eq!(error(r#"{"id":"a","id":"b"}"#), "duplicate field `id` at line 1 column 14");
        assert_eq!(error(r#"{"id":null}"#), "invalid type: null, expected a string at line 1 column 10");
        assert!(error(r#"{"pipeline":["ls"]}"#).starts_with(r#"invalid type: string "ls", expected a sequence"#));
        assert!(error(r#"{"action":"dance"}"#).starts_with("unknown variant `dance`, expected one of `exec`"));
        assert_eq!(error("{} x"), "trailing characters at line 1 column 4");
        let broken = Request::read(b"{\"reason\":\"\xff\xfe\"}").unwrap_err().to_string();
        assert!(broken.starts_with("invalid unicode code point at line 1 column"), "{broken}");
    }
}
