//! Lines in and out: what a line is, and how it is answered.

use ostler_door_rpc::{Envelope, Form, Head, NotAMessage, RpcError};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::{error, spelling};

/// Clients of this protocol know answers with the id at their end.
const FORM: Form = Form { id_first: false, ..Form::USUAL };

/// The answer as a line; empty where nobody wants one.
pub(crate) fn reply(head: &Head, result: Result<Value, RpcError>) -> Vec<u8> {
    match result {
        Ok(result) => head.result(spelling::both(result).to_string().as_bytes()),
        Err(error) => head.error(error),
    }
}

/// What a line turned out to be.
#[derive(Debug)]
pub(crate) enum Frame {
    /// Nothing at all.
    Blank,
    /// Something to do.
    Request { head: Head, method: String, params: Result<Map<String, Value>, RpcError> },
    /// What a client says to a request of ours.
    Response { id: String, result: Option<Value> },
    /// Nothing that could be done; the answer says why.
    Bad(Vec<u8>),
}

pub(crate) fn read(line: &[u8]) -> Frame {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Frame::Blank;
    }
    let envelope = match Envelope::read(line) {
        Ok(envelope) => envelope,
        Err(NotAMessage::Syntax(_)) => return bad(None, RpcError::parse("Parse error")),
        Err(NotAMessage::Shape(_)) => return invalid(None, "a message is one object"),
    };
    if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
        let id = envelope.id.and_then(|id| serde_json::from_str(id.get()).ok());
        let result = envelope.result.and_then(|result| serde_json::from_str(result.get()).ok());
        return id.map_or(Frame::Blank, |id| Frame::Response { id, result });
    }
    let id = envelope.id();
    if !envelope.has_plain_id() {
        return invalid(None, "an id is a string or a number");
    }
    if !envelope.is_version_2() {
        return invalid(id, "jsonrpc must be \"2.0\"");
    }
    let Some(method) = envelope.method() else { return invalid(id, "method must be a string") };
    let params = match envelope.params.map_or("null", RawValue::get) {
        // Some clients have nothing to say by place.
        "null" | "[]" => Ok(Map::new()),
        array if array.starts_with('[') => Err(RpcError::params("params must be an object")),
        object if object.starts_with('{') => {
            serde_json::from_str(object).map(spelling::understood).map_err(|error| RpcError::params(error.to_string()))
        }
        _ => return invalid(id, "params must be an object"),
    };
    Frame::Request { head: Head::new(&FORM, id), method: method.into_owned(), params }
}

fn invalid(id: Option<&[u8]>, why: &str) -> Frame {
    bad(id, RpcError::invalid(format!("Invalid request: {why}")))
}

fn bad(id: Option<&[u8]>, error: RpcError) -> Frame {
    Frame::Bad(Head::new(&FORM, Some(id.unwrap_or(b"null"))).error(error))
}

/// The only answer to a line that is too long.
pub(crate) fn too_long(limit: usize) -> Vec<u8> {
    let message = format!("Frame exceeds the {limit}-byte local RPC frame limit");
    let data = json!({"reason": "frame_too_large", "limit_bytes": limit});
    Head::unknown(&FORM).error(RpcError::invalid(message).with_data(data))
}

/// The only answer to one client too many.
pub(crate) fn crowded(limit: usize) -> Vec<u8> {
    let data = json!({"reason": "connection_limit", "limit": limit});
    Head::unknown(&FORM).error(error::crowded("Too many local connections").with_data(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> (i64, Value) {
        let Frame::Bad(reply) = read(line.as_bytes()) else { panic!("{line} was taken") };
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        (reply["error"]["code"].as_i64().unwrap(), reply["id"].clone())
    }

    #[test]
    fn what_is_not_json_is_told_apart_from_what_is_no_request() {
        assert_eq!(refusal("{\"jsonrpc\":\"2.0\",\"method\":"), (-32700, Value::Null));
        assert_eq!(refusal("[{\"jsonrpc\":\"2.0\",\"method\":\"status\",\"id\":1}]"), (-32600, Value::Null));
        assert_eq!(refusal("7"), (-32600, Value::Null));
        assert_eq!(refusal("{\"method\":\"status\",\"id\":1}"), (-32600, json!(1)));
        assert_eq!(refusal("{\"jsonrpc\":\"1.0\",\"method\":\"status\",\"id\":\"x\"}"), (-32600, json!("x")));
        assert_eq!(refusal("{\"jsonrpc\":\"2.0\",\"method\":5,\"id\":1}"), (-32600, json!(1)));
        assert_eq!(refusal("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":5,\"id\":1}"), (-32600, json!(1)));
        assert_eq!(refusal("{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":{}}"), (-32600, Value::Null));
        assert!(matches!(read(b"\xff\xfe"), Frame::Bad(_)) && matches!(read(b"  \r"), Frame::Blank));
    }

    #[test]
    fn an_id_comes_back_as_it_was_and_null_is_an_id() {
        for (id, expected) in
            [("7", "7"), ("\"zc-out-0\"", "\"zc-out-0\""), ("null", "null"), ("-3", "-3"), ("1.50", "1.50")]
        {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":{id}}}");
            let Frame::Request { head, .. } = read(line.as_bytes()) else { panic!("{id}") };
            let said = String::from_utf8(reply(&head, Ok(json!({"a_b": 1})))).unwrap();
            assert_eq!(said, format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"a_b\":1,\"aB\":1}},\"id\":{expected}}}\n"));
        }
        let Frame::Request { head, .. } = read(br#"{"jsonrpc":"2.0","method":"a"}"#) else { panic!() };
        assert!(reply(&head, Ok(json!({}))).is_empty(), "a notification is never answered");
    }

    #[test]
    fn answers_to_us_are_no_requests() {
        let line = br#"{"jsonrpc":"2.0","result":{"action":"cancel"},"id":"zc-out-1"}"#;
        let Frame::Response { id, result } = read(line) else { panic!() };
        assert_eq!((id.as_str(), result), ("zc-out-1", Some(json!({"action": "cancel"}))));
        assert!(matches!(read(br#"{"jsonrpc":"2.0","error":{},"id":{}}"#), Frame::Blank));
    }
}
