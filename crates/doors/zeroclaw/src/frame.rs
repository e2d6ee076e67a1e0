//! Lines in and out: what a line is, and whom an answer is for.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::spelling;

/// An error as clients know it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
}

const PARSE: i32 = -32700;
const INVALID: i32 = -32600;

/// Whoever worked on it ended in the middle, which is a fault of ours.
impl From<tokio::task::JoinError> for RpcError {
    fn from(lost: tokio::task::JoinError) -> Self {
        Self::internal(lost.to_string())
    }
}

impl RpcError {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(-32601, format!("Unknown method: {method}"))
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(-32000, message)
    }

    pub(crate) fn too_many_sessions() -> Self {
        Self::new(-32001, "Session limit reached")
    }

    pub(crate) fn busy(why: impl std::fmt::Display) -> Self {
        Self::new(-32002, format!("Session busy: {why}"))
    }

    pub(crate) fn not_initialised() -> Self {
        Self::new(-32010, "First call must be 'initialize'")
    }

    pub(crate) fn version(client: u64) -> Self {
        Self::new(-32011, format!("Protocol version mismatch: server={}, client={client}", crate::PROTOCOL))
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(-32012, message)
    }

    fn value(&self) -> Value {
        let mut value = json!({"code": self.code, "message": self.message});
        if let (Some(members), Some(data)) = (value.as_object_mut(), &self.data) {
            members.insert("data".to_owned(), data.clone());
        }
        value
    }
}

/// Whom an answer is for: the request's id, byte for byte; nobody, if there was none.
#[derive(Debug, Clone)]
pub(crate) struct Head(Option<String>);

impl Head {
    /// The line; empty where nobody wants an answer.
    pub(crate) fn answer(&self, result: Result<Value, RpcError>) -> Vec<u8> {
        let Some(id) = &self.0 else { return Vec::new() };
        line(id, result)
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

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    error: Option<&'a RawValue>,
}

/// A member that is there and null is not one that is missing.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub(crate) fn read(line: &[u8]) -> Frame {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Frame::Blank;
    }
    let Some(text) = std::str::from_utf8(line).ok().filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
    else {
        return bad(None, PARSE, "Parse error");
    };
    // An array would be taken for an object's members in their order.
    let envelope = text.starts_with('{').then(|| serde_json::from_str::<Envelope<'_>>(text).ok()).flatten();
    let Some(envelope) = envelope else { return bad(None, INVALID, "Invalid request: a message is one object") };
    let id = envelope.id.map(RawValue::get);
    if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
        let id = id.and_then(|id| serde_json::from_str(id).ok());
        let result = envelope.result.and_then(|result| serde_json::from_str(result.get()).ok());
        return id.map_or(Frame::Blank, |id| Frame::Response { id, result });
    }
    if id.is_some_and(|id| !id.starts_with(|first: char| matches!(first, '"' | 'n' | '-' | '0'..='9'))) {
        return bad(None, INVALID, "Invalid request: an id is a string or a number");
    }
    if envelope.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
        return bad(id, INVALID, "Invalid request: jsonrpc must be \"2.0\"");
    }
    let Some(method) = envelope.method.and_then(|method| serde_json::from_str(method.get()).ok()) else {
        return bad(id, INVALID, "Invalid request: method must be a string");
    };
    let params = match envelope.params.map_or("null", RawValue::get) {
        "null" => Ok(Map::new()),
        array if array.starts_with('[') => Err(RpcError::params("params must be an object")),
        object if object.starts_with('{') => {
            serde_json::from_str(object).map(spelling::understood).map_err(|error| RpcError::params(error.to_string()))
        }
        _ => return bad(id, INVALID, "Invalid request: params must be an object"),
    };
    Frame::Request { head: Head(id.map(str::to_owned)), method, params }
}

fn bad(id: Option<&str>, code: i32, message: &str) -> Frame {
    Frame::Bad(line(id.unwrap_or("null"), Err(RpcError::new(code, message))))
}

/// The only answer to a line that is too long.
pub(crate) fn too_long(limit: usize) -> Vec<u8> {
    let message = format!("Frame exceeds the {limit}-byte local RPC frame limit");
    let data = json!({"reason": "frame_too_large", "limit_bytes": limit});
    line("null", Err(RpcError { data: Some(data), ..RpcError::new(INVALID, message) }))
}

/// The only answer to one client too many.
pub(crate) fn crowded(limit: usize) -> Vec<u8> {
    let data = json!({"reason": "connection_limit", "limit": limit});
    line("null", Err(RpcError { data: Some(data), ..RpcError::new(-32004, "Too many local connections") }))
}

/// Something that is said without being asked.
pub(crate) fn notification(method: &str, params: Value) -> Vec<u8> {
    written(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// A request of ours.
pub(crate) fn request(id: &str, method: &str, params: Value) -> Vec<u8> {
    written(&json!({"jsonrpc": "2.0", "method": method, "params": params, "id": id}))
}

fn written(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

fn line(id: &str, result: Result<Value, RpcError>) -> Vec<u8> {
    let (member, value) = match result {
        Ok(result) => ("result", spelling::both(result)),
        Err(error) => ("error", error.value()),
    };
    format!("{{\"jsonrpc\":\"2.0\",\"{member}\":{value},\"id\":{id}}}\n").into_bytes()
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
            let reply = String::from_utf8(head.answer(Ok(json!({"a_b": 1})))).unwrap();
            assert_eq!(reply, format!("{{\"jsonrpc\":\"2.0\",\"result\":{{\"a_b\":1,\"aB\":1}},\"id\":{expected}}}\n"));
        }
        let Frame::Request { head, .. } = read(br#"{"jsonrpc":"2.0","method":"a"}"#) else { panic!() };
        assert!(head.answer(Ok(json!({}))).is_empty(), "a notification is never answered");
    }

    #[test]
    fn answers_to_us_are_no_requests() {
        let line = br#"{"jsonrpc":"2.0","result":{"action":"cancel"},"id":"zc-out-1"}"#;
        let Frame::Response { id, result } = read(line) else { panic!() };
        assert_eq!((id.as_str(), result), ("zc-out-1", Some(json!({"action": "cancel"}))));
        assert!(matches!(read(br#"{"jsonrpc":"2.0","error":{},"id":{}}"#), Frame::Blank));
    }
}
