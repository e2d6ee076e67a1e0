//! The things that happen in a turn: commands, changes of files, calls of tools.

use std::collections::BTreeMap;

use ostler_story::{Event, Json, ToolCall, ToolKind};
use serde_json::json;

use crate::json;

/// 64: items in progress at once; a request names one of them, and more than a few never run side by side.
const MAX_ITEMS: usize = 64;

/// Changes of files that have begun: a request to approve one does not repeat it.
#[derive(Debug, Default)]
pub(super) struct Items {
    changes: BTreeMap<String, Json>,
}

impl Items {
    /// An item has begun.
    pub(super) fn started(&mut self, item: &Json, events: &mut Vec<Event>) {
        let Some(call) = call(item) else { return };
        if call.kind == ToolKind::Edit && self.changes.len() < MAX_ITEMS {
            self.changes.insert(call.id.clone(), call.input.clone());
        }
        events.push(Event::ToolCall(call));
    }

    /// An item is done.
    pub(super) fn completed(&mut self, item: &Json, events: &mut Vec<Event>) {
        match json::text(item, &["type"]).unwrap_or_default() {
            "agentMessage" => events.push(Event::Text { text: json::text_or_empty(item, &["text"]) }),
            "reasoning" => {
                let part = |name| json::list(item, &[name]).iter().filter_map(Json::as_str);
                let text = part("summary").chain(part("content")).collect::<Vec<_>>().join("\n");
                if !text.is_empty() {
                    events.push(Event::Thought { text });
                }
            }
            "contextCompaction" => events.push(Event::Notice { text: "the conversation was compacted".to_owned() }),
            _ => {
                let Some(call) = call(item) else { return };
                self.changes.remove(&call.id);
                let status = json::text(item, &["status"]).unwrap_or("completed");
                events.push(Event::tool_result(call.id, output(item), status != "completed"));
            }
        }
    }

    /// The change of files that a request is about.
    pub(super) fn change(&self, id: &str) -> Option<&Json> {
        self.changes.get(id)
    }

    /// The turn is over, and with it all that was in progress.
    pub(super) fn clear(&mut self) {
        self.changes.clear();
    }
}

fn call(item: &Json) -> Option<ToolCall> {
    let text = |name| json::text_or_empty(item, &[name]);
    let sort = json::text(item, &["type"])?;
    let (name, title, input, kind) = match sort {
        "commandExecution" => {
            let input = json!({ "command": text("command"), "cwd": text("cwd") });
            ("bash".to_owned(), text("command"), input, ToolKind::Execute)
        }
        "fileChange" => {
            let changes = item.get("changes").cloned().unwrap_or_default();
            let paths: Vec<String> =
                json::list(item, &["changes"]).iter().map(|c| json::text_or_empty(c, &["path"])).collect();
            ("edit".to_owned(), paths.join(", "), json!({ "changes": changes }), ToolKind::Edit)
        }
        "mcpToolCall" => {
            let name = format!("{}.{}", text("server"), text("tool"));
            (name.clone(), name, item.get("arguments").cloned().unwrap_or_default(), ToolKind::Other)
        }
        "dynamicToolCall" | "collabAgentToolCall" => {
            (text("tool"), text("tool"), item.get("arguments").cloned().unwrap_or_default(), ToolKind::Other)
        }
        "webSearch" => ("web_search".to_owned(), text("query"), json!({ "query": text("query") }), ToolKind::Fetch),
        "imageView" => ("view_image".to_owned(), text("path"), json!({ "path": text("path") }), ToolKind::Read),
        _ => return None,
    };
    Some(ToolCall::new(text("id"), name, kind, input).titled(json::title(&title)))
}

fn output(item: &Json) -> String {
    if let Some(text) = json::text(item, &["aggregatedOutput"]).or(json::text(item, &["error", "message"])) {
        return text.to_owned();
    }
    let texts: Vec<&str> =
        json::list(item, &["result", "content"]).iter().filter_map(|part| json::text(part, &["text"])).collect();
    texts.join("\n")
}
