//! What an ACP agent tells about a turn.

use std::collections::BTreeMap;

use serde_json::json;

use crate::blocks::{Blocks, Voice};
use crate::event::{Event, Json, PlanEntry, PlanStatus, ToolKind, Usage};
use crate::json;

/// 1,024 calls in one turn are remembered, to know which were told of already.
const MAX_TOOLS: usize = 1024;

/// 64 calls that are being made up: agents make a few side by side.
const MAX_PENDING: usize = 64;

/// The calls of this turn, and whether each is done.
#[derive(Debug, Default)]
pub(super) struct Tools {
    told: BTreeMap<String, bool>,
    /// Calls without their input yet: what is known of them.
    pending: BTreeMap<String, Json>,
}

/// A call as a request shows it.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) title: String,
}

impl Tool {
    /// What stands for the input when the agent gave none: all that it shows. Some have the whole command in the title only,
    /// so what people decide about must hold every line of it.
    pub(super) fn input(call: &Json) -> Json {
        json!({ "title": call.get("title"), "content": call.get("content"), "locations": call.get("locations") })
    }
}

impl Tools {
    /// A call was announced whose input is still being written: it is told of when it is mentioned again.
    fn announced(&mut self, call: &Json) {
        if let Some(id) = json::text(call, &["toolCallId"]).filter(|_| self.pending.len() < MAX_PENDING) {
            let known = json!({ "title": call.get("title"), "kind": call.get("kind"), "name": call.get("name") });
            self.pending.insert(id.to_owned(), known);
        }
    }

    /// A mention of a call, with what only its announcement said.
    pub(super) fn whole(&self, call: &Json) -> Json {
        let mut whole = call.clone();
        let known = json::text(call, &["toolCallId"]).and_then(|id| self.pending.get(id)?.as_object());
        if let (Some(whole), Some(known)) = (whole.as_object_mut(), known) {
            for (name, value) in known {
                let there = whole.entry(name.clone()).or_insert(Json::Null);
                if there.is_null() {
                    *there = value.clone();
                }
            }
        }
        whole
    }

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
                input: call.get("rawInput").filter(|i| !i.is_null()).cloned().unwrap_or_else(|| Tool::input(call)),
                kind,
                parent: None,
            });
        }
        tool
    }

    /// The turn is over.
    pub(super) fn clear(&mut self) {
        self.told.clear();
        self.pending.clear();
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
        "tool_call" if json::text(update, &["status"]) == Some("pending") => {
            blocks.close(events);
            tools.announced(update);
        }
        "tool_call" | "tool_call_update" => {
            blocks.close(events);
            let call = tools.whole(update);
            tools.of(&call, events);
            tools.ended(&call, events);
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
