//! The outside of a message: its members as they stand there, each for its door to make sense of.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;

/// A message that is one JSON object; nothing in it has been believed yet. A member that is there and null is there.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "given")]
    pub error: Option<&'a RawValue>,
}

fn given<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Why there is no envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAMessage {
    /// It is no JSON.
    Syntax(String),
    /// It is JSON of another shape, or has a member twice.
    Shape(String),
}

impl fmt::Display for NotAMessage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Syntax(why) | Self::Shape(why)) = self;
        to.write_str(why)
    }
}

impl<'a> Envelope<'a> {
    /// Reads one message.
    pub fn read(message: &'a [u8]) -> Result<Self, NotAMessage> {
        let text = std::str::from_utf8(message).map_err(|error| NotAMessage::Syntax(error.to_string()))?;
        // An array would be taken for an object's members in their order.
        if let Some(other) = text.trim_ascii_start().bytes().next().filter(|first| *first != b'{') {
            let what = if other == b'[' { "a list" } else { "no object" };
            return Err(is_json(text)
                .err()
                .unwrap_or_else(|| NotAMessage::Shape(format!("expected an object, not {what}"))));
        }
        serde_json::from_str(text).map_err(|error| match error.is_data() {
            true => is_json(text).err().unwrap_or_else(|| NotAMessage::Shape(error.to_string())),
            false => NotAMessage::Syntax(error.to_string()),
        })
    }

    /// Whether it says that it is JSON-RPC 2.0.
    pub fn is_version_2(&self) -> bool {
        self.jsonrpc.is_some_and(|version| {
            version.get() == r#""2.0""# || serde_json::from_str(version.get()).is_ok_and(|text: String| text == "2.0")
        })
    }

    /// The method; nothing where it is missing, or no text.
    pub fn method(&self) -> Option<Cow<'a, str>> {
        let Text(text) = serde_json::from_str(self.method?.get()).ok()?;
        Some(text)
    }

    /// The id as it is to go back.
    pub fn id(&self) -> Option<&'a [u8]> {
        self.id.map(|id| id.get().as_bytes())
    }

    /// Whether its id, if it has one, is a text, a number or null, as the specification wants it.
    pub fn has_plain_id(&self) -> bool {
        self.id().is_none_or(|id| matches!(id.first(), Some(b'"' | b'n' | b'-' | b'0'..=b'9')))
    }
}

/// A text that is not copied where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn is_json(text: &str) -> Result<(), NotAMessage> {
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| NotAMessage::Syntax(error.to_string()))
}

/// The messages of a batch, or why it is no JSON; nothing where the message is none.
pub fn batch(message: &[u8]) -> Option<Result<Vec<&RawValue>, NotAMessage>> {
    (message.trim_ascii_start().first() == Some(&b'['))
        .then(|| serde_json::from_slice(message).map_err(|error| NotAMessage::Syntax(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_and_what_is_another_shape_are_told_apart() {
        for text in ["", "{not json", r#"{"method":"#, r#"{"method":"m"} x"#, r#"{"id":1,"id":2"#, "[1,"] {
            assert!(matches!(Envelope::read(text.as_bytes()), Err(NotAMessage::Syntax(_))), "{text}");
        }
        for text in ["[1,2]", "\"text\"", "7", r#"["m"]"#, r#"{"id":1,"id":2}"#, " []"] {
            assert!(matches!(Envelope::read(text.as_bytes()), Err(NotAMessage::Shape(_))), "{text}");
        }
        assert!(matches!(Envelope::read(b"{\"x\":\"\xff\"}"), Err(NotAMessage::Syntax(_))), "no text");
    }

    #[test]
    fn members_are_there_as_they_stand() {
        let envelope = Envelope::read(br#" {"id":null,"method":"a\/b","jsonrpc":"2\u002e0","x":[]}"#).unwrap();
        assert_eq!((envelope.id(), envelope.method().as_deref()), (Some(&b"null"[..]), Some("a/b")));
        assert!(envelope.is_version_2() && envelope.has_plain_id() && envelope.params.is_none());
        let other = Envelope::read(br#"{"id":{},"method":5,"jsonrpc":2.0}"#).unwrap();
        assert!(other.method().is_none() && !other.is_version_2() && !other.has_plain_id());
    }

    #[test]
    fn a_batch_is_a_list() {
        assert_eq!(batch(b" [1, {}]").unwrap().unwrap().len(), 2);
        assert!(batch(b"[1").unwrap().is_err() && batch(b"{}").is_none());
    }
}
