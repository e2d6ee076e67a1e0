//! What an ACP agent tells about a turn.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentBlock, PlanEntryStatus, SessionUpdate, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdateFields, ToolKind as AcpKind,
};
use ostler_story::{Diff, Event, Json, Location, PlanEntry, PlanStatus, ToolCall, ToolKind, Usage, Voice};
use serde::Deserialize;
use serde_json::json;

use crate::blocks::Blocks;
use crate::json;

/// 1,024 calls in one turn are remembered, to know which were told of already.
const MAX_TOOLS: usize = 1024;

/// 64 calls that are being made up: agents make a few side by side.
const MAX_PENDING: usize = 64;

/// What is known of a call that was told of.
#[derive(Debug, Clone, Copy)]
struct KnownCall {
    /// With its changes.
    changes: bool,
    done: bool,
}

/// The calls of this turn.
#[derive(Debug, Default)]
pub(super) struct Tools {
    told: BTreeMap<String, KnownCall>,
    /// Calls without their input yet: what they are called.
    pending: BTreeMap<String, ToolCallUpdateFields>,
}

/// A mention of a call, by a request or an update.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) id: Option<String>,
    fields: ToolCallUpdateFields,
    /// What the tool is given. When the agent gave none: all that it shows, as it came. Some have the whole command in the
    /// title only, and the schema leaves out what it does not know; what people decide about must hold every line of it.
    pub(super) input: Json,
}

impl Mention {
    fn read(call: &Json, announced: Option<&ToolCallUpdateFields>) -> Self {
        let mut fields = ToolCallUpdateFields::deserialize(call).unwrap_or_default();
        if let Some(ToolCallUpdateFields { title, kind, name, .. }) = announced.cloned() {
            fields.title = fields.title.or(title);
            fields.kind = fields.kind.or(kind);
            fields.name = fields.name.or(name);
        }
        let (content, locations) = (call.get("content"), call.get("locations"));
        let shown = || json!({ "title": fields.title, "content": content, "locations": locations });
        let input = fields.raw_input.clone().unwrap_or_else(shown);
        Mention { id: json::text(call, &["toolCallId"]).map(str::to_owned), fields, input }
    }

    /// One line for people.
    pub(super) fn title(&self) -> String {
        json::title(self.fields.title.as_deref().unwrap_or_default())
    }

    /// The tool, as the agent names it.
    pub(super) fn name(&self) -> String {
        let kind = || json!(self.fields.kind?).as_str().map(str::to_owned);
        self.fields.name.clone().or_else(kind).unwrap_or_else(|| self.title())
    }

    /// What sort of thing it does.
    pub(super) fn kind(&self) -> ToolKind {
        match self.fields.kind {
            Some(AcpKind::Read) => ToolKind::Read,
            Some(AcpKind::Edit) => ToolKind::Edit,
            Some(AcpKind::Delete) => ToolKind::Delete,
            Some(AcpKind::Move) => ToolKind::Move,
            Some(AcpKind::Search) => ToolKind::Search,
            Some(AcpKind::Execute) => ToolKind::Execute,
            Some(AcpKind::Think | AcpKind::SwitchMode) => ToolKind::Think,
            Some(AcpKind::Fetch) => ToolKind::Fetch,
            _ => ToolKind::Other,
        }
    }

    /// What it changes, as far as it is shown.
    fn diffs(&self) -> Vec<Diff> {
        let diff = |part: &ToolCallContent| match part {
            ToolCallContent::Diff(diff) => Some(Diff {
                path: diff.path.display().to_string(),
                old: diff.old_text.clone(),
                new: Some(diff.new_text.clone()),
                line: None,
            }),
            _ => None,
        };
        self.fields.content.iter().flatten().filter_map(diff).collect()
    }

    /// Where it works.
    fn locations(&self) -> Vec<Location> {
        let place = |place: &ToolCallLocation| Location {
            path: place.path.display().to_string(),
            line: place.line.map(u64::from),
        };
        self.fields.locations.iter().flatten().map(place).collect()
    }

    fn output(&self) -> String {
        let part = |part: &ToolCallContent| match part {
            ToolCallContent::Content(content) => text(&content.content).map(str::to_owned),
            ToolCallContent::Diff(diff) => Some(format!("changed {}", diff.path.display())),
            _ => None,
        };
        let parts: Vec<String> = self.fields.content.iter().flatten().filter_map(part).collect();
        match &self.fields.raw_output {
            _ if !parts.is_empty() => parts.join("\n"),
            Some(Json::String(text)) => text.clone(),
            Some(raw) => json::text(raw, &["output"]).map_or_else(|| raw.to_string(), str::to_owned),
            None => String::new(),
        }
    }
}

impl Tools {
    /// A mention of a call, with what only its announcement said.
    pub(super) fn mention(&self, call: &Json) -> Mention {
        Mention::read(call, json::text(call, &["toolCallId"]).and_then(|id| self.pending.get(id)))
    }

    /// A call was announced whose input is still being written: it is told of when it is mentioned again.
    fn announced(&mut self, call: Mention) {
        let Mention { id, fields, .. } = call;
        if let Some(id) = id.filter(|_| self.pending.len() < MAX_PENDING) {
            let ToolCallUpdateFields { title, kind, name, .. } = fields;
            self.pending.insert(id, ToolCallUpdateFields::new().title(title).kind(kind).name(name));
        }
    }

    /// A call is told of if nobody has: some agents begin with the request.
    pub(super) fn tell(&mut self, call: &Mention, events: &mut Vec<Event>) {
        let Some(id) = &call.id else { return };
        if !self.told.contains_key(id) && self.told.len() < MAX_TOOLS {
            let told = ToolCall::new(id, call.name(), call.kind(), call.input.clone()).titled(call.title());
            let told = told.changing(call.diffs()).at(call.locations());
            self.told.insert(id.clone(), KnownCall { changes: !told.diffs.is_empty(), done: false });
            events.push(Event::ToolCall(told));
        }
    }

    /// The turn is over.
    pub(super) fn clear(&mut self) {
        self.told.clear();
        self.pending.clear();
    }

    fn ended(&mut self, call: &Mention, events: &mut Vec<Event>) {
        let is_error = match call.fields.status {
            Some(ToolCallStatus::Completed) => false,
            Some(ToolCallStatus::Failed) => true,
            _ => return,
        };
        let Some(id) = &call.id else { return };
        if let Some(told) = self.told.get_mut(id).filter(|told| !told.done) {
            told.done = true;
            let diffs = if told.changes { Vec::new() } else { Diff::bounded(call.diffs()) };
            events.push(Event::ToolResult { id: id.clone(), output: call.output(), is_error, diffs });
        }
    }
}

/// One `session/update`.
pub(super) fn update(told: &Json, blocks: &mut Blocks, tools: &mut Tools, events: &mut Vec<Event>) {
    let word = json::text(told, &["sessionUpdate"]).unwrap_or_default();
    // The first mention of a call is read like any other: what the schema demands of it is not needed here.
    if matches!(word, "tool_call" | "tool_call_update") {
        blocks.close(events);
        let call = tools.mention(told);
        if word == "tool_call" && call.fields.status == Some(ToolCallStatus::Pending) {
            return tools.announced(call);
        }
        tools.tell(&call, events);
        return tools.ended(&call, events);
    }
    match SessionUpdate::deserialize(told) {
        Ok(SessionUpdate::AgentMessageChunk(chunk)) => {
            blocks.piece(Voice::Answer, text(&chunk.content).unwrap_or_default(), events);
        }
        Ok(SessionUpdate::AgentThoughtChunk(chunk)) => {
            blocks.piece(Voice::Thought, text(&chunk.content).unwrap_or_default(), events);
        }
        Ok(SessionUpdate::Plan(_)) => {
            blocks.close(events);
            events.push(Event::Plan { entries: json::list(told, &["entries"]).iter().map(entry).collect() });
        }
        Ok(SessionUpdate::UsageUpdate(usage)) => events.push(Event::Usage(Usage {
            context_used: Some(usage.used),
            context_size: Some(usage.size),
            cost_usd: usage.cost.filter(|cost| cost.currency == "USD").map(|cost| cost.amount),
            ..Usage::default()
        })),
        Ok(SessionUpdate::SessionInfoUpdate(_)) => {
            let title = json::text(told, &["title"]).map(json::title).filter(|title| !title.is_empty());
            events.extend(title.map(|title| Event::Title { title }));
        }
        Ok(SessionUpdate::Notice(notice)) => {
            let text = [Some(notice.title), notice.description].into_iter().flatten().collect::<Vec<_>>().join(": ");
            events.push(Event::Notice { text });
        }
        Ok(
            SessionUpdate::UserMessageChunk(_)
            | SessionUpdate::AvailableCommandsUpdate(_)
            | SessionUpdate::ConfigOptionUpdate(_)
            | SessionUpdate::CurrentModeUpdate(_),
        ) => {}
        _ => match (voice(word), json::text(told, &["content", "text"])) {
            // Content that is not quite a block of the schema still has its words.
            (Some(voice), Some(words)) => blocks.piece(voice, words, events),
            _ => events.push(Event::Unknown { kind: format!("session/update/{word}") }),
        },
    }
}

fn voice(word: &str) -> Option<Voice> {
    match word {
        "agent_message_chunk" => Some(Voice::Answer),
        "agent_thought_chunk" => Some(Voice::Thought),
        _ => None,
    }
}

fn text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

/// A step of a plan. The schema leaves out a step without a priority, or with a state of the agent's own.
fn entry(entry: &Json) -> PlanEntry {
    let status = match json::part(entry, "status") {
        Some(PlanEntryStatus::Completed) => PlanStatus::Done,
        Some(PlanEntryStatus::InProgress) => PlanStatus::Running,
        _ => PlanStatus::Pending,
    };
    PlanEntry { text: json::text_or_empty(entry, &["content"]), status }
}
