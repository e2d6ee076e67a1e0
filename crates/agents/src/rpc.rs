//! JSON-RPC on lines, as the app server and ACP agents speak it.
//!
//! Ids of the other side are kept as the text they came in and go back byte for byte.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use ostler_story::Json;

/// JSON-RPC's number for a method that we do not have.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// 256 bytes: ids are numbers or UUIDs; what is longer is not kept.
const MAX_ID: usize = 256;

/// What came on a line.
#[derive(Debug)]
pub(crate) enum Message {
    /// The other side wants an answer.
    Request { id: String, method: String, params: Json },
    /// The other side tells something.
    Notification { method: String, params: Json },
    /// An answer.
    Response { id: String, result: Result<Json, RpcError> },
}

/// What went wrong over there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Json>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Json,
    #[serde(default)]
    result: Option<Json>,
    #[serde(default)]
    error: Option<RpcError>,
}

impl Message {
    /// Reads a line; `None` when it is no message.
    pub(crate) fn read(line: &[u8]) -> Option<Message> {
        let wire: Wire<'_> = serde_json::from_slice(line).ok()?;
        let id = wire.id.map(|id| id.get().to_owned()).filter(|id| id.len() <= MAX_ID && id != "null");
        Some(match (id, wire.method) {
            (Some(id), Some(method)) => Message::Request { id, method, params: wire.params },
            (None, Some(method)) => Message::Notification { method, params: wire.params },
            (Some(id), None) => Message::Response {
                id,
                result: match wire.error {
                    Some(error) => Err(error),
                    None => Ok(wire.result.unwrap_or_default()),
                },
            },
            (None, None) => return None,
        })
    }
}

impl RpcError {
    /// For people, with the details that hide in `data`.
    pub(crate) fn text(&self) -> String {
        let details = match &self.data {
            Some(Json::String(text)) => Some(text.as_str()),
            Some(data) => ["details", "message", "error"].iter().find_map(|name| data.get(name)?.as_str()),
            None => None,
        };
        match details {
            Some(details) if details != self.message => format!("{}: {details}", self.message),
            _ => self.message.clone(),
        }
    }
}

/// Whether lines carry `"jsonrpc":"2.0"`: ACP demands it, the app server does without.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Marked,
    Bare,
}

impl Style {
    fn mark(self) -> &'static str {
        match self {
            Style::Marked => "\"jsonrpc\":\"2.0\",",
            Style::Bare => "",
        }
    }

    /// A request of ours.
    pub(crate) fn request(self, id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
        let params = text(params);
        format!("{{{}\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n", self.mark()).into_bytes()
    }

    /// A word of ours that needs no answer.
    pub(crate) fn notification(self, method: &str, params: &impl Serialize) -> Vec<u8> {
        let params = text(params);
        format!("{{{}\"method\":\"{method}\",\"params\":{params}}}\n", self.mark()).into_bytes()
    }

    /// Our answer to a request.
    pub(crate) fn result(self, id: &str, result: &impl Serialize) -> Vec<u8> {
        let result = text(result);
        format!("{{{}\"id\":{id},\"result\":{result}}}\n", self.mark()).into_bytes()
    }

    /// Our refusal of a request.
    pub(crate) fn refusal(self, id: &str, code: i64, message: &str) -> Vec<u8> {
        let error = serde_json::json!({ "code": code, "message": message });
        format!("{{{}\"id\":{id},\"error\":{error}}}\n", self.mark()).into_bytes()
    }
}

/// What is said here are strings, numbers and lists of them, which can always be written.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_goes_back_as_it_came() {
        for id in ["7", "1.0", "\"a\\u0041\"", "12345678901234567890123"] {
            let line = format!("{{\"id\":{id},\"method\":\"m\"}}");
            let Some(Message::Request { id: read, .. }) = Message::read(line.as_bytes()) else { panic!("no request") };
            let answer = String::from_utf8(Style::Bare.result(&read, &Json::Null)).unwrap();
            assert_eq!(answer, format!("{{\"id\":{id},\"result\":null}}\n"));
        }
    }

    #[test]
    fn what_is_no_message_is_nothing() {
        for line in ["", "hello", "[]", "{}", "{\"id\":null}", "3"] {
            assert!(Message::read(line.as_bytes()).is_none(), "{line}");
        }
    }
}
