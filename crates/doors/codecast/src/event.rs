//! The events of a stream as clients read them, and the lines they travel on.
//!
//! A line is never longer than [`LINE_MAX`]: the usual client breaks on one of 512 KiB. Long words are cut into several
//! events, what else is too long is left out and said to be.

use ostler_door_rpc::fitting_pieces;
use serde::Serialize;
use serde_json::value::RawValue;

/// 384 KiB: what clients are known to read (512 KiB), less a margin, and room for a text of 300,000 bytes in one piece.
pub(crate) const LINE_MAX: usize = 384 * 1024;
/// What an event has around its words at most: three names as JSON, and the members' own.
const AROUND: usize = 8 * 1024;
/// Longer than any name of a tool, a model or a conversation.
const NAME_MAX: usize = 256;
/// The end of a stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// The agent's own line, as it wrote it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Raw(Box<RawValue>);

impl Raw {
    /// A line of JSON; nothing if it is none.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?.trim();
        // A line end, even one that JSON does not mind, would end the line of the stream.
        let value = match text.contains(['\n', '\r']) {
            true => serde_json::value::to_raw_value(&serde_json::from_str::<serde_json::Value>(text).ok()?).ok()?,
            false => RawValue::from_string(text.to_owned()).ok()?,
        };
        Some(Self(value))
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    System {
        subtype: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    Partial {
        content: String,
    },
    Text {
        content: String,
    },
    ToolUse {
        tool: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<serde_json::Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    Result {
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    Queued {
        position: usize,
    },
    Error {
        message: String,
    },
    Ping,
    Interrupted,
}

impl Event {
    /// Something worth knowing that is not part of an answer.
    pub(crate) fn notice(message: impl Into<String>) -> Self {
        let message = Some(message.into());
        Self::System { subtype: "notice".to_owned(), session_id: None, model: None, message, raw: None }
    }

    pub(crate) fn error(message: impl Into<String>) -> Self {
        Self::Error { message: message.into() }
    }

    /// Whether a turn ends with it.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Result { .. } | Self::Error { .. } | Self::Interrupted)
    }

    /// As JSON that fits a line; several for words that do not fit one.
    pub(crate) fn fitted(self) -> Vec<String> {
        let whole = self.json();
        if whole.len() <= LINE_MAX {
            return vec![whole];
        }
        match self {
            Self::Partial { content } => pieces(&content).map(|content| Self::Partial { content }.json()).collect(),
            Self::Text { content } => pieces(&content).map(|content| Self::Text { content }.json()).collect(),
            Self::Error { message } => pieces(&message).take(1).map(|message| Self::Error { message }.json()).collect(),
            Self::ToolUse { raw: Some(_), tool, input, message } => {
                Self::ToolUse { tool, input, message, raw: None }.fitted()
            }
            Self::ToolUse { tool, input: Some(input), .. } => {
                let message = format!("the input of {} bytes is too long to be shown", input.to_string().len());
                Self::ToolUse { tool, input: None, message: Some(message), raw: None }.fitted()
            }
            Self::ToolUse { tool, message, .. } => {
                let message = message.and_then(|message| pieces(&message).next());
                vec![Self::ToolUse { tool: short(&tool), input: None, message, raw: None }.json()]
            }
            Self::System { raw: Some(_), subtype, session_id, model, message } => {
                Self::System { subtype, session_id, model, message, raw: None }.fitted()
            }
            Self::System { subtype, session_id, model, message, .. } => {
                let message = message.and_then(|message| pieces(&message).next());
                let (session_id, model) = (session_id.as_deref().map(short), model.as_deref().map(short));
                vec![Self::System { subtype: short(&subtype), session_id, model, message, raw: None }.json()]
            }
            Self::Result { session_id, .. } => {
                vec![Self::Result { session_id: session_id.as_deref().map(short), raw: None }.json()]
            }
            Self::Queued { .. } | Self::Ping | Self::Interrupted => vec![whole],
        }
    }

    fn json(&self) -> String {
        // Strings, numbers and JSON that was read before: nothing that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A frame of the stream for this JSON.
pub(crate) fn frame(json: &str, to: &mut String) {
    to.push_str("data: ");
    to.push_str(json);
    to.push_str("\n\n");
}

/// A name, cut where no real one ends.
fn short(name: &str) -> String {
    name.chars().take(NAME_MAX).collect()
}

/// Cuts words into pieces that fit a line each once they are written as JSON.
fn pieces(words: &str) -> impl Iterator<Item = String> {
    fitting_pieces(words, LINE_MAX - AROUND).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(event: Event) -> String {
        let mut lines = event.fitted();
        assert_eq!(lines.len(), 1);
        lines.remove(0)
    }

    #[test]
    fn events_are_written_as_clients_read_them_and_absent_members_are_left_out() {
        assert_eq!(json(Event::Ping), r#"{"type":"ping"}"#);
        assert_eq!(json(Event::Interrupted), r#"{"type":"interrupted"}"#);
        assert_eq!(json(Event::Queued { position: 1 }), r#"{"type":"queued","position":1}"#);
        assert_eq!(json(Event::error("no")), r#"{"type":"error","message":"no"}"#);
        let input = Some(serde_json::json!({"command": "ls"}));
        let tool = Event::ToolUse { tool: "Bash".into(), input, message: None, raw: None };
        assert_eq!(json(tool), r#"{"type":"tool_use","tool":"Bash","input":{"command":"ls"}}"#);
        let raw = Raw::read(b"{\"type\":\"result\",\"n\":1.50}\n");
        let result = Event::Result { session_id: Some("s".into()), raw };
        assert_eq!(json(result), r#"{"type":"result","session_id":"s","raw":{"type":"result","n":1.50}}"#);
    }

    #[test]
    fn a_raw_line_never_breaks_a_line_of_the_stream() {
        let raw = Raw::read(b"{\"a\":\r1}").unwrap();
        assert_eq!(serde_json::to_string(&raw).unwrap(), "{\"a\":1}");
        assert!(Raw::read(b"not json").is_none());
        assert!(Raw::read(b"[1,2").is_none());
    }

    #[test]
    fn long_words_come_in_pieces_and_every_line_fits() {
        for unit in ["x", "\"", "\u{1}", "é", "😀", "\n"] {
            let words = unit.repeat(LINE_MAX);
            let lines = Event::Text { content: words.clone() }.fitted();
            assert!(lines.iter().all(|line| line.len() <= LINE_MAX), "{unit:?}");
            let content = |line: &String| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["content"].as_str().unwrap().to_owned()
            };
            assert_eq!(lines.iter().map(content).collect::<String>(), words);
        }
        assert_eq!(Event::Text { content: "y".repeat(300_000) }.fitted().len(), 1);
    }

    #[test]
    fn what_can_not_be_cut_is_left_out_and_said_to_be() {
        let huge = "z".repeat(LINE_MAX);
        let tool = Event::ToolUse { tool: "Write".into(), input: Some(huge.clone().into()), message: None, raw: None };
        assert!(json(tool).contains("too long to be shown"));
        let raw = Raw::read(format!("\"{huge}\"").as_bytes());
        assert_eq!(json(Event::Result { session_id: Some("s".into()), raw }), r#"{"type":"result","session_id":"s"}"#);
        assert!(json(Event::error(huge.clone())).len() <= LINE_MAX);
        let tool = Event::ToolUse { tool: huge.clone(), input: None, message: Some(huge), raw: None };
        assert!(json(tool).len() <= LINE_MAX);
    }
}
