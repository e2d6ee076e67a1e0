//! Whom an answer is for, and how it is written around what a method says.

use std::io::Write;

use super::RpcError;

/// How a protocol writes its answers, as far as its clients compare bytes.
#[derive(Debug)]
pub struct Form {
    /// Whether an answer says which JSON-RPC it is.
    pub version: bool,
    /// Whether the id comes before the result.
    pub id_first: bool,
    /// Whether who sent no id is answered all the same.
    pub without_id: bool,
    /// Writes a text with its quotes.
    pub text: fn(&mut Vec<u8>, &str),
}

impl Form {
    /// As the specification shows it.
    pub const USUAL: Self = Self { version: true, id_first: true, without_id: false, text: push_text };
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    // Into memory: nothing can fail.
    let _ = serde_json::to_writer(out, text);
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    form: &'static Form,
    /// As it stands on the wire.
    id: Option<Vec<u8>>,
}

impl Head {
    /// For whoever sent this id.
    pub fn new(form: &'static Form, id: Option<&[u8]>) -> Self {
        Self { form, id: id.map(<[u8]>::to_vec) }
    }

    /// For somebody whose id could not be read.
    pub fn unknown(form: &'static Form) -> Self {
        Self::new(form, Some(b"null"))
    }

    /// Makes this the head of another answer, whose id is to be put here: memory is reused from line to line.
    pub fn renew(&mut self) -> &mut Vec<u8> {
        let id = self.id.get_or_insert_default();
        id.clear();
        id
    }

    /// The id of whoever waits.
    pub fn id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }

    /// Whether anybody waits for the answer.
    pub fn is_wanted(&self) -> bool {
        self.id.is_some() || self.form.without_id
    }

    /// Appends the answer, if one is wanted: `write` puts down the result, or says why there is none.
    pub fn answer(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RpcError>) {
        if !self.is_wanted() {
            return;
        }
        let mark = self.begin(out);
        let written = write(out);
        self.end(out, mark, written);
    }

    /// The same as a line of its own.
    pub fn line(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RpcError>) {
        self.answer(out, write);
        if self.is_wanted() {
            out.push(b'\n');
        }
    }

    /// A whole line with this result.
    pub fn result(&self, body: &[u8]) -> Vec<u8> {
        let mut line = Vec::with_capacity(body.len() + 64);
        self.line(&mut line, |out| {
            out.extend_from_slice(body);
            Ok(())
        });
        line
    }

    /// A whole line with this error.
    pub fn error(&self, error: RpcError) -> Vec<u8> {
        let mut line = Vec::new();
        self.line(&mut line, |_| Err(error));
        line
    }

    /// What comes before a result; says where the result, or an error in its place, begins.
    fn begin(&self, out: &mut Vec<u8>) -> usize {
        out.push(b'{');
        if self.form.version {
            out.extend_from_slice(br#""jsonrpc":"2.0","#);
        }
        if let Some(id) = self.id.as_ref().filter(|_| self.form.id_first) {
            out.extend_from_slice(br#""id":"#);
            out.extend_from_slice(id);
            out.push(b',');
        }
        let mark = out.len();
        out.extend_from_slice(br#""result":"#);
        mark
    }

    fn end(&self, out: &mut Vec<u8>, mark: usize, written: Result<(), RpcError>) {
        if let Err(error) = written {
            out.truncate(mark);
            self.push_error(out, &error);
        }
        if let Some(id) = self.id.as_ref().filter(|_| !self.form.id_first) {
            out.extend_from_slice(br#","id":"#);
            out.extend_from_slice(id);
        }
        out.push(b'}');
    }

    fn push_error(&self, out: &mut Vec<u8>, error: &RpcError) {
        // Into memory: nothing can fail.
        let _ = write!(out, r#""error":{{"code":{},"message":"#, error.code);
        (self.form.text)(out, &error.message);
        if let Some(data) = &error.data {
            let _ = write!(out, r#","data":{data}"#);
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LAST: Form = Form { id_first: false, ..Form::USUAL };
    const BARE: Form = Form { version: false, without_id: true, ..LAST };

    fn said(form: &'static Form, id: Option<&[u8]>, result: Result<&str, RpcError>) -> String {
        let mut out = Vec::new();
        Head::new(form, id).line(&mut out, |out| {
            out.extend_from_slice(b"half");
            result.map(|rest| out.extend_from_slice(rest.as_bytes()))
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_id_comes_back_byte_for_byte_where_clients_look_for_it() {
        let id = Some(&br#""a\u0041""#[..]);
        assert_eq!(said(&Form::USUAL, id, Ok("1")), "{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0041\",\"result\":half1}\n");
        assert_eq!(said(&LAST, id, Ok("1")), "{\"jsonrpc\":\"2.0\",\"result\":half1,\"id\":\"a\\u0041\"}\n");
        assert_eq!(said(&BARE, id, Ok("1")), "{\"result\":half1,\"id\":\"a\\u0041\"}\n");
    }

    #[test]
    fn a_result_that_fails_leaves_no_trace() {
        let error = RpcError::params("a \"b\"").with_data(json!({"c": 1}));
        let want = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"a \"b\"","data":{"c":1}}}"#;
        assert_eq!(said(&Form::USUAL, Some(b"7"), Err(error)), format!("{want}\n"));
    }

    #[test]
    fn who_sent_no_id_is_answered_where_the_protocol_says_so() {
        assert_eq!(said(&Form::USUAL, None, Ok("1")), "");
        assert_eq!(said(&BARE, None, Ok("1")), "{\"result\":half1}\n");
        assert_eq!(Head::unknown(&Form::USUAL).result(b"1"), b"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":1}\n");
    }

    #[test]
    fn a_head_is_used_again_for_another_answer() {
        let mut head = Head::new(&Form::USUAL, Some(b"17"));
        head.renew().extend_from_slice(b"2");
        assert_eq!(head.result(b"{}"), b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n");
    }
}
