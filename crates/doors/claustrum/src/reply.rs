//! Reply lines, written by hand: field order and escaping are part of the contract.

use crate::error::RpcError;
use crate::gojson::{Raw, push_compact_id, push_int, push_string};

/// What a log line shows of a client's text.
const LOG_MAX: usize = 200;

/// The beginning of every reply, up to and with the id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head(Vec<u8>);

impl Head {
    pub(crate) fn new(id: Option<Raw<'_>>) -> Self {
        let mut head = Self::default();
        head.set(id);
        head
    }

    /// Makes this the head of another reply; its memory is reused from line to line.
    pub(crate) fn set(&mut self, id: Option<Raw<'_>>) {
        self.0.clear();
        self.0.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        match id {
            Some(raw) if std::str::from_utf8(raw.text()).is_ok() => push_compact_id(&mut self.0, raw.text()),
            Some(raw) => push_compact_id(&mut self.0, readable(raw.text()).as_bytes()),
            None => self.0.extend_from_slice(b"null"),
        }
    }

    /// Appends a whole line: `write` puts down the result object, or fails.
    pub(crate) fn line(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RpcError>) {
        out.extend_from_slice(&self.0);
        let mark = out.len();
        out.extend_from_slice(br#","result":"#);
        if let Err(error) = write(out) {
            out.truncate(mark);
            out.extend_from_slice(br#","error":{"code":"#);
            push_int(out, i64::from(error.code));
            out.extend_from_slice(br#","message":"#);
            push_string(out, &error.message);
            out.push(b'}');
        }
        out.extend_from_slice(b"}\n");
    }

    /// A whole line with this result object.
    pub(crate) fn result(&self, body: &[u8]) -> Vec<u8> {
        let mut line = Vec::with_capacity(self.0.len() + body.len() + 16);
        self.line(&mut line, |out| {
            out.extend_from_slice(body);
            Ok(())
        });
        line
    }

    /// A whole line with this error.
    pub(crate) fn error(&self, error: RpcError) -> Vec<u8> {
        let mut line = Vec::new();
        self.line(&mut line, |_| Err(error));
        line
    }
}

/// Bytes that are no text, one replacement character for each, as in every other text that came in: the reply must be JSON.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// A client's text as a log may show it: short, and without a character that a terminal would obey.
pub(crate) fn for_log(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(LOG_MAX) {
        match letter.is_control() || ostler_door_rpc::is_hidden(letter) {
            true => shown.extend(letter.escape_unicode()),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_result_leaves_no_trace_in_the_line() {
        let mut out = b"before ".to_vec();
        Head::new(None).line(&mut out, |out| {
            out.extend_from_slice(b"half a res");
            Err(RpcError::invalid_params())
        });
        let want =
            "before {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32602,\"message\":\"Invalid params\"}}\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn an_id_that_is_no_text_is_answered_with_json() {
        let line = b"{\"id\":[\"a\xff\xfe\xe2\x80z\", 1]}";
        let envelope = crate::envelope::Envelope::read(line).unwrap();
        let reply = Head::new(envelope.id).result(b"{}");
        let want = "{\"jsonrpc\":\"2.0\",\"id\":[\"a\u{fffd}\u{fffd}\u{fffd}\u{fffd}z\",1],\"result\":{}}\n";
        assert_eq!(String::from_utf8(reply).unwrap(), want);
    }

    #[test]
    fn what_a_log_shows_of_a_client_cannot_move_the_cursor() {
        assert_eq!(for_log("a\x1b[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\u{a}\\u{202e}");
        assert_eq!(for_log(&"x".repeat(500)).len(), 200);
    }
}
