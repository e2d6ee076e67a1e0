//! What codex asks of its host, and how the host answers.

use ostler_story::{Ask, Asked, Can, Decision, Event, Json, Question, QuestionOption};
use serde_json::json;

use crate::adapter::{AnswerError, Lined};
use crate::asks::{Asks, Fate, TOO_MANY};
use crate::json;
use crate::rpc::{METHOD_NOT_FOUND, Style};
use crate::setup::Setup;

use super::items::Items;
use super::launch::{Grant, Policy};

/// What an answer needs to know of its request.
#[derive(Debug)]
pub(super) enum Pending {
    Command,
    Change,
    /// More rights for the turn: the rights asked for.
    Rights(Json),
    Questions,
}

impl Pending {
    /// Whether a no can end the turn by itself.
    pub(super) fn cancels(&self) -> bool {
        matches!(self, Pending::Command | Pending::Change)
    }
}

/// A request of codex's.
pub(super) fn asked(
    id: &str,
    method: &str,
    params: &Json,
    policy: &Policy,
    items: &Items,
    asks: &mut Asks<Pending>,
) -> Lined {
    let Some((pending, event)) = request(id, method, params, items) else { return refused(id, method, asks) };
    if granted(&pending, &event, params, policy) {
        let reply = match asks.owed(id) {
            Fate::Answered => Vec::new(),
            _ => Style::Bare.result(id, &yes(&pending, false)),
        };
        let Asked { request, tool, input, .. } = event;
        return Lined { events: vec![Event::Granted { request, tool, input }], reply };
    }
    let reply = match asks.asked(id, pending) {
        Fate::Full => Style::Bare.refusal(id, METHOD_NOT_FOUND, TOO_MANY),
        Fate::Open | Fate::Answered => Vec::new(),
    };
    Lined { events: vec![Event::Asked(event)], reply }
}

/// The result that carries a decision.
pub(super) fn answer(setup: &Setup, pending: &Pending, answer: &Decision) -> Result<Json, AnswerError> {
    Ok(match (pending, answer) {
        (Pending::Questions, Decision::Answers { answers }) => {
            let wrapped: serde_json::Map<String, Json> =
                answers.iter().map(|(id, chosen)| (id.clone(), json!({ "answers": chosen }))).collect();
            json!({ "answers": wrapped })
        }
        (Pending::Questions, Decision::Deny { .. }) => json!({ "answers": {} }),
        (Pending::Rights(_), Decision::Deny { .. }) => json!({ "permissions": {}, "scope": "turn" }),
        (_, Decision::Deny { interrupt, .. }) => json!({ "decision": if *interrupt { "cancel" } else { "decline" } }),
        (Pending::Questions, _) | (_, Decision::Answers { .. }) => {
            return Err(setup.cannot("take this answer: it does not fit the request").into());
        }
        (_, Decision::Changed { .. }) => {
            return Err(setup.cannot("take a changed command: deny it and say what to do").into());
        }
        (pending, Decision::Once) => yes(pending, false),
        (pending, Decision::Session | Decision::Always) => yes(pending, true),
    })
}

fn yes(pending: &Pending, session: bool) -> Json {
    match pending {
        Pending::Rights(rights) => json!({ "permissions": rights, "scope": if session { "session" } else { "turn" } }),
        Pending::Questions => json!({ "answers": {} }),
        _ => json!({ "decision": if session { "acceptForSession" } else { "accept" } }),
    }
}

fn request(id: &str, method: &str, params: &Json, items: &Items) -> Option<(Pending, Asked)> {
    let text = |name| json::text_or_empty(params, &[name]);
    let call = json::text(params, &["itemId"]).map(str::to_owned);
    let can = Can { session: true, ..Can::default() };
    let asked = |tool: &str, title: &str, input: Json| Asked {
        request: id.to_owned(),
        ask: Ask::Permission,
        tool: tool.to_owned(),
        title: json::title(title),
        input,
        tool_call: call.clone(),
        reason: json::text(params, &["reason"]).map(str::to_owned),
        can,
        grants: Vec::new(),
        questions: Vec::new(),
    };
    Some(match method {
        "item/commandExecution/requestApproval" => {
            let input = json!({ "command": text("command"), "cwd": text("cwd") });
            (Pending::Command, asked("bash", &text("command"), input))
        }
        "item/fileChange/requestApproval" => {
            let change =
                call.as_ref().and_then(|id| items.change(id)).cloned().unwrap_or_else(|| json!({ "changes": [] }));
            let paths: Vec<String> = paths(&change).flatten().map(str::to_owned).collect();
            let input = json!({ "changes": change.get("changes"), "grantRoot": params.get("grantRoot") });
            (Pending::Change, asked("edit", &paths.join(", "), input))
        }
        "item/permissions/requestApproval" => {
            let rights = params.get("permissions").cloned().unwrap_or_default();
            (Pending::Rights(rights.clone()), asked("permissions", "more rights", json!({ "permissions": rights })))
        }
        "item/tool/requestUserInput" => {
            let questions: Vec<Question> = json::list(params, &["questions"]).iter().map(question).collect();
            let title = questions.first().map(|q| q.question.clone()).unwrap_or_default();
            let mut event = asked("request_user_input", &title, json!({ "questions": params.get("questions") }));
            event.ask = Ask::Question;
            event.can = Can::default();
            event.questions = questions;
            (Pending::Questions, event)
        }
        _ => return None,
    })
}

fn question(question: &Json) -> Question {
    let option = |option: &Json| QuestionOption {
        label: json::text_or_empty(option, &["label"]),
        description: json::text_or_empty(option, &["description"]),
    };
    Question {
        id: json::text_or_empty(question, &["id"]),
        header: json::text_or_empty(question, &["header"]),
        question: json::text_or_empty(question, &["question"]),
        options: json::list(question, &["options"]).iter().map(option).collect(),
        several: false,
    }
}

/// Whether the session's autonomy says yes.
fn granted(pending: &Pending, event: &Asked, params: &Json, policy: &Policy) -> bool {
    match (policy.grant, pending) {
        (_, Pending::Questions) | (Grant::Nothing, _) => false,
        (Grant::Everything, _) => true,
        (Grant::Edits, Pending::Change) => {
            let more_rights = params.get("grantRoot").is_some_and(|root| !root.is_null());
            let mut paths = paths(&event.input).peekable();
            let inside = |path: Option<&str>| path.is_some_and(|path| inside(path, &policy.cwd));
            !more_rights && paths.peek().is_some() && paths.all(inside)
        }
        (Grant::Edits, _) => false,
    }
}

/// The files of a change; nothing for one that is not a text.
fn paths(change: &Json) -> impl Iterator<Item = Option<&str>> {
    json::list(change, &["changes"]).iter().map(|change| json::text(change, &["path"]))
}

/// Whether a path lies in a folder by its name alone: adapters never look at the disk. Links are the business of an agent's
/// own sandbox, where it has one.
pub(crate) fn inside(path: &str, folder: &str) -> bool {
    let relative = match path.strip_prefix('/') {
        Some(_) => match path.strip_prefix(folder.trim_end_matches('/')) {
            Some(rest) if rest.starts_with('/') => rest,
            _ => return false,
        },
        None => path,
    };
    !relative.split('/').any(|part| part == "..")
}

fn refused(id: &str, method: &str, asks: &mut Asks<Pending>) -> Lined {
    let reply = match asks.owed(id) {
        Fate::Answered => Vec::new(),
        _ if method == "mcpServer/elicitation/request" => Style::Bare.result(id, &json!({ "action": "decline" })),
        _ => Style::Bare.refusal(id, METHOD_NOT_FOUND, "not offered by this client"),
    };
    Lined { events: vec![Event::Unknown { kind: method.to_owned() }], reply }
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn a_path_is_inside_only_by_whole_names() {
        assert!(inside("/w/a.txt", "/w") && inside("a/b", "/w") && inside("/w/a", "/w/"));
        assert!(
            !inside("/work/a", "/w") && !inside("/w/../etc/x", "/w") && !inside("../x", "/w") && !inside("/w", "/w")
        );
    }
}
