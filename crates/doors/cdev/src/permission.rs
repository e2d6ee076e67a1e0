//! `agent/respond` and `permission/*`: what an agent asks, answered from here. Whatever door began the session, the request is the
//! inbox's; the answer is bound to its whole content, taken once, and judged there.

use std::path::Path;

use ostler_engine::approval::{AskKind, DecideError};
use ostler_engine::session::Status;
use ostler_engine::{MayWait, Session};
use ostler_story::{Answers, Ask, Asked, Decision, Json, answers_from};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agent::{self, WhichParams};
use crate::error::{Code, Error};
use crate::method::Call;
use crate::place::id_of as workspace_id;

/// What goes before the inbox's own id where the agent gave none.
const OURS: &str = "apr_";
/// The tool of this protocol that asks questions.
const QUESTION: &str = "AskUserQuestion";

/// An answer to what an agent asks.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct RespondParams {
    /// The request, as the event named it.
    pub(crate) tool_use_id: String,
    /// `approved` or `denied`, or the answer to a question.
    #[serde(default)]
    pub(crate) response: Option<String>,
    /// It is a no, and `response` says why.
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) session_id: Option<String>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Sent {
    /// `sent`.
    pub(crate) status: String,
    pub(crate) tool_use_id: String,
}

/// The same answer in the words of the permission methods.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct DecideParams {
    pub(crate) tool_use_id: String,
    pub(crate) decision: Verdict,
    /// Whether the same again in this session is allowed too.
    #[serde(default)]
    pub(crate) scope: Scope,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Allow,
    Deny,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    #[default]
    Once,
    Session,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Success {
    pub(crate) success: bool,
}

/// What waits for an answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Pending {
    pub(crate) requests: Vec<Request>,
    pub(crate) count: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Request {
    pub(crate) tool_use_id: String,
    pub(crate) session_id: String,
    pub(crate) workspace_id: String,
    pub(crate) tool_name: String,
    pub(crate) tool_input: Json,
    pub(crate) description: String,
    /// It is a question, and its answer a text.
    pub(crate) is_question: bool,
    pub(crate) created_at: String,
}

/// What clients call a request: the agent's id of the call, or ours. No agent's looks like one of ours.
pub(crate) fn id_of(approval: &str, asked: &Asked) -> String {
    let own = asked.tool_call.clone().filter(|id| !id.starts_with(OURS));
    own.unwrap_or_else(|| own_id(approval))
}

/// The id of a request to which no agent gave one.
pub(crate) fn own_id(approval: &str) -> String {
    format!("{OURS}{approval}")
}

/// The tool that asks. Clients know one that asks questions, whichever agent does.
pub(crate) fn tool_of(asked: &Asked) -> &str {
    match asked.ask {
        Ask::Question => QUESTION,
        Ask::Permission => &asked.tool,
    }
}

/// What it asks with: questions in the form of that tool.
pub(crate) fn input_of(asked: &Asked) -> Json {
    if asked.ask == Ask::Permission || asked.tool == QUESTION || asked.questions.is_empty() {
        return asked.input.clone();
    }
    let questions = asked.questions.iter().map(|question| {
        let options =
            question.options.iter().map(|option| json!({ "label": option.label, "description": option.description }));
        json!({
            "id": question.id,
            "question": question.question,
            "header": question.header,
            "options": options.collect::<Vec<_>>(),
            "multiSelect": question.several,
        })
    });
    json!({ "questions": questions.collect::<Vec<_>>() })
}

/// One line about a request, in the protocol's words.
pub(crate) fn description(asked: &Asked) -> String {
    let of = |name: &str| asked.input.get(name).and_then(Json::as_str).map(str::to_owned);
    let path = || of("file_path").or_else(|| of("notebook_path")).or_else(|| of("path"));
    let said = match asked.tool.as_str() {
        "Write" => path().map(|path| format!("Write to file: {path}")),
        "Edit" | "MultiEdit" | "NotebookEdit" => path().map(|path| format!("Edit file: {path}")),
        "Read" => path().map(|path| format!("Read file: {path}")),
        "Bash" => of("command").map(|command| format!("Run command: {}", shortened(&command))),
        "Glob" => of("pattern").map(|pattern| format!("Search files: {pattern}")),
        "Grep" => of("pattern").map(|pattern| format!("Search content: {pattern}")),
        "WebFetch" => of("url").map(|url| format!("Fetch URL: {url}")),
        "WebSearch" => of("query").map(|query| format!("Web search: {query}")),
        _ => None,
    };
    let titled = || Some(asked.title.clone()).filter(|title| !title.is_empty());
    said.or_else(titled).unwrap_or_else(|| format!("Use {} tool", asked.tool))
}

/// A command in one line of a list.
fn shortened(command: &str) -> String {
    const SHOWN: usize = 100;
    match command.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", command.get(..end).unwrap_or_default()),
        None => command.to_owned(),
    }
}

/// An open request: whose it is, the inbox's id, and what is asked.
struct Open {
    session: Session,
    approval: String,
    asked: Asked,
}

/// Every open request of a workspace, or of all.
fn open(call: &Call, folder: Option<&Path>) -> Vec<Open> {
    let of = |session: Session| {
        let asked = session.asked();
        asked.into_iter().map(move |(approval, asked)| Open { session: session.clone(), approval, asked })
    };
    call.sessions_in(folder).into_iter().flat_map(of).collect()
}

fn find(call: &Call, id: &str, session: Option<&str>, workspace: Option<&str>) -> Result<Open, Error> {
    let folder = call.within(workspace)?;
    let session = session.filter(|session| !session.is_empty());
    let session = session.map(|named| agent::session_named(call, folder.as_deref(), named)).transpose()?;
    let of_it = |open: &Open| session.as_ref().is_none_or(|session| session.id() == open.session.id());
    let all = open(call, folder.as_deref()).into_iter().filter(of_it);
    let mut named = all.filter(|open| is_called(&open.approval, &open.asked, id));
    let found = named.next();
    if found.is_some() && named.next().is_some() {
        // Agents make their ids up: a yes to one must not become a yes to another.
        return Err(Error::params("several requests have this id; name the session, or answer at the machine itself"));
    }
    found.ok_or_else(|| {
        let busy = |session: &Session| matches!(session.view().status, Status::Running | Status::Waiting);
        let works = call.sessions_in(folder.as_deref()).iter().any(busy);
        let code = if works { Code::Agent } else { Code::AgentNotRunning };
        let shown: String = id.chars().take(128).collect();
        Error::new(code, format!("nothing waits for an answer to {shown:?}")).with("tool_use_id", shown)
    })
}

/// Whether this is an id of a request: the one that clients are told, ours, or the agent's own of the request.
fn is_called(approval: &str, asked: &Asked, id: &str) -> bool {
    match id.strip_prefix(OURS) {
        Some(ours) => approval == ours,
        None => approval == id || asked.tool_call.as_deref() == Some(id) || asked.request == id,
    }
}

pub(crate) fn respond(wait: &MayWait, call: &Call, params: RespondParams) -> Result<Sent, Error> {
    if params.tool_use_id.is_empty() {
        return Err(Error::params("agent/respond: `tool_use_id` is empty"));
    }
    let said = params.response.as_deref().unwrap_or_default();
    if let Some(approval) = command(call, &params.tool_use_id) {
        decide(wait, call, &approval, yes_or_no(said, params.is_error)?)?;
    } else {
        let open = find(call, &params.tool_use_id, params.session_id.as_deref(), params.workspace_id.as_deref())?;
        decide(wait, call, &open.approval, decision(&open.asked, said, params.is_error)?)?;
    }
    Ok(Sent { status: "sent".into(), tool_use_id: params.tool_use_id })
}

/// A command that waits for a person, where this door serves the whole machine: no agent's session asks it.
fn command(call: &Call, id: &str) -> Option<String> {
    let id = id.strip_prefix(OURS).filter(|_| call.state.settings.repo.is_none())?;
    let mut pending = call.state.engine.inbox().pending().into_iter();
    pending.find(|approval| approval.id == id && approval.ask.kind == AskKind::Command).map(|approval| approval.id)
}

/// What an answer means. Anything that is neither a yes nor a no is an answer to a question, and to nothing else.
fn decision(asked: &Asked, said: &str, is_error: bool) -> Result<Decision, Error> {
    match asked.ask {
        Ask::Question if is_error => Ok(Decision::no(said)),
        Ask::Question => answers(asked, said).map(|answers| Decision::Answers { answers }),
        Ask::Permission => yes_or_no(said, is_error),
    }
}

fn yes_or_no(said: &str, is_error: bool) -> Result<Decision, Error> {
    let word = said.trim().to_lowercase();
    let no = ["denied", "deny", "no", "n", "reject", "rejected", "cancel", "cancelled"];
    if is_error || no.contains(&word.as_str()) {
        let message = if no.contains(&word.as_str()) { "" } else { said };
        return Ok(Decision::no(message));
    }
    match word.as_str() {
        "approved" | "approve" | "allow" | "allowed" | "yes" | "y" | "ok" | "allow_once" => Ok(Decision::Once),
        "allow_session" | "approved_for_session" => Ok(Decision::Session),
        _ => Err(Error::params("agent/respond: `response` is `approved` or `denied`")),
    }
}

/// The answers to questions: by their ids or their words, or one text for the first.
fn answers(asked: &Asked, said: &str) -> Result<Answers, Error> {
    if said.is_empty() {
        return Err(Error::params("agent/respond: `response` is empty"));
    }
    let given = serde_json::from_str(said).ok().and_then(answers_from).unwrap_or_default();
    let known =
        |name: &String| asked.questions.iter().find(|question| question.id == *name || question.question == *name);
    let named: Answers =
        given.iter().filter_map(|(name, labels)| Some((known(name)?.id.clone(), labels.clone()))).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let first = asked.questions.first().ok_or_else(|| Error::new(Code::Agent, "this question has no answer"))?;
    Ok([(first.id.clone(), vec![said.to_owned()])].into())
}

pub(crate) fn respond_permission(wait: &MayWait, call: &Call, params: DecideParams) -> Result<Success, Error> {
    let approval = match command(call, &params.tool_use_id) {
        Some(approval) => approval,
        None => find(call, &params.tool_use_id, None, params.workspace_id.as_deref())?.approval,
    };
    let decision = match (params.decision, params.scope) {
        (Verdict::Deny, _) => Decision::deny(),
        (Verdict::Allow, Scope::Once) => Decision::Once,
        (Verdict::Allow, Scope::Session) => Decision::Session,
    };
    decide(wait, call, &approval, decision)?;
    Ok(Success { success: true })
}

fn decide(wait: &MayWait, call: &Call, approval: &str, decision: Decision) -> Result<(), Error> {
    let inbox = call.state.engine.inbox();
    let gone = || Error::new(Code::Agent, "nothing waits for this answer any more");
    let hash = inbox.get(wait, approval).map_err(Error::internal)?.ok_or_else(gone)?.hash;
    let by = call.state.engine.guest_decides(wait, &call.guest, None, approval);
    let by = by.map_err(|error| Error::new(Code::Forbidden, error.to_string()))?;
    inbox.decide_here(wait, approval, &hash, decision, by).map_err(|error| {
        if let DecideError::DoesNotFit(why) = &error {
            call.state.engine.guest_refused(wait, &call.guest, approval, why);
        }
        let code = match &error {
            DecideError::DoesNotFit(_) => Code::Forbidden,
            DecideError::Store(_) => Code::Internal,
            _ => Code::Agent,
        };
        Error::new(code, error.to_string())
    })
}

pub(crate) fn pending(call: &Call, params: WhichParams) -> Result<Pending, Error> {
    let folder = call.within(params.workspace_id.as_deref())?;
    let named = params.session_id.as_deref().filter(|id| !id.is_empty());
    let wanted = match named.map(|id| agent::session_named(call, folder.as_deref(), id)).transpose() {
        // What another program recorded asks nothing here.
        Err(error) if error.code == Code::SessionNotFound => return Ok(Pending { count: 0, requests: Vec::new() }),
        wanted => wanted?,
    };
    let is_wanted = |open: &Open| wanted.as_ref().is_none_or(|wanted| wanted.id() == open.session.id());
    let mut requests = Vec::new();
    for Open { session, approval, asked } in open(call, folder.as_deref()).into_iter().filter(is_wanted) {
        let view = session.view();
        let id = agent::id_of(&view);
        let asked_at = call.state.engine.inbox().peek(&approval).map_or(0, |found| found.asked_at);
        requests.push(Request {
            tool_use_id: id_of(&approval, &asked),
            session_id: id,
            workspace_id: workspace_id(&view.workspace),
            description: description(&asked),
            is_question: asked.ask == Ask::Question,
            tool_name: tool_of(&asked).to_owned(),
            tool_input: input_of(&asked),
            created_at: crate::session::time(asked_at),
        });
    }
    Ok(Pending { count: requests.len(), requests })
}

#[cfg(test)]
mod tests {
    use ostler_story::{Can, Question};
    use serde_json::json;

    use super::*;

    fn asked(ask: Ask, tool: &str, input: Json) -> Asked {
        let question = Question {
            id: "q".into(),
            header: String::new(),
            question: "Which?".into(),
            options: Vec::new(),
            several: false,
        };
        Asked {
            request: "r".into(),
            ask,
            tool: tool.into(),
            title: format!("{tool}: x"),
            input,
            tool_call: None,
            reason: None,
            can: Can::default(),
            grants: Vec::new(),
            questions: if ask == Ask::Question { vec![question] } else { Vec::new() },
        }
    }

    #[test]
    fn a_permission_is_only_given_by_a_clear_yes() {
        let write = asked(Ask::Permission, "Write", json!({"file_path": "/a"}));
        assert_eq!(decision(&write, "approved", false).unwrap(), Decision::Once);
        assert_eq!(decision(&write, "Denied", false).unwrap(), Decision::no(""));
        assert_eq!(decision(&write, "approved", true).unwrap(), Decision::no("approved"), "an error is never a yes");
        assert_eq!(decision(&write, "not there", true).unwrap(), Decision::no("not there"));
        for odd in ["", "approvedx", "maybe", "1"] {
            assert!(decision(&write, odd, false).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_question_takes_any_text_and_answers_by_name() {
        let which = asked(Ask::Question, "AskUserQuestion", json!({}));
        let answered = |said: &str| decision(&which, said, false).unwrap();
        let one = |label: &str| Decision::Answers { answers: [("q".to_owned(), vec![label.to_owned()])].into() };
        assert_eq!(answered("postgres"), one("postgres"));
        assert_eq!(answered("no"), one("no"), "no is an answer too");
        assert_eq!(answered(r#"{"Which?": "postgres"}"#), one("postgres"));
        assert_eq!(answered(r#"{"other": "postgres"}"#), one(r#"{"other": "postgres"}"#));
        assert!(matches!(decision(&which, "skip it", true).unwrap(), Decision::Deny { .. }));
    }

    #[test]
    fn an_agent_names_no_request_but_its_own() {
        let mut one = asked(Ask::Permission, "Read", json!({}));
        assert_eq!(id_of("a1", &one), "apr_a1");
        one.tool_call = Some("toolu_1".into());
        assert_eq!(id_of("a1", &one), "toolu_1");
        assert!(is_called("a1", &one, "toolu_1") && is_called("a1", &one, "apr_a1") && is_called("a1", &one, "a1"));
        // A command that waits is called that, too.
        one.tool_call = Some("apr_a2".into());
        one.request = "apr_a2".into();
        assert_eq!(id_of("a1", &one), "apr_a1");
        assert!(!is_called("a1", &one, "apr_a2") && is_called("a1", &one, "apr_a1"));
    }

    #[test]
    fn requests_are_described_in_the_protocols_words() {
        let says = |tool: &str, input| description(&asked(Ask::Permission, tool, input));
        assert_eq!(says("Write", json!({"file_path": "/src/app.js"})), "Write to file: /src/app.js");
        assert_eq!(says("Bash", json!({"command": "ls"})), "Run command: ls");
        assert_eq!(says("Bash", json!({"command": "x".repeat(200)})), format!("Run command: {}...", "x".repeat(100)));
        assert_eq!(says("mcp__a__b", json!({})), "mcp__a__b: x");
    }
}
