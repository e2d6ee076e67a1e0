//! Permission requests of ACP agents. Options are chosen by their kind: the ids differ from agent to agent.

use serde_json::json;

use crate::adapter::{AnswerError, Lined};
use crate::asks::{Asks, Fate, TOO_MANY};
use crate::codex::inside;
use crate::event::{Answer, Ask, Asked, Can, Event, Json, ToolKind};
use crate::json;
use crate::rpc::{METHOD_NOT_FOUND, Style};
use crate::setup::{Autonomy, Setup};

use super::updates::{Tool, Tools, kind_of};

/// What an answer needs to know of its request: the options, as (kind, id).
#[derive(Debug)]
pub(super) struct Pending {
    options: Vec<(String, String)>,
}

impl Pending {
    fn first(&self, kinds: &[&str]) -> Option<&str> {
        kinds.iter().find_map(|kind| self.options.iter().find(|(k, _)| k == kind)).map(|(_, id)| id.as_str())
    }
}

/// A request.
pub(super) fn asked(
    id: &str,
    params: &Json,
    setup: &Setup,
    tools: &mut Tools,
    asks: &mut Asks<Pending>,
    mut events: Vec<Event>,
) -> Lined {
    let call = &tools.whole(params.get("toolCall").unwrap_or(&Json::Null));
    let option = |option: &Json| {
        Some((json::text(option, &["kind"])?.to_owned(), json::text(option, &["optionId"])?.to_owned()))
    };
    let pending = Pending { options: json::list(params, &["options"]).iter().filter_map(option).collect() };
    let tool = tools.of(call, &mut events);
    let input = call.get("rawInput").filter(|input| !input.is_null()).cloned();
    let input = input.unwrap_or_else(|| Tool::input(call));
    if let Some(option) = pending.first(&["allow_once"]).filter(|_| granted(setup, call)) {
        let reply = match asks.owed(id) {
            Fate::Answered => Vec::new(),
            _ => Style::Marked.result(id, &selected(option)),
        };
        events.push(Event::Granted { request: id.to_owned(), tool: tool.name, input });
        return Lined { events, reply };
    }
    let event = Asked {
        request: id.to_owned(),
        ask: Ask::Permission,
        tool: tool.name,
        title: tool.title,
        input,
        tool_call: json::text(call, &["toolCallId"]).map(str::to_owned),
        reason: None,
        can: Can { session: pending.first(&["allow_always"]).is_some(), ..Can::default() },
        grants: json::list(params, &["options"])
            .iter()
            .filter(|option| json::text(option, &["kind"]) == Some("allow_always"))
            .map(|option| json::text_or_empty(option, &["name"]))
            .collect(),
        questions: Vec::new(),
    };
    events.push(Event::Asked(event));
    let reply = match asks.asked(id, pending) {
        Fate::Full => Style::Marked.refusal(id, METHOD_NOT_FOUND, TOO_MANY),
        Fate::Open | Fate::Answered => Vec::new(),
    };
    Lined { events, reply }
}

/// The result that carries a decision.
pub(super) fn answer(setup: &Setup, pending: &Pending, answer: &Answer) -> Result<Json, AnswerError> {
    let option = match answer {
        Answer::Once => pending.first(&["allow_once"]),
        Answer::Session | Answer::Always => pending.first(&["allow_always", "allow_once"]),
        // A no for ever is never chosen: nobody said so.
        Answer::Deny { .. } => return Ok(pending.first(&["reject_once"]).map_or_else(cancelled, selected)),
        Answer::Changed { .. } => return Err(setup.cannot("take a changed input: deny it and say what to do").into()),
        Answer::Answers { .. } => return Err(setup.cannot("be given answers: it asked for permission").into()),
    };
    match option {
        Some(option) => Ok(selected(option)),
        None => Err(setup.cannot("be allowed this: it offers no way to say yes once").into()),
    }
}

/// What an open request hears when its turn is stopped.
pub(super) fn cancelled() -> Json {
    json!({ "outcome": { "outcome": "cancelled" } })
}

fn selected(option: &str) -> Json {
    json!({ "outcome": { "outcome": "selected", "optionId": option } })
}

/// Whether the session's autonomy says yes.
fn granted(setup: &Setup, call: &Json) -> bool {
    match setup.autonomy {
        Autonomy::All => true,
        Autonomy::Edits => {
            let mut paths = paths(call).peekable();
            kind_of(call) == ToolKind::Edit && paths.peek().is_some() && paths.all(|path| inside(path, &setup.cwd))
        }
        Autonomy::Plan | Autonomy::Ask => false,
    }
}

/// The files that a call names: where it works, and what it shows as changed.
fn paths(call: &Json) -> impl Iterator<Item = &str> {
    let changed = json::list(call, &["content"]).iter().filter(|part| json::text(part, &["type"]) == Some("diff"));
    json::list(call, &["locations"]).iter().chain(changed).filter_map(|part| json::text(part, &["path"]))
}
