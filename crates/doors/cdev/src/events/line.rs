//! A line that an agent wrote, and what it says: `claude_log` and `claude_message`. What claude's own lines mean is told by
//! `agents`; other agents' lines by the events that they became.

use ostler_engine::session::ClaudeLine;
use ostler_story::{Element, Message};
use serde_json::{Map, Value, json};

use super::Event;
use crate::session::{is_compaction, kind_of};

/// As much of one line as is sent: a phone shows less. What is longer is said to be cut.
const LINE_MAX: usize = 1 << 20;

/// `claude_log` for a line of stdout.
pub(super) fn log(line: &[u8], said: Option<&ClaudeLine>, told: Option<&Message>, session: &Value) -> Event {
    let parsed = match (said, told) {
        (Some(said), _) => parsed(said),
        (None, Some(message)) => from_story(message, session),
        (None, None) => Value::Null,
    };
    let mut event = raw(line, "stdout");
    event.payload.insert("parsed".into(), parsed);
    event
}

/// `claude_log` for a line of stderr.
pub(super) fn stderr(line: &[u8]) -> Event {
    let mut event = raw(line, "stderr");
    event.payload.insert("parsed".into(), Value::Null);
    event
}

fn raw(line: &[u8], stream: &str) -> Event {
    let shown = String::from_utf8_lossy(line.get(..LINE_MAX).unwrap_or(line));
    let mut event = Event::new("claude_log", json!({ "line": shown, "stream": stream }));
    if line.len() > LINE_MAX {
        event.payload.insert("truncated".into(), true.into());
    }
    event
}

fn parsed(said: &ClaudeLine) -> Value {
    let content: Vec<Value> = said.message.iter().flat_map(|message| &message.elements).map(as_text).collect();
    let mut parsed = Map::new();
    let mut put = |name: &str, value: Value| drop(parsed.insert(name.to_owned(), value));
    put("type", said.kind.clone().into());
    put("session_id", said.session.clone().unwrap_or_default().into());
    put("content", content.into());
    put("stop_reason", said.stop_reason.clone().unwrap_or_default().into());
    put("output_tokens", said.output_tokens.unwrap_or(0).into());
    put("is_thinking", said.thinking.into());
    put("is_context_compaction", said.compaction.into());
    for (name, value) in [
        ("model", said.model.clone().map(Value::from)),
        ("cost_usd", said.cost_usd.map(Value::from)),
        ("duration_ms", said.duration_ms.map(Value::from)),
    ] {
        if let Some(value) = value {
            put(name, value);
        }
    }
    parsed.into()
}

fn from_story(message: &Message, session: &Value) -> Value {
    let thinking = message.elements.iter().any(|element| matches!(element, Element::Thought(_)));
    json!({
        "type": kind_of(message),
        "session_id": session,
        "content": message.elements.iter().map(as_text).collect::<Vec<_>>(),
        "stop_reason": "",
        "output_tokens": 0,
        "is_thinking": thinking,
        "is_context_compaction": is_compaction(message),
    })
}

/// A block of `parsed`, whose inputs are JSON in a text.
fn as_text(element: &Element) -> Value {
    let mut block = block(element);
    if let Some(input) = block.get_mut("tool_input") {
        *input = Value::String(input.to_string());
    }
    block
}

/// A block of a message.
fn block(element: &Element) -> Value {
    match element {
        Element::Text(text) | Element::Notice(text) | Element::Compaction(text) => {
            json!({"type": "text", "text": text})
        }
        Element::Thought(text) => json!({"type": "thinking", "text": text}),
        Element::Image { mime, bytes } => json!({"type": "image", "image_info": {"mime_type": mime, "size": bytes}}),
        Element::Tool(call) => {
            json!({"type": "tool_use", "tool_name": call.name, "tool_id": call.id, "tool_input": call.input})
        }
        Element::Result { id, output, is_error, .. } => {
            json!({"type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error})
        }
    }
}

/// `claude_message`; nothing for what the program says for itself.
pub(super) fn message(message: &Message, said: Option<&ClaudeLine>) -> Option<Event> {
    let kind = kind_of(message);
    let shown = kind != "system" || is_compaction(message);
    let mut event = Event::new(
        "claude_message",
        json!({
            "type": kind,
            "role": kind,
            "content": message.elements.iter().map(block).collect::<Vec<_>>(),
            "stop_reason": said.and_then(|said| said.stop_reason.clone()).unwrap_or_default(),
            "is_context_compaction": is_compaction(message),
        }),
    );
    if let Some(model) = said.and_then(|said| said.model.clone()) {
        event.payload.insert("model".into(), model.into());
    }
    shown.then_some(event)
}

#[cfg(test)]
mod tests {
    use ostler_engine::session::claude_line;

    use super::*;

    const LINE: &[u8] = br#"{"type":"assistant","session_id":"c","message":{"role":"assistant","content":[{"type":"text","text":"I'll"},{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/a"}}],"stop_reason":"tool_use","usage":{"output_tokens":150}}}"#;

    #[test]
    fn a_line_of_claude_is_told_raw_and_parsed() {
        let said = claude_line(LINE).unwrap();
        let log = log(LINE, Some(&said), None, &Value::Null).payload;
        assert_eq!((&log["stream"], log["line"].as_str().unwrap().as_bytes()), (&json!("stdout"), LINE));
        let parsed = &log["parsed"];
        assert_eq!((&parsed["type"], &parsed["session_id"]), (&json!("assistant"), &json!("c")));
        assert_eq!((&parsed["output_tokens"], &parsed["stop_reason"]), (&json!(150), &json!("tool_use")));
        assert_eq!(parsed["content"][0], json!({"type": "text", "text": "I'll"}));
        let call =
            json!({"type": "tool_use", "tool_name": "Read", "tool_id": "t", "tool_input": "{\"file_path\":\"/a\"}"});
        assert_eq!(parsed["content"][1], call);
        let message = message(said.message.as_ref().unwrap(), Some(&said)).unwrap().payload;
        assert_eq!(message["content"][1]["tool_input"], json!({"file_path": "/a"}));
        assert_eq!((&message["role"], &message["stop_reason"]), (&json!("assistant"), &json!("tool_use")));
    }

    #[test]
    fn what_is_no_line_of_claude_is_told_raw_alone() {
        let log = log(b"not JSON \xff", None, None, &Value::Null).payload;
        assert_eq!((&log["line"], &log["parsed"]), (&json!("not JSON \u{fffd}"), &Value::Null));
        assert_eq!(stderr(b"oops").payload["stream"], "stderr");
    }

    #[test]
    fn an_endless_line_is_cut_and_said_to_be() {
        let log = log(&vec![b'x'; LINE_MAX + 1], None, None, &Value::Null).payload;
        assert_eq!((log["line"].as_str().unwrap().len(), &log["truncated"]), (LINE_MAX, &json!(true)));
    }
}
