//! `~/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl`: a log of messages, each written again under its id when its tools have
//! answered, among changes of the whole. A list of all messages is written when a conversation is taken up; it tells nothing new.

use ostler_story::{Element, Json, Message, Speaker, ToolCall, Usage};

use super::{About, Told, time};
use crate::json;
use crate::oneshot::gemini::kind_of;

/// What is read; the lines without a kind say what the file is.
pub(super) const KINDS: &[&str] = &["", "user", "gemini", "info", "warning", "error"];

pub(super) fn told(kind: &str, line: &Json) -> Told {
    let text = |name: &str| json::text(line, &[name]).map(str::to_owned);
    let mut about = About { time_ms: time::of(line), ..About::default() };
    let (speaker, elements) = match kind {
        "" => {
            about.id = text("sessionId");
            about.time_ms = json::text(line, &["startTime"]).and_then(time::millis);
            about.title = json::text(line, &["$set", "summary"]).or(json::text(line, &["summary"])).map(str::to_owned);
            return Told { message: None, about };
        }
        "user" => (Speaker::Person, parts(line)),
        "gemini" => {
            about.model = text("model");
            about.step = text("id").zip(line.get("tokens").map(tokens));
            (Speaker::Agent, answer(line))
        }
        _ => (Speaker::Program, vec![Element::Notice(text("content").unwrap_or_default())]),
    };
    Told { message: Some(Message { id: text("id"), time_ms: about.time_ms, speaker, elements }), about }
}

fn tokens(told: &Json) -> Usage {
    Usage {
        input_tokens: json::number(told, &["input"]),
        output_tokens: json::number(told, &["output"]),
        cached_tokens: json::number(told, &["cached"]),
        ..Usage::default()
    }
}

fn parts(line: &Json) -> Vec<Element> {
    let part = |part: &Json| match (json::text(part, &["text"]), part.get("inlineData")) {
        // What the program tells the model of itself.
        (Some(text), _) if text.starts_with("<session_context>") => None,
        (Some(text), _) => Some(Element::Text(text.to_owned())),
        (None, Some(data)) => {
            let mime = json::text(data, &["mimeType"]).unwrap_or("image").to_owned();
            Some(super::picture(mime, json::text(data, &["data"])))
        }
        _ => None,
    };
    match line.get("content") {
        Some(Json::String(text)) if !text.is_empty() => vec![Element::Text(text.clone())],
        Some(Json::Array(list)) => list.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn answer(line: &Json) -> Vec<Element> {
    let mut elements = Vec::new();
    for thought in json::list(line, &["thoughts"]) {
        let part = |name| json::text(thought, &[name]).filter(|text| !text.is_empty());
        let both: Vec<&str> = part("subject").into_iter().chain(part("description")).collect();
        elements.push(Element::Thought(both.join(": ")));
    }
    elements.extend(parts(line));
    for call in json::list(line, &["toolCalls"]) {
        tool(call, &mut elements);
    }
    elements
}

fn tool(call: &Json, elements: &mut Vec<Element>) {
    let text = |name: &str| json::text_or_empty(call, &[name]);
    let (id, name) = (text("id"), text("name"));
    let input = call.get("args").cloned().unwrap_or_default();
    let title = json::text(call, &["description"]).unwrap_or(&name);
    let title = json::title(title);
    elements.push(Element::Tool(ToolCall::new(&id, &name, kind_of(&name), input).titled(title)));
    let status = json::text(call, &["status"]).unwrap_or_default();
    if !["success", "error", "cancelled"].contains(&status) {
        return;
    }
    let output = json::text(call, &["resultDisplay"]).map(str::to_owned).unwrap_or_else(|| {
        let answered = |result: &Json| {
            let response = json::at(result, &["functionResponse", "response"])?;
            json::text(response, &["output"]).or(json::text(response, &["error"])).map(str::to_owned)
        };
        json::list(call, &["result"]).iter().filter_map(answered).collect::<Vec<_>>().join("\n")
    });
    elements.push(Element::Result { id, output, is_error: status != "success", diffs: Vec::new() });
}
