//! The control protocol: what claude asks of its host, and how the host answers.

use ostler_story::{Ask, Asked, Autonomy, Can, Decision, Event, Json, Question, QuestionOption};
use serde_json::json;

use crate::adapter::Lined;
use crate::asks::{Asks, Fate, TOO_MANY};
use crate::json;

use super::lines::title_of;

/// The tool that asks people something.
const QUESTION_TOOL: &str = "AskUserQuestion";
/// What a no says when nobody said anything: the CLI wants words.
const DENIED: &str = "Denied by the user.";

/// What an answer needs to know of its request.
#[derive(Debug)]
pub(super) struct Pending {
    input: Json,
    /// Rules that claude offers to remember.
    rules: Vec<Json>,
}

/// A request of claude's.
pub(super) fn asked(line: &Json, autonomy: Autonomy, asks: &mut Asks<Pending>) -> Lined {
    let Some(id) = json::text(line, &["request_id"]) else { return unknown("control_request") };
    let request = line.get("request").unwrap_or(&Json::Null);
    let subtype = json::text(request, &["subtype"]).unwrap_or_default();
    if subtype != "can_use_tool" {
        let mut lined = unknown(&format!("control_request/{subtype}"));
        if asks.owed(id) != Fate::Answered {
            lined.reply = json::line(&json!({ "type": "control_response", "response":
                { "subtype": "error", "request_id": id, "error": format!("unsupported request: {subtype}") } }));
        }
        return lined;
    }
    let tool = json::text_or_empty(request, &["tool_name"]);
    let input = request.get("input").cloned().unwrap_or_else(|| json!({}));
    let for_people = tool == QUESTION_TOOL || json::yes(request, &["requires_user_interaction"]);
    if autonomy == Autonomy::All && !for_people {
        let reply = match asks.owed(id) {
            Fate::Answered => Vec::new(),
            _ => allow(id, &input, &[]),
        };
        return Lined { events: vec![Event::Granted { request: id.to_owned(), tool, input }], reply };
    }
    let rules: Vec<Json> =
        json::list(request, &["permission_suggestions"]).iter().filter(|s| grants(s)).cloned().collect();
    let questions = if tool == QUESTION_TOOL { questions(&input) } else { Vec::new() };
    let title = match questions.first() {
        Some(question) => json::title(&question.question),
        None => title_of(&tool, &input),
    };
    let event = Asked {
        request: id.to_owned(),
        ask: if questions.is_empty() { Ask::Permission } else { Ask::Question },
        title,
        tool_call: json::text(request, &["tool_use_id"]).map(str::to_owned),
        reason: json::text(request, &["decision_reason"]).map(str::to_owned),
        can: Can { session: !rules.is_empty(), always: !rules.is_empty(), change: questions.is_empty(), message: true },
        grants: rules.iter().flat_map(named).collect(),
        questions,
        input: input.clone(),
        tool,
    };
    let reply = match asks.asked(id, Pending { input, rules }) {
        Fate::Full => deny(id, TOO_MANY, false),
        Fate::Open | Fate::Answered => Vec::new(),
    };
    Lined { events: vec![Event::Asked(event)], reply }
}

/// Claude took a request back.
pub(super) fn withdrawn(line: &Json, asks: &mut Asks<Pending>) -> Lined {
    let id = json::text(line, &["request_id"]).filter(|id| asks.withdrawn(id));
    Lined { events: id.map(|id| Event::Unasked { request: id.to_owned() }).into_iter().collect(), reply: Vec::new() }
}

/// Claude answered a control request of ours: worth a word only when it refused.
pub(super) fn acknowledged(line: &Json) -> Lined {
    let refused = json::text(line, &["response", "subtype"]) == Some("error");
    let why = json::text(line, &["response", "error"]).unwrap_or("a control request was refused");
    Lined { events: refused.then(|| Event::trouble(why)).into_iter().collect(), reply: Vec::new() }
}

/// The line that carries a decision.
pub(super) fn answer(id: &str, pending: &Pending, answer: &Decision) -> Vec<u8> {
    match answer {
        Decision::Once => allow(id, &pending.input, &[]),
        Decision::Always => allow(id, &pending.input, &pending.rules),
        Decision::Session => {
            let mut rules = pending.rules.clone();
            for rule in rules.iter_mut().filter_map(Json::as_object_mut) {
                rule.insert("destination".to_owned(), json!("session"));
            }
            allow(id, &pending.input, &rules)
        }
        Decision::Changed { input } => allow(id, input, &[]),
        Decision::Deny { message, interrupt } => {
            deny(id, if message.trim().is_empty() { DENIED } else { message }, *interrupt)
        }
        Decision::Answers { answers } => {
            let mut input = pending.input.clone();
            if let Some(input) = input.as_object_mut() {
                let joined: serde_json::Map<String, Json> =
                    answers.iter().map(|(question, chosen)| (question.clone(), json!(chosen.join(", ")))).collect();
                input.insert("answers".to_owned(), Json::Object(joined));
            }
            allow(id, &input, &[])
        }
    }
}

fn allow(id: &str, input: &Json, rules: &[Json]) -> Vec<u8> {
    let mut response = json!({ "behavior": "allow", "updatedInput": input });
    if let Some(response) = response.as_object_mut().filter(|_| !rules.is_empty()) {
        response.insert("updatedPermissions".to_owned(), json!(rules));
    }
    success(id, &response)
}

fn deny(id: &str, message: &str, interrupt: bool) -> Vec<u8> {
    success(id, &json!({ "behavior": "deny", "message": message, "interrupt": interrupt }))
}

fn success(id: &str, response: &Json) -> Vec<u8> {
    json::line(&json!({ "type": "control_response", "response":
        { "subtype": "success", "request_id": id, "response": response } }))
}

/// Only rules that allow something named: a change of mode would grant more than anybody was shown.
fn grants(suggestion: &Json) -> bool {
    json::text(suggestion, &["type"]) == Some("addRules") && json::text(suggestion, &["behavior"]) == Some("allow")
}

fn named(suggestion: &Json) -> Vec<String> {
    let name = |rule: &Json| match (json::text_or_empty(rule, &["toolName"]), json::text(rule, &["ruleContent"])) {
        (tool, Some(content)) => format!("{tool}({content})"),
        (tool, None) => tool,
    };
    json::list(suggestion, &["rules"]).iter().map(name).collect()
}

fn questions(input: &Json) -> Vec<Question> {
    let option = |option: &Json| QuestionOption {
        label: json::text_or_empty(option, &["label"]),
        description: json::text_or_empty(option, &["description"]),
    };
    let question = |question: &Json| {
        let text = json::text(question, &["question"])?.to_owned();
        Some(Question {
            id: text.clone(),
            header: json::text_or_empty(question, &["header"]),
            question: text,
            options: json::list(question, &["options"]).iter().map(option).collect(),
            several: json::yes(question, &["multiSelect"]),
        })
    };
    json::list(input, &["questions"]).iter().filter_map(question).collect()
}

fn unknown(kind: &str) -> Lined {
    Lined { events: vec![Event::Unknown { kind: kind.to_owned() }], reply: Vec::new() }
}
