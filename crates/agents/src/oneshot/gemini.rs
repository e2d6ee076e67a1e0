//! What `gemini --output-format stream-json` writes.

use ostler_story::{EndReason, Event, Json, ToolCall, ToolKind, Usage, Voice};

use crate::blocks::Blocks;
use crate::json;

/// What has been told so far.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) blocks: Blocks,
}

impl Lines {
    pub(super) fn line(&mut self, line: &Json) -> Vec<Event> {
        let text = |name| json::text_or_empty(line, &[name]);
        let mut events = Vec::new();
        let kind = json::text(line, &["type"]).unwrap_or_default();
        if kind != "message" {
            self.blocks.close(&mut events);
        }
        match kind {
            "init" => events.push(Event::Started {
                agent_session: json::text(line, &["session_id"]).map(str::to_owned),
                model: json::text(line, &["model"]).map(str::to_owned),
            }),
            "message" if json::text(line, &["role"]) != Some("assistant") => {}
            "message" if json::yes(line, &["delta"]) => self.blocks.piece(Voice::Answer, &text("content"), &mut events),
            "message" => {
                self.blocks.forget();
                events.push(Event::Text { text: text("content") });
            }
            "tool_use" => {
                let name = text("tool_name");
                let input = line.get("parameters").cloned().unwrap_or_default();
                let about = ["command", "file_path", "path", "pattern", "query"];
                let title = about.iter().find_map(|about| json::text(&input, &[about])).unwrap_or(&name);
                let title = json::title(title);
                events
                    .push(Event::ToolCall(ToolCall::new(text("tool_id"), &name, kind_of(&name), input).titled(title)));
            }
            "tool_result" => {
                let failed = json::text(line, &["status"]) == Some("error");
                let output = match json::text(line, &["error", "message"]).filter(|_| failed) {
                    Some(message) => message.to_owned(),
                    None => text("output"),
                };
                events.push(Event::tool_result(text("tool_id"), output, failed));
            }
            "result" => end(line, &mut events),
            "error" => events.push(Event::trouble(text("message"))),
            other => events.push(Event::Unknown { kind: other.to_owned() }),
        }
        events
    }
}

fn end(line: &Json, events: &mut Vec<Event>) {
    let stat = |name| json::number(line, &["stats", name]);
    events.push(Event::Usage(Usage {
        input_tokens: stat("input_tokens"),
        output_tokens: stat("output_tokens"),
        cached_tokens: stat("cached"),
        ..Usage::default()
    }));
    events.push(match json::text(line, &["status"]) {
        Some("error") => {
            let message = json::text(line, &["error", "message"]).unwrap_or("the turn failed").to_owned();
            Event::TurnEnded { reason: EndReason::Failed, message: Some(message) }
        }
        _ => Event::turn_ended(EndReason::Completed),
    });
}

pub(crate) fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "run_shell_command" => ToolKind::Execute,
        "write_file" | "replace" => ToolKind::Edit,
        "read_file" | "read_many_files" => ToolKind::Read,
        "glob" | "list_directory" | "search_file_content" | "grep_search" => ToolKind::Search,
        "web_fetch" | "google_web_search" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}
