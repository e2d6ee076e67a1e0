//! What `opencode run --format json` writes. A run has several steps; the last is the one that calls no tool.

use ostler_story::{EndReason, Event, Json, ToolCall, ToolKind, Usage, Voice};

use crate::blocks::Blocks;
use crate::json;

/// What has been told so far.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(super) blocks: Blocks,
    started: bool,
    /// What its steps have used together.
    used: Usage,
    /// The call in progress, where calls are told in two lines without an id.
    calls: u64,
}

impl Lines {
    pub(super) fn line(&mut self, line: &Json) -> Vec<Event> {
        let part = line.get("part").unwrap_or(line);
        let mut events = Vec::new();
        match json::text(line, &["type"]).unwrap_or_default() {
            "step_start" if !std::mem::replace(&mut self.started, true) => events.push(Event::Started {
                agent_session: json::text(line, &["sessionID"]).map(str::to_owned),
                model: json::text(line, &["model"]).map(str::to_owned),
            }),
            "step_start" => {}
            "message.part.updated" => self.part(part, &mut events),
            "text" => {
                self.blocks.forget();
                let text = json::text(part, &["text"]).or(json::text(line, &["content"])).unwrap_or_default();
                events.push(Event::Text { text: text.to_owned() });
            }
            "reasoning" => events.push(Event::Thought { text: json::text_or_empty(part, &["text"]) }),
            "tool_use" => self.tool(part, &mut events),
            "step_finish" => self.finished(part, &mut events),
            "error" => {
                self.blocks.close(&mut events);
                let message = json::text(line, &["error", "data", "message"])
                    .or(json::text(line, &["error", "message"]))
                    .or(json::text(line, &["message"]))
                    .or(json::text(line, &["error", "name"]));
                let message = Some(message.unwrap_or("the turn failed").to_owned());
                events.push(Event::TurnEnded { reason: EndReason::Failed, message });
            }
            other => events.push(Event::Unknown { kind: other.to_owned() }),
        }
        events
    }

    fn part(&mut self, part: &Json, events: &mut Vec<Event>) {
        let text = json::text(part, &["content"]).or(json::text(part, &["text"])).unwrap_or_default();
        match json::text(part, &["type"]) {
            Some("text") => self.blocks.piece(Voice::Answer, text, events),
            Some("thinking" | "reasoning") => self.blocks.piece(Voice::Thought, text, events),
            Some("tool") => self.tool(part, events),
            _ => {}
        }
    }

    pub(crate) fn tool(&mut self, part: &Json, events: &mut Vec<Event>) {
        self.blocks.close(events);
        let state = part.get("state").filter(|state| state.is_object());
        let status = state.map_or(json::text(part, &["state"]), |state| json::text(state, &["status"]));
        let state = state.unwrap_or(part);
        let whole = json::text(part, &["callID"]);
        if status == Some("running") || whole.is_some() {
            self.calls += 1;
        }
        let id = whole.map_or_else(|| format!("call-{}", self.calls), str::to_owned);
        if status == Some("running") || whole.is_some() {
            let name = json::text(part, &["tool"]).or(json::text(part, &["name"])).unwrap_or_default().to_owned();
            let input = state.get("input").cloned().unwrap_or_default();
            let title = json::text(state, &["title"]).or(json::text(&input, &["command"])).unwrap_or(&name);
            let title = json::title(title);
            events.push(Event::ToolCall(ToolCall::new(&id, &name, kind_of(&name), input).titled(title)));
        }
        let (failed, output) = match status {
            Some("completed") => (false, json::text_or_empty(state, &["output"])),
            Some("error") => (true, json::text_or_empty(state, &["error"])),
            _ => return,
        };
        events.push(Event::tool_result(id, output, failed));
    }

    fn finished(&mut self, part: &Json, events: &mut Vec<Event>) {
        self.blocks.close(events);
        let step = |name: &[&str]| json::number(part, name);
        self.used.step(Usage {
            input_tokens: step(&["tokens", "input"]),
            output_tokens: step(&["tokens", "output"]),
            cached_tokens: step(&["tokens", "cache", "read"]),
            turn_cost_usd: part.get("cost").and_then(Json::as_f64),
            ..Usage::default()
        });
        events.push(Event::Usage(self.used.clone()));
        match json::text(part, &["reason"]) {
            Some("tool-calls") => {}
            Some("length") => events.push(Event::turn_ended(EndReason::MaxTokens)),
            _ => events.push(Event::turn_ended(EndReason::Completed)),
        }
    }
}

pub(crate) fn kind_of(tool: &str) -> ToolKind {
    match tool {
        "bash" => ToolKind::Execute,
        "edit" | "write" | "patch" | "multiedit" => ToolKind::Edit,
        "read" => ToolKind::Read,
        "glob" | "grep" | "list" => ToolKind::Search,
        "webfetch" | "websearch" => ToolKind::Fetch,
        "task" | "todowrite" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}
