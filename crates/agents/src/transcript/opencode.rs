//! opencode keeps a database: a message is a row, and its parts are others, each with a JSON text.

use ostler_story::{Element, Json, Message, Speaker};

use crate::json;
use crate::oneshot::opencode::Lines;

/// A message of these rows; nothing for one that says nothing, or is not JSON.
pub fn message(id: &str, time_ms: u64, data: &str, parts: &[String]) -> Option<Message> {
    let data: Json = serde_json::from_str(data).ok()?;
    let speaker = match json::text(&data, &["role"])? {
        "user" => Speaker::Person,
        _ => Speaker::Agent,
    };
    let mut elements = Vec::new();
    for part in parts.iter().filter_map(|part| serde_json::from_str::<Json>(part).ok()) {
        piece(&part, &mut elements);
    }
    if let Some(error) = data.get("error") {
        let words = json::text(error, &["data", "message"]).or(json::text(error, &["name"]));
        elements.push(Element::Notice(words.unwrap_or("the turn failed").to_owned()));
    }
    (!elements.is_empty()).then_some(Message { id: Some(id.to_owned()), time_ms: Some(time_ms), speaker, elements })
}

/// The model that a message's row names.
pub fn model(data: &str) -> Option<String> {
    let data: Json = serde_json::from_str(data).ok()?;
    json::text(&data, &["modelID"]).or(json::text(&data, &["model", "modelID"])).map(str::to_owned)
}

fn piece(part: &Json, elements: &mut Vec<Element>) {
    let text = || json::text_or_empty(part, &["text"]);
    match json::text(part, &["type"]).unwrap_or_default() {
        "text" if !json::yes(part, &["synthetic"]) => elements.push(Element::Text(text())),
        "reasoning" => elements.push(Element::Thought(text())),
        "tool" => {
            let mut events = Vec::new();
            Lines::default().tool(part, &mut events);
            elements.extend(events.iter().filter_map(Element::of_event));
        }
        "file" => {
            let mime = json::text(part, &["mime"]).unwrap_or_default();
            let data = json::text(part, &["url"]).filter(|_| mime.starts_with("image/"));
            elements.push(match data {
                Some(data) => super::picture(mime.to_owned(), Some(data)),
                None => Element::Text(json::text_or_empty(part, &["filename"])),
            });
        }
        "compaction" => elements.push(Element::Compaction(String::new())),
        _ => {}
    }
}
