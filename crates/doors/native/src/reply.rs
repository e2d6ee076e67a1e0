//! Answers as lines.

use ostler_api::RpcError;
use serde::Serialize;
use serde_json::value::RawValue;

/// Whom an answer is for: the request's id, byte for byte; nobody, if there was none.
#[derive(Debug, Clone)]
pub(crate) struct Head(Option<Box<RawValue>>);

impl Head {
    pub(crate) fn of(id: Option<&RawValue>) -> Self {
        Self(id.map(ToOwned::to_owned))
    }

    /// The whole line; empty for a request that wants no answer.
    pub(crate) fn answer(&self, result: &Result<impl Serialize, RpcError>) -> Vec<u8> {
        let Some(id) = &self.0 else { return Vec::new() };
        line(id.get(), result)
    }

    /// An answer to something that could not be read.
    pub(crate) fn unreadable(error: RpcError) -> Vec<u8> {
        line("null", &Err::<(), _>(error))
    }
}

fn line(id: &str, result: &Result<impl Serialize, RpcError>) -> Vec<u8> {
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id},"#).into_bytes();
    let start = line.len();
    let written = match result {
        Ok(result) => {
            line.extend_from_slice(br#""result":"#);
            serde_json::to_writer(&mut line, result)
        }
        Err(error) => {
            line.extend_from_slice(br#""error":"#);
            serde_json::to_writer(&mut line, error)
        }
    };
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
        let line = Head::of(Some(id)).answer(&Ok(1));
        assert_eq!(String::from_utf8(line).unwrap(), "{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0041\",\"result\":1}\n");
    }

    #[test]
    fn a_request_without_an_id_gets_no_answer() {
        assert!(Head::of(None).answer(&Err::<(), _>(RpcError::new(ErrorKind::Failed, "x"))).is_empty());
    }
}
