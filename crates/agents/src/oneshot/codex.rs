//! What `codex exec --json` writes. Text comes whole, or as the text so far.

use ostler_story::{EndReason, Event, Json, PlanEntry, PlanStatus, ToolCall, ToolKind, Usage};
use serde_json::json;

use crate::json;

/// What has been told so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The message being written, as far as it was told.
    message: String,
}

impl Lines {
    pub(super) fn line(&mut self, line: &Json) -> Vec<Event> {
        let item = line.get("item").unwrap_or(line);
        let mut events = Vec::new();
        match json::text(line, &["type"]).unwrap_or_default() {
            "thread.started" => events.push(Event::Started {
                agent_session: json::text(line, &["thread_id"]).map(str::to_owned),
                model: json::text(line, &["model"]).map(str::to_owned),
            }),
            "turn.started" => {}
            "item.started" => events.extend(call(item)),
            "item.updated" => self.updated(item, &mut events),
            "item.completed" => self.completed(item, &mut events),
            "turn.completed" => {
                let used = |name| json::number(line, &["usage", name]);
                events.push(Event::Usage(Usage {
                    input_tokens: used("input_tokens"),
                    output_tokens: used("output_tokens"),
                    cached_tokens: used("cached_input_tokens"),
                    ..Usage::default()
                }));
                events.push(Event::turn_ended(EndReason::Completed));
            }
            "turn.failed" => {
                let message = json::text(line, &["error", "message"]).or(json::text(line, &["error"]));
                let message = Some(message.unwrap_or("the turn failed").to_owned());
                events.push(Event::TurnEnded { reason: EndReason::Failed, message });
            }
            // Not the end: it may be one of several attempts.
            "error" => events.push(Event::trouble(json::text_or_empty(line, &["message"]))),
            other => events.push(Event::Unknown { kind: other.to_owned() }),
        }
        events
    }

    fn updated(&mut self, item: &Json, events: &mut Vec<Event>) {
        match json::text(item, &["type"]) {
            Some("agent_message") => {
                let text = json::text(item, &["text"]).unwrap_or_default();
                if let Some(delta) = text.strip_prefix(self.message.as_str()).filter(|delta| !delta.is_empty()) {
                    events.push(Event::TextDelta { text: delta.to_owned() });
                }
                self.message = text.to_owned();
            }
            Some("todo_list") => events.push(plan(item)),
            _ => {}
        }
    }

    fn completed(&mut self, item: &Json, events: &mut Vec<Event>) {
        let text = |name| json::text_or_empty(item, &[name]);
        match json::text(item, &["type"]).unwrap_or_default() {
            "agent_message" => {
                self.message.clear();
                events.push(Event::Text { text: text("text") });
            }
            "reasoning" => events.push(Event::Thought { text: text("text") }),
            "error" => events.push(Event::Notice { text: text("message") }),
            "todo_list" => events.push(plan(item)),
            _ => {
                let status = json::text(item, &["status"]).unwrap_or("completed");
                let output = match (json::text(item, &["aggregated_output"]), json::text(item, &["error", "message"])) {
                    (Some(output), _) | (None, Some(output)) => output.to_owned(),
                    (None, None) => String::new(),
                };
                if call(item).is_some() {
                    events.push(Event::tool_result(text("id"), output, status != "completed"));
                }
            }
        }
    }
}

fn call(item: &Json) -> Option<Event> {
    let text = |name| json::text_or_empty(item, &[name]);
    let (name, title, input, kind) = match json::text(item, &["type"])? {
        "command_execution" => {
            ("bash".to_owned(), text("command"), json!({ "command": text("command") }), ToolKind::Execute)
        }
        "file_change" => {
            let changes = item.get("changes").cloned().unwrap_or_default();
            let path = json::list(item, &["changes"]).first().map(|c| json::text_or_empty(c, &["path"]));
            ("edit".to_owned(), path.unwrap_or_default(), json!({ "changes": changes }), ToolKind::Edit)
        }
        "mcp_tool_call" => {
            let name = format!("{}.{}", text("server"), text("tool"));
            (name.clone(), name, item.get("arguments").cloned().unwrap_or_default(), ToolKind::Other)
        }
        "web_search" => ("web_search".to_owned(), text("query"), json!({ "query": text("query") }), ToolKind::Fetch),
        _ => return None,
    };
    Some(Event::ToolCall(ToolCall::new(text("id"), name, kind, input).titled(json::title(&title))))
}

fn plan(item: &Json) -> Event {
    let entry = |todo: &Json| PlanEntry {
        text: json::text_or_empty(todo, &["text"]),
        status: if json::yes(todo, &["completed"]) { PlanStatus::Done } else { PlanStatus::Pending },
    };
    Event::Plan { entries: json::list(item, &["items"]).iter().map(entry).collect() }
}
