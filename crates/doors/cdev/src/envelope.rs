//! JSON-RPC 2.0 around a method: which request a message is, and how it is answered. Ids go back as they came, byte for byte.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
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

/// Who waits for the answer.
#[derive(Debug, Clone)]
pub(crate) struct Head(Option<Box<RawValue>>);

/// Something that is no request, as it is answered.
#[derive(Debug)]
pub(crate) struct Refusal {
    id: Option<Box<RawValue>>,
    error: Error,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// An id of `null` is one.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Reads a message.
pub(crate) fn read(message: &[u8]) -> Result<Message<'_>, Refusal> {
    let unread =
        |why: serde_json::Error| Refusal { id: None, error: Error::new(Code::Parse, format!("not JSON: {why}")) };
    let whole: &RawValue = serde_json::from_slice(message).map_err(unread)?;
    if !whole.get().starts_with('[') {
        return request(whole).map(Message::One);
    }
    let all: Vec<&RawValue> = serde_json::from_str(whole.get()).map_err(unread)?;
    match all.len() {
        0 => Err(invalid(None, "an empty batch asks for nothing")),
        1..=BATCH_MAX => Ok(Message::Batch(all.into_iter().map(request).collect())),
        _ => Err(invalid(None, &format!("a batch has at most {BATCH_MAX} requests"))),
    }
}

fn request(whole: &RawValue) -> Result<Request<'_>, Refusal> {
    let Ok(wire) = serde_json::from_str::<Wire<'_>>(whole.get()) else {
        return Err(invalid(None, "a request is an object with each member once"));
    };
    let is_id = |id: &&RawValue| matches!(id.get().as_bytes().first(), Some(b'"' | b'n' | b'-' | b'0'..=b'9'));
    let id = wire.id.filter(is_id).map(ToOwned::to_owned);
    if wire.id.is_some() && id.is_none() {
        return Err(invalid(None, "`id` is a text or a number"));
    }
    let text = |value: Option<&'_ RawValue>| value.and_then(|value| serde_json::from_str::<String>(value.get()).ok());
    if text(wire.jsonrpc).as_deref() != Some("2.0") {
        return Err(invalid(id, "`jsonrpc` is \"2.0\""));
    }
    let method = wire.method.and_then(|method| serde_json::from_str::<Cow<'_, str>>(method.get()).ok());
    let Some(method) = method else {
        return Err(invalid(id, "`method` is missing, or no text"));
    };
    Ok(Request { head: Head(id), method, params: wire.params.map_or("{}", RawValue::get) })
}

fn invalid(id: Option<Box<RawValue>>, why: &str) -> Refusal {
    Refusal { id, error: Error::new(Code::Request, why) }
}

impl Refusal {
    /// The answer; without an end of line.
    pub(crate) fn answer(&self) -> Vec<u8> {
        answer(self.id.as_deref(), &Err(self.error.clone()))
    }
}

impl Head {
    /// The id, of who waits for an answer.
    pub(crate) fn id(&self) -> Option<&RawValue> {
        self.0.as_deref()
    }

    /// The answer, without an end of line; nothing to what was no question.
    pub(crate) fn answer(&self, outcome: &Outcome) -> Option<Vec<u8>> {
        self.0.as_deref().map(|id| answer(Some(id), outcome))
    }
}

fn answer(id: Option<&RawValue>, outcome: &Outcome) -> Vec<u8> {
    let mut out = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    out.extend_from_slice(id.map_or("null", RawValue::get).as_bytes());
    match outcome {
        Ok(result) => {
            out.extend_from_slice(br#","result":"#);
            out.extend_from_slice(result.get().as_bytes());
        }
        Err(error) => {
            out.extend_from_slice(br#","error":"#);
            // Texts and numbers, into memory: nothing can fail.
            let _ = serde_json::to_writer(&mut out, &error.to_rpc());
        }
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<(String, String), String> {
        match read(text.as_bytes()) {
            Ok(Message::One(request)) => {
                let said = request.head.answer(&Err(Error::params("x")));
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
