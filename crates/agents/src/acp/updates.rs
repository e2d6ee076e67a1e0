//! What an ACP agent tells about a turn.

use std::collections::BTreeMap;

use serde_json::json;

use crate::blocks::{Blocks, Voice};
use crate::event::{Event, Json, PlanEntry, PlanStatus, ToolKind, Usage};
use crate::json;

/// 1,024 calls in one turn are remembered, to know which were told of already.
const MAX_TOOLS: usize = 1024;

/// The calls of this turn, and whether each is done.
#[derive(Debug, Default)]
pub(super) struct Tools {
    told: BTreeMap<String, bool>,
}

/// A call as a request shows it.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) title: String,
}

impl Tool {
    /// What stands for the input when the agent gave none: the changes and places it shows.
    pub(super) fn input(&self, call: &Json) -> Json {
        json!({ "title": self.title, "content": call.get("content"), "locations": call.get("locations") })
    }
}

impl Tools {
    /// The call that a request or an update is about; told of first if nobody has: some agents begin with the request.
    pub(super) fn of(&mut self, call: &Json, events: &mut Vec<Event>) -> Tool {
        let title = json::title(json::text(call, &["title"]).unwrap_or_default());
        let kind = kind_of(call);
        let name = json::text(call, &["name"]).or(json::text(call, &["kind"])).unwrap_or(title.as_str()).to_owned();
        let tool = Tool { name, title };
        let Some(id) = json::text(call, &["toolCallId"]) else { return tool };
        if !self.told.contains_key(id) && self.told.len() < MAX_TOOLS {
            self.told.insert(id.to_owned(), false);
            events.push(Event::ToolCall {
                id: id.to_owned(),
                name: tool.name.clone(),
                title: tool.title.clone(),
                input: call.get("rawInput").filter(|i| !i.is_null()).cloned().unwrap_or_else(|| tool.input(call)),
                kind,
                parent: None,
            });
        }
        tool
    }

    /// The turn is over.
    pub(super) fn clear(&mut self) {
        self.told.clear();
    }

    fn ended(&mut self, call: &Json, events: &mut Vec<Event>) {
        let failed = match json::text(call, &["status"]) {
            Some("completed") => false,
            Some("failed") => true,
            _ => return,
        };
        let Some(id) = json::text(call, &["toolCallId"]) else { return };
        if let Some(done) = self.told.get_mut(id).filter(|done| !**done) {
            *done = true;
            events.push(Event::ToolResult { id: id.to_owned(), output: output(call), is_error: failed });
        }
    }
}

/// One `session/update`.
pub(super) fn update(update: &Json, blocks: &mut Blocks, tools: &mut Tools, events: &mut Vec<Event>) {
    let text = json::text(update, &["content", "text"]).unwrap_or_default();
    match json::text(update, &["sessionUpdate"]).unwrap_or_default() {
        "agent_message_chunk" => blocks.piece(Voice::Answer, text, events),
        "agent_thought_chunk" => blocks.piece(Voice::Thought, text, events),
        "tool_call" | "tool_call_update" => {
            blocks.close(events);
            tools.of(update, events);
            tools.ended(update, events);
        }
        "plan" => {
            blocks.close(events);
            events.push(plan(update));
        }
        "usage_update" => events.push(Event::Usage(Usage {
            context_used: json::number(update, &["used"]),
            context_size: json::number(update, &["size"]),
            cost_usd: json::at(update, &["cost", "amount"]).and_then(Json::as_f64),
            ..Usage::default()
        })),
        "user_message_chunk"
        | "available_commands_update"
        | "session_info_update"
        | "config_option_update"
        | "current_mode_update" => {}
        other => events.push(Event::Unknown { kind: format!("session/update/{other}") }),
    }
}

/// The protocol's word for what a tool does.
pub(super) fn kind_of(call: &Json) -> ToolKind {
    match json::text(call, &["kind"]).unwrap_or_default() {
        "read" => ToolKind::Read,
        "edit" => ToolKind::Edit,
        "delete" => ToolKind::Delete,
        "move" => ToolKind::Move,
        "search" => ToolKind::Search,
        "execute" => ToolKind::Execute,
        "think" | "switch_mode" => ToolKind::Think,
        "fetch" => ToolKind::Fetch,
        _ => ToolKind::Other,
    }
}

fn output(call: &Json) -> String {
    let part = |part: &Json| match json::text(part, &["type"]) {
        Some("content") => json::text(part, &["content", "text"]).map(str::to_owned),
        Some("diff") => json::text(part, &["path"]).map(|path| format!("changed {path}")),
        _ => None,
    };
    let parts: Vec<String> = json::list(call, &["content"]).iter().filter_map(part).collect();
    match call.get("rawOutput") {
        _ if !parts.is_empty() => parts.join("\n"),
        Some(Json::String(text)) => text.clone(),
        Some(raw) if !raw.is_null() => json::text(raw, &["output"]).map_or_else(|| raw.to_string(), str::to_owned),
        _ => String::new(),
    }
}

fn plan(update: &Json) -> Event {
    let entry = |entry: &Json| PlanEntry {
        text: json::text_or_empty(entry, &["content"]),
        status: match json::text(entry, &["status"]) {
            Some("completed") => PlanStatus::Done,
            Some("in_progress") => PlanStatus::Running,
            _ => PlanStatus::Pending,
        },
    };
    Event::Plan { entries: json::list(update, &["entries"]).iter().map(entry).collect() }
}
