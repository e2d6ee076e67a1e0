//! Answers as lines.

use ostler_api::{Method, RpcError};
use ostler_door_rpc::{Form, Head as RpcHead, RpcError as Refusal};
use serde_json::Value;

/// Whom an answer is for; nobody, if the request had no id.
#[derive(Debug, Clone)]
pub(crate) struct Head(RpcHead);

impl Head {
    pub(crate) fn of(id: Option<&[u8]>) -> Self {
        Self(RpcHead::new(&Form::USUAL, id))
    }

    /// The whole line; empty for a request that wants no answer.
    pub(crate) fn answer<M: Method>(&self, result: &Result<M::Result, RpcError>) -> Vec<u8> {
        match result {
            Ok(result) => self.written(&mut |line| M::write_result(result, line)),
            Err(error) => self.refuse(error),
        }
    }

    /// The same, for a document.
    pub(crate) fn document(&self, document: &Value) -> Vec<u8> {
        self.written(&mut |line| serde_json::to_writer(line, document))
    }

    /// The same, for what went wrong.
    pub(crate) fn refuse(&self, error: &RpcError) -> Vec<u8> {
        self.0.error(refusal(error))
    }

    /// An answer to something that could not be read.
    pub(crate) fn unreadable(error: &RpcError) -> Vec<u8> {
        RpcHead::unknown(&Form::USUAL).error(refusal(error))
    }

    /// Compiled once for all methods.
    fn written(&self, write: &mut dyn FnMut(&mut Vec<u8>) -> serde_json::Result<()>) -> Vec<u8> {
        let mut line = Vec::new();
        self.0.line(&mut line, |line| {
            write(line).map_err(|error| {
                // Nothing we answer with fails to serialise; if it did, silence would be worse.
                tracing::error!("native door: an answer could not be written: {error}");
                Refusal::internal("the answer could not be written")
            })
        });
        line
    }
}

fn refusal(error: &RpcError) -> Refusal {
    let data = error.data.as_ref().and_then(|data| serde_json::to_value(data).ok());
    Refusal { code: error.code, message: error.message.clone(), data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_api::ErrorKind;

    #[test]
    fn an_error_is_written_as_its_type_says() {
        let error = RpcError::new(ErrorKind::Refused, "a \"b\"").hint("c");
        let line = String::from_utf8(Head::of(Some(b"7")).refuse(&error)).unwrap();
        let want = serde_json::to_string(&error).unwrap();
        assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{want}}}\n"));
        assert!(Head::of(None).refuse(&error).is_empty());
    }
}
