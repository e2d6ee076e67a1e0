//! Answers as lines.

use ostler_api::{Method, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

const RESULT: &str = r#""result":"#;
const ERROR: &str = r#""error":"#;

/// Whom an answer is for: the request's id, byte for byte; nobody, if there was none.
#[derive(Debug, Clone)]
pub(crate) struct Head(Option<Box<RawValue>>);

impl Head {
    pub(crate) fn of(id: Option<&RawValue>) -> Self {
        Self(id.map(ToOwned::to_owned))
    }

    /// The whole line; empty for a request that wants no answer.
    pub(crate) fn answer<M: Method>(&self, result: &Result<M::Result, RpcError>) -> Vec<u8> {
        match (&self.0, result) {
            (None, _) => Vec::new(),
            (Some(id), Ok(result)) => line(id.get(), RESULT, |line| M::write_result(result, line)),
            (Some(_), Err(error)) => self.refuse(error),
        }
    }

    /// The same, for a document.
    pub(crate) fn document(&self, document: &Value) -> Vec<u8> {
        let Some(id) = &self.0 else { return Vec::new() };
        line(id.get(), RESULT, |line| serde_json::to_writer(line, document))
    }

    /// The same, for what went wrong.
    pub(crate) fn refuse(&self, error: &RpcError) -> Vec<u8> {
        let Some(id) = &self.0 else { return Vec::new() };
        line(id.get(), ERROR, |line| serde_json::to_writer(line, error))
    }

    /// An answer to something that could not be read.
    pub(crate) fn unreadable(error: &RpcError) -> Vec<u8> {
        line("null", ERROR, |line| serde_json::to_writer(line, error))
    }
}

fn line(id: &str, member: &str, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) -> Vec<u8> {
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id},"#).into_bytes();
    let start = line.len();
    line.extend_from_slice(member.as_bytes());
    let written = write(&mut line);
    ended(line, start, written)
}

fn ended(mut line: Vec<u8>, start: usize, written: serde_json::Result<()>) -> Vec<u8> {
    if let Err(error) = written {
        // Nothing we answer with fails to serialise; if it did, silence would be worse.
        tracing::error!("native door: an answer could not be written: {error}");
        line.truncate(start);
        line.extend_from_slice(br#""error":{"code":-32603,"message":"the answer could not be written"}"#);
    }
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_api::ErrorKind;

    #[test]
    fn the_id_comes_back_byte_for_byte() {
        let id: &RawValue = serde_json::from_str(r#""a\u0041""#).unwrap();
        let line = Head::of(Some(id)).document(&1.into());
        assert_eq!(String::from_utf8(line).unwrap(), "{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0041\",\"result\":1}\n");
    }

    #[test]
    fn a_request_without_an_id_gets_no_answer() {
        assert!(Head::of(None).refuse(&RpcError::new(ErrorKind::Failed, "x")).is_empty());
    }
}
