//! An agent's own line, read only when somebody asks for it.

use std::cell::OnceCell;

use serde_json::Value;

use super::{RAW_MAX, RawBytes};
use crate::event::{Event, Raw};

/// A line of an agent's output.
pub(super) struct Line<'a> {
    /// The process, and where the line begins and ends.
    place: Option<(u32, u64, u64)>,
    raw: RawBytes<'a>,
    bytes: OnceCell<Option<Vec<u8>>>,
    value: OnceCell<Value>,
}

impl<'a> Line<'a> {
    pub(super) fn new(place: Option<(u32, u64, u64)>, raw: RawBytes<'a>) -> Self {
        Self { place, raw, bytes: OnceCell::new(), value: OnceCell::new() }
    }

    fn bytes(&self) -> Option<&[u8]> {
        let read = || {
            let (source, from, to) = self.place.filter(|(_, from, to)| to.saturating_sub(*from) <= RAW_MAX)?;
            (self.raw)(source, from, to)
        };
        self.bytes.get_or_init(read).as_deref()
    }

    fn value(&self) -> &Value {
        self.value.get_or_init(|| self.bytes().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.value().get(name).and_then(Value::as_str)
    }

    fn kind(&self) -> &str {
        self.text("type").unwrap_or_default()
    }

    /// The whole of it, to be passed on.
    pub(super) fn raw(&self) -> Option<Raw> {
        self.bytes().and_then(Raw::read)
    }

    /// Whether it is the line that a CLI ends a turn with, however it went.
    pub(super) fn is_result(&self) -> bool {
        self.kind() == "result"
    }

    /// The conversation that it names.
    pub(super) fn session_id(&self) -> Option<String> {
        self.text("session_id").map(str::to_owned)
    }

    /// How a tool is getting on, if it says so.
    pub(super) fn progress(&self) -> Option<Event> {
        if self.kind() != "tool_progress" {
            return None;
        }
        let tool = self.text("tool_name")?.to_owned();
        Some(Event::ToolUse { tool, input: None, message: self.text("status").map(str::to_owned), raw: self.raw() })
    }

    /// What it says to clients of this protocol alone: lines about the system, and the names of tools as they are called.
    pub(super) fn overlooked(&self) -> Option<Event> {
        // Most lines are pieces of words; they are not taken apart for nothing.
        let holds = |what: &[u8]| self.bytes().is_some_and(|bytes| bytes.windows(what.len()).any(|some| some == what));
        if !holds(b"content_block_start") && !holds(b"\"system\"") {
            return None;
        }
        match self.kind() {
            "system" => Some(Event::System {
                subtype: self.text("subtype").unwrap_or_default().to_owned(),
                session_id: self.session_id(),
                model: None,
                message: None,
                raw: self.raw(),
            }),
            "stream_event" => {
                let event = self.value().get("event")?;
                let block = event.get("content_block")?;
                let is = |value: &Value, kind: &str| value.get("type").and_then(Value::as_str) == Some(kind);
                let starts = is(event, "content_block_start") && is(block, "tool_use");
                let tool = block.get("name").and_then(Value::as_str).filter(|_| starts)?.to_owned();
                Some(Event::ToolUse { tool, input: None, message: None, raw: None })
            }
            _ => None,
        }
    }
}
