//! JSON-RPC 2.0 around a method: which request a message is, and how it is answered. Ids go back as they came, byte for byte.

use std::borrow::Cow;

use ostler_door_rpc::{Envelope, Form, Head, NotAMessage, batch};
use serde_json::value::RawValue;

use crate::error::{Code, Error};
use crate::method::Outcome;

/// Requests that one message may hold: what a screen asks for at once, many times over.
const BATCH_MAX: usize = 100;

/// What came as one message.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    One(Request<'a>),
    /// Each is one, or why it is not.
    Batch(Vec<Result<Request<'a>, Refusal>>),
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: Head,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: &'a str,
}

/// The answer to something that is no request.
#[derive(Debug)]
pub(crate) struct Refusal(Vec<u8>);

/// Reads a message.
pub(crate) fn read(message: &[u8]) -> Result<Message<'_>, Refusal> {
    let Some(all) = batch(message) else { return request(message).map(Message::One) };
    let all = all.map_err(no_request)?;
    match all.len() {
        0 => Err(invalid(None, "an empty batch asks for nothing")),
        1..=BATCH_MAX => Ok(Message::Batch(all.into_iter().map(|one| request(one.get().as_bytes())).collect())),
        _ => Err(invalid(None, &format!("a batch has at most {BATCH_MAX} requests"))),
    }
}

fn request(message: &[u8]) -> Result<Request<'_>, Refusal> {
    let envelope = Envelope::read(message).map_err(no_request)?;
    if !envelope.has_plain_id() {
        return Err(invalid(None, "`id` is a text or a number"));
    }
    let id = envelope.id();
    if !envelope.is_version_2() {
        return Err(invalid(id, "`jsonrpc` is \"2.0\""));
    }
    let Some(method) = envelope.method() else {
        return Err(invalid(id, "`method` is missing, or no text"));
    };
    let params = envelope.params.map(RawValue::get).filter(|params| *params != "null");
    Ok(Request { head: Head::new(&Form::USUAL, id), method, params: params.unwrap_or("{}") })
}

fn no_request(error: NotAMessage) -> Refusal {
    match error {
        NotAMessage::Syntax(why) => {
            let error = Error::new(Code::Parse, format!("not JSON: {why}"));
            Refusal::new(&Head::unknown(&Form::USUAL), error)
        }
        NotAMessage::Shape(_) => invalid(None, "a request is an object with each member once"),
    }
}

fn invalid(id: Option<&[u8]>, why: &str) -> Refusal {
    Refusal::new(&Head::new(&Form::USUAL, Some(id.unwrap_or(b"null"))), Error::new(Code::Request, why))
}

impl Refusal {
    fn new(head: &Head, error: Error) -> Self {
        Self(answer(head, &Err(error)).unwrap_or_default())
    }

    /// Without an end of line.
    pub(crate) fn answer(self) -> Vec<u8> {
        self.0
    }
}

/// The answer, without an end of line; nothing to what was no question.
pub(crate) fn answer(head: &Head, outcome: &Outcome) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    head.answer(&mut out, |out| match outcome {
        Ok(result) => {
            out.extend_from_slice(result.get().as_bytes());
            Ok(())
        }
        Err(error) => Err(error.to_rpc()),
    });
    head.is_wanted().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<(String, String), String> {
        match read(text.as_bytes()) {
            Ok(Message::One(request)) => {
                let said = answer(&request.head, &Err(Error::params("x")));
                Ok((request.method.into_owned(), String::from_utf8(said.unwrap_or_default()).unwrap()))
            }
            Ok(Message::Batch(_)) => panic!("one"),
            Err(refusal) => Err(String::from_utf8(refusal.answer()).unwrap()),
        }
    }

    #[test]
    fn ids_go_back_as_they_came_and_notifications_get_nothing() {
        for id in ["1", "-5", "1.50", "1e3", "\"\"", "\"\\u00fc\"", "9007199254740993", "null"] {
            let (_, said) = one(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)).unwrap();
            assert!(said.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#)), "{said}");
        }
        assert_eq!(one(r#"{"jsonrpc":"2.0","method":"m\/x"}"#).unwrap(), ("m/x".into(), String::new()));
    }

    #[test]
    fn what_is_no_request_is_told_so() {
        for (text, number) in [
            ("{", "-32700"),
            ("nonsense", "-32700"),
            ("5", "-32600"),
            ("[]", "-32600"),
            (r#"{"id":1,"method":"m"}"#, "-32600"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "-32600"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "-32600"),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, "-32600"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "-32600"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#, "-32600"),
        ] {
            let said = one(text).unwrap_err();
            assert!(said.contains(number), "{text}: {said}");
        }
    }

    #[test]
    fn a_batch_is_read_one_by_one() {
        let text = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},5,{"jsonrpc":"2.0","method":"b"}]"#;
        let Ok(Message::Batch(all)) = read(text.as_bytes()) else { panic!("a batch") };
        assert!(matches!(all.as_slice(), [Ok(_), Err(_), Ok(_)]));
        let many = format!("[{}]", vec!["1"; BATCH_MAX + 1].join(","));
        assert!(read(many.as_bytes()).is_err());
    }
}
