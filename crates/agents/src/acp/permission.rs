//! Permission requests of ACP agents. Options are chosen by their kind: the ids differ from agent to agent.

use agent_client_protocol_schema::v1::{
    PermissionOptionId, PermissionOptionKind as Kind, RequestPermissionOutcome as Outcome, RequestPermissionResponse,
    SelectedPermissionOutcome,
};
use ostler_story::{Ask, Asked, Autonomy, Can, Decision, Event, Json, ToolKind};

use crate::adapter::{AnswerError, Lined};
use crate::asks::{Asks, Fate, TOO_MANY};
use crate::codex::inside;
use crate::json;
use crate::rpc::{METHOD_NOT_FOUND, Style};
use crate::setup::Setup;

use super::updates::Tools;

/// What an answer needs to know of its request: the options.
#[derive(Debug)]
pub(super) struct Pending(Vec<(Kind, PermissionOptionId)>);

impl Pending {
    fn first(&self, kinds: &[Kind]) -> Option<&PermissionOptionId> {
        kinds.iter().find_map(|kind| self.0.iter().find(|(k, _)| k == kind)).map(|(_, id)| id)
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
    let told = params.get("toolCall").unwrap_or(&Json::Null);
    let call = tools.mention(told);
    tools.tell(&call, &mut events);
    let options = json::list(params, &["options"]);
    let read = |option: &Json| Some((json::part(option, "kind")?, json::part(option, "optionId")?));
    let pending = Pending(options.iter().filter_map(read).collect());
    let granted = granted(setup, call.kind(), told);
    if let Some(option) = pending.first(&[Kind::AllowOnce]).filter(|_| granted) {
        let reply = match asks.owed(id) {
            Fate::Answered => Vec::new(),
            _ => Style::Marked.result(id, &selected(option)),
        };
        events.push(Event::Granted { request: id.to_owned(), tool: call.name(), input: call.input });
        return Lined { events, reply };
    }
    let lasting = options.iter().filter(|option| json::part(option, "kind") == Some(Kind::AllowAlways));
    let event = Asked {
        request: id.to_owned(),
        ask: Ask::Permission,
        tool: call.name(),
        title: call.title(),
        input: call.input,
        tool_call: call.id,
        reason: None,
        can: Can { session: pending.first(&[Kind::AllowAlways]).is_some(), ..Can::default() },
        grants: lasting.map(|option| json::text_or_empty(option, &["name"])).collect(),
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
pub(super) fn answer(
    setup: &Setup,
    pending: &Pending,
    answer: &Decision,
) -> Result<RequestPermissionResponse, AnswerError> {
    let option = match answer {
        Decision::Once => pending.first(&[Kind::AllowOnce]),
        Decision::Session | Decision::Always => pending.first(&[Kind::AllowAlways, Kind::AllowOnce]),
        // A no for ever is never chosen: nobody said so.
        Decision::Deny { .. } => return Ok(pending.first(&[Kind::RejectOnce]).map_or_else(cancelled, selected)),
        Decision::Changed { .. } => {
            return Err(setup.cannot("take a changed input: deny it and say what to do").into());
        }
        Decision::Answers { .. } => return Err(setup.cannot("be given answers: it asked for permission").into()),
    };
    match option {
        Some(option) => Ok(selected(option)),
        None => Err(setup.cannot("be allowed this: it offers no way to say yes once").into()),
    }
}

/// What an open request hears when its turn is stopped.
pub(super) fn cancelled() -> RequestPermissionResponse {
    RequestPermissionResponse::new(Outcome::Cancelled)
}

fn selected(option: &PermissionOptionId) -> RequestPermissionResponse {
    RequestPermissionResponse::new(Outcome::Selected(SelectedPermissionOutcome::new(option.clone())))
}

/// Whether the session's autonomy says yes.
fn granted(setup: &Setup, kind: ToolKind, call: &Json) -> bool {
    match setup.autonomy {
        Autonomy::All => true,
        Autonomy::Edits => {
            let mut paths = paths(call).peekable();
            let inside = |path: Option<&str>| path.is_some_and(|path| inside(path, &setup.cwd));
            kind == ToolKind::Edit && paths.peek().is_some() && paths.all(inside)
        }
        Autonomy::Plan | Autonomy::Ask => false,
    }
}

/// The files that a call names: where it works, and what it shows as changed; nothing for one that is not a text. Not by
/// the schema, which leaves out what is odd: a path that was left out would be one that nobody checked.
fn paths(call: &Json) -> impl Iterator<Item = Option<&str>> {
    let changed = json::list(call, &["content"]).iter().filter(|part| json::text(part, &["type"]) == Some("diff"));
    json::list(call, &["locations"]).iter().chain(changed).map(|part| json::text(part, &["path"]))
}
