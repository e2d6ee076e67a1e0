//! Claude, kept running: what it is told and what it says.

use std::collections::BTreeMap;

use ostler_story::{
    Agent, Ask, Autonomy, Decision, Drive, EndReason, ErrorKind, Event, Limit, LimitState, McpServer, Offer, Offers,
    ToolCall, ToolKind,
};

use crate::support::{Live, NEW_ID, setup};
use ostler_agents::{AnswerError, PromptError, open};
use serde_json::{Value as Json, json};

fn live(autonomy: Autonomy) -> Live {
    Live::new(setup(Agent::Claude, autonomy), Drive::Stream)
}

fn init() -> Json {
    json!({ "type": "system", "subtype": "init", "session_id": "c-1", "model": "m-1", "permissionMode": "default" })
}

fn done(reason: &str, is_error: bool) -> Json {
    json!({ "subtype": "success", "is_error": is_error, "terminal_reason": reason, "result": "words", "session_id": "c-1",
        "total_cost_usd": 0.5, "usage": { "input_tokens": 3, "output_tokens": 4 }, "type": "result" })
}

fn ask(id: &str, tool: &str, input: Json) -> Json {
    json!({ "type": "control_request", "request_id": id, "request": { "subtype": "can_use_tool", "tool_name": tool,
        "input": input, "tool_use_id": format!("t-{id}"), "permission_suggestions": [
            { "type": "addRules", "behavior": "allow", "destination": "localSettings",
              "rules": [{ "toolName": "Bash", "ruleContent": "touch:*" }] },
            { "type": "setMode", "mode": "acceptEdits", "destination": "session" } ] } })
}

/// The permission part of an answer that was sent.
fn response(lines: &[Json]) -> &Json {
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["type"], "control_response");
    &lines[0]["response"]["response"]
}

fn ended(events: &[Event]) -> EndReason {
    match events.last() {
        Some(Event::TurnEnded { reason, .. }) => *reason,
        other => panic!("not the end of a turn: {other:?}"),
    }
}

#[test]
fn what_its_own_line_says_of_tools_and_of_itself_is_an_event() {
    let mut live = live(Autonomy::Ask);
    live.prompt("hi").unwrap();
    live.tells(init());
    let block =
        json!({ "type": "content_block_start", "content_block": { "type": "tool_use", "id": "t", "name": "Glob" } });
    let pending = Event::ToolPending { id: "t".into(), name: "Glob".into() };
    assert_eq!(live.tells(json!({ "type": "stream_event", "event": block })), [pending]);
    let progress = json!({ "type": "tool_progress", "tool_use_id": "t", "tool_name": "Bash", "status": "Running" });
    let update = Event::ToolUpdate { id: "t".into(), output_delta: "Running".into(), name: Some("Bash".into()) };
    assert_eq!(live.tells(progress), [update]);
    for (subtype, known) in [("status", true), ("thinking_tokens", true), ("new", false)] {
        let kind = if known { subtype.to_owned() } else { format!("system/{subtype}") };
        let event = if known { Event::Status { kind } } else { Event::Unknown { kind } };
        assert_eq!(live.tells(json!({ "type": "system", "subtype": subtype })), [event]);
    }
}

#[test]
fn what_it_offers_holds_and_may_still_use_is_told() {
    let mut live = live(Autonomy::Ask);
    live.prompt("hi").unwrap();
    let mut line = init();
    line["slash_commands"] = json!(["review"]);
    line["tools"] = json!(["Bash", "Read"]);
    line["agents"] = json!(["Explore"]);
    line["mcp_servers"] = json!([{ "name": "docs", "status": "failed" }]);
    let events = live.tells(line.clone());
    let named = |names: &[&str]| Some(names.iter().map(|name| Offer::named(*name)).collect::<Vec<_>>());
    let told = Offers {
        commands: named(&["review"]),
        tools: named(&["Bash", "Read"]),
        sub_agents: named(&["Explore"]),
        mcp_servers: Some(vec![McpServer { name: "docs".into(), status: "failed".into() }]),
        ..Offers::default()
    };
    assert_eq!(events[1..], [Event::Offers(told)]);
    assert_eq!(live.tells(line).len(), 1, "what was told is not told again");
    let limit = json!({ "type": "rate_limit_event", "rate_limit_info":
        { "status": "allowed_warning", "rateLimitType": "five_hour", "utilization": 0.925, "resetsAt": 1_794_860_000 } });
    let (name, used_percent, resets) = ("five_hour".into(), Some(93.0), Some(1_794_860_000));
    assert_eq!(live.tells(limit), [Event::Limit(Limit { name, used_percent, resets, state: LimitState::Near })]);
    let usage = json!({ "input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 5, "output_tokens": 7 });
    live.tells(json!({ "type": "assistant", "message": { "content": [], "usage": usage } }));
    live.tells(json!({ "type": "assistant", "parent_tool_use_id": "t", "message": { "content": [], "usage": { "input_tokens": 1 } } }));
    let mut result = done("completed", false);
    result["modelUsage"] = json!({ "small": { "contextWindow": 50 }, "large": { "contextWindow": 200 } });
    let events = live.tells(result);
    let Some(Event::Usage(usage)) = events.first() else { panic!("{events:?}") };
    assert_eq!((usage.context_used, usage.context_size), (Some(42), Some(200)));
    live.rebuild_everywhere();
}

#[test]
fn a_chat_comes_in_pieces_and_whole() {
    let mut live = live(Autonomy::Ask);
    assert!(live.opening().is_empty());
    let sent = live.prompt("--help me").unwrap();
    assert_eq!(sent[0]["message"]["content"][0]["text"], "--help me");
    assert_eq!(live.prompt("too early"), Err(PromptError::NotNow));
    assert_eq!(live.tells(init()), [Event::Started { agent_session: Some("c-1".into()), model: Some("m-1".into()) }]);
    for piece in ["Hel", "lo"] {
        let line = json!({ "type": "stream_event", "parent_tool_use_id": null, "event":
            { "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": piece } } });
        assert_eq!(live.tells(line), [Event::TextDelta { text: piece.into() }]);
    }
    let line = json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "Hello" }] } });
    assert_eq!(live.tells(line), [Event::Text { text: "Hello".into() }]);
    assert_eq!(ended(&live.tells(done("completed", false))), EndReason::Completed);
    assert!(live.adapter.can_prompt());
    live.rebuild_everywhere();
}

#[test]
fn a_tool_runs_only_when_allowed_and_with_the_input_that_was_shown() {
    let mut live = live(Autonomy::Ask);
    live.prompt("go").unwrap();
    live.tells(init());
    let events = live.tells(ask("r1", "Bash", json!({ "command": "touch a" })));
    let [Event::Asked(asked)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((asked.request.as_str(), asked.ask, asked.tool.as_str()), ("r1", Ask::Permission, "Bash"));
    assert_eq!(asked.title, "Bash: touch a");
    assert_eq!(asked.grants, ["Bash(touch:*)"]);
    let sent = live.answer("r1", &Decision::Once).unwrap();
    assert_eq!(response(&sent), &json!({ "behavior": "allow", "updatedInput": { "command": "touch a" } }));
    assert_eq!(live.answer("r1", &Decision::Once), Err(AnswerError::NoSuchRequest("r1".into())));
    let line = json!({ "type": "user", "message": { "content": [
        { "type": "tool_result", "tool_use_id": "t-r1", "content": [{ "type": "text", "text": "ok" }], "is_error": false }] } });
    assert_eq!(live.tells(line), [Event::tool_result("t-r1", "ok", false)]);
    live.rebuild_everywhere();
}

#[test]
fn every_decision_has_its_words() {
    let mut live = live(Autonomy::Ask);
    live.prompt("go").unwrap();
    let mut decide = |id: &str, answer: Decision| {
        live.tells(ask(id, "Bash", json!({ "command": "touch a" })));
        response(&live.answer(id, &answer).unwrap()).clone()
    };
    assert_eq!(decide("1", Decision::Changed { input: json!({ "command": "b" }) })["updatedInput"]["command"], "b");
    let denied = decide("2", Decision::Deny { message: "no".into(), interrupt: true });
    assert_eq!(denied, json!({ "behavior": "deny", "message": "no", "interrupt": true }));
    let silent = decide("3", Decision::Deny { message: String::new(), interrupt: false });
    assert_ne!(silent["message"], "", "the CLI wants words");
    let session = decide("4", Decision::Session);
    assert_eq!(session["updatedPermissions"].as_array().unwrap().len(), 1, "a change of mode is never granted");
    assert_eq!(session["updatedPermissions"][0]["destination"], "session");
    assert_eq!(decide("5", Decision::Always)["updatedPermissions"][0]["destination"], "localSettings");
    live.rebuild_everywhere();
}

#[test]
fn a_question_goes_to_people_whatever_the_autonomy() {
    for autonomy in [Autonomy::All, Autonomy::Ask] {
        let mut live = live(autonomy);
        live.prompt("go").unwrap();
        let input = json!({ "questions": [{ "question": "Which?", "header": "H", "multiSelect": true,
            "options": [{ "label": "red", "description": "warm" }, { "label": "blue", "description": "" }] }] });
        let events = live.tells(ask("q", "AskUserQuestion", input));
        let [Event::Asked(asked)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((asked.ask, asked.title.as_str()), (Ask::Question, "Which?"));
        assert!(asked.questions[0].several && asked.questions[0].options[1].label == "blue");
        let answers = BTreeMap::from([("Which?".to_owned(), vec!["red".to_owned(), "blue".to_owned()])]);
        let sent = live.answer("q", &Decision::Answers { answers }).unwrap();
        assert_eq!(response(&sent)["updatedInput"]["answers"], json!({ "Which?": "red, blue" }));
        assert!(response(&sent)["updatedInput"]["questions"].is_array());
        live.rebuild_everywhere();
    }
}

#[test]
fn all_answers_by_policy_and_says_so() {
    let mut live = live(Autonomy::All);
    live.prompt("go").unwrap();
    let (events, reply) = live.says(ask("r1", "Bash", json!({ "command": "x" })).to_string());
    assert!(matches!(events.as_slice(), [Event::Granted { tool, .. }] if tool == "Bash"));
    assert_eq!(response(&reply)["behavior"], "allow");
    let args = live.adapter.launch().args;
    assert!(!args.iter().any(|arg| arg.contains("dangerously") || arg.contains("bypass")), "{args:?}");
    live.rebuild_everywhere();
}

#[test]
fn an_interrupt_withdraws_what_was_asked_and_the_next_turn_is_fine() {
    let mut live = live(Autonomy::Ask);
    assert!(live.interrupt().is_none(), "nothing runs");
    live.prompt("go").unwrap();
    live.tells(init());
    live.tells(ask("r1", "Bash", json!({ "command": "x" })));
    let sent = live.interrupt().unwrap();
    assert_eq!(sent[0]["request"]["subtype"], "interrupt");
    assert!(
        live.tells(
            json!({ "type": "control_response", "response": { "subtype": "success", "request_id": "ostler-1" } })
        )
        .is_empty()
    );
    let events = live.tells(json!({ "type": "control_cancel_request", "request_id": "r1" }));
    assert_eq!(events, [Event::Unasked { request: "r1".into() }]);
    assert!(live.answer("r1", &Decision::Once).is_err());
    assert_eq!(ended(&live.tells(done("aborted_tools", true))), EndReason::Interrupted);
    live.prompt("again").unwrap();
    live.tells(init());
    assert_eq!(ended(&live.tells(done("completed", false))), EndReason::Completed);
    live.rebuild_everywhere();
}

#[test]
fn a_model_error_is_a_failure_although_it_is_called_success() {
    let mut live = live(Autonomy::Ask);
    live.prompt("go").unwrap();
    live.tells(init());
    let events = live.tells(done("api_error", true));
    assert_eq!(events.last(), Some(&Event::TurnEnded { reason: EndReason::Failed, message: Some("words".into()) }));
}

#[test]
fn a_laxer_mode_than_asked_for_is_fatal() {
    let mut live = live(Autonomy::Ask);
    live.prompt("go").unwrap();
    let mut line = init();
    line["permissionMode"] = json!("bypassPermissions");
    let events = live.tells(line);
    let [_, Event::Error { fatal: true, kind: ErrorKind::Setup, .. }, end] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(ended(std::slice::from_ref(end)), EndReason::Failed);
    let events = live.tells(done("completed", false));
    assert!(!events.iter().any(|event| matches!(event, Event::TurnEnded { .. })), "it has ended: {events:?}");
    live.rebuild_everywhere();
}

#[test]
fn a_conversation_that_is_gone_says_that_a_fresh_one_would_work() {
    let mut wanted = setup(Agent::Claude, Autonomy::Ask);
    wanted.resume = Some("gone".into());
    let mut live = Live::new(wanted, Drive::Stream);
    assert!(live.adapter.launch().args.ends_with(&["--resume".into(), "gone".into()]));
    live.prompt("go").unwrap();
    let events = live.tells(json!({ "type": "result", "subtype": "error_during_execution", "is_error": true,
        "errors": ["No conversation found"] }));
    assert!(events.iter().any(|event| matches!(event, Event::Error { kind: ErrorKind::Resume, fatal: true, .. })));
    live.rebuild_everywhere();
}

#[test]
fn the_end_of_the_output_in_a_turn_is_an_interruption() {
    let mut live = live(Autonomy::Ask);
    assert!(live.adapter.ended().is_empty());
    live.prompt("go").unwrap();
    live.tells(ask("r1", "Bash", json!({})));
    let events = live.adapter.ended();
    assert_eq!(events[0], Event::Unasked { request: "r1".into() });
    assert_eq!(ended(&events), EndReason::Interrupted);
    assert!(live.adapter.ended().is_empty(), "said once");
}

#[test]
fn what_a_sub_agent_does_belongs_to_its_call() {
    let mut live = live(Autonomy::Ask);
    live.prompt("go").unwrap();
    let line = json!({ "type": "assistant", "parent_tool_use_id": "t-9", "message": { "content": [
        { "type": "text", "text": "inner" },
        { "type": "tool_use", "id": "t-10", "name": "Read", "input": { "file_path": "/a" } }] } });
    let events = live.tells(line);
    let [Event::ToolCall(ToolCall { kind: ToolKind::Read, parent: Some(parent), title, .. })] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((parent.as_str(), title.as_str()), ("t-9", "Read: /a"));
}

#[test]
fn a_request_that_we_do_not_know_is_refused_at_once() {
    let mut live = live(Autonomy::Ask);
    let line = json!({ "type": "control_request", "request_id": "x", "request": { "subtype": "fly" } });
    let (events, reply) = live.says(line.to_string());
    assert_eq!(events, [Event::Unknown { kind: "control_request/fly".into() }]);
    assert_eq!(reply[0]["response"]["subtype"], "error");
    live.rebuild_everywhere();
}

#[test]
fn the_command_line_names_mode_model_and_conversation() {
    let mut wanted = setup(Agent::Claude, Autonomy::Edits);
    wanted.model = Some("m".into());
    let line = open(&wanted, Drive::Stream).unwrap().launch().args.join(" ");
    assert!(line.ends_with(&format!("--permission-mode acceptEdits --model m --session-id {NEW_ID}")), "{line}");
    for odd in ["", "-x", "--settings", "a b", "a\n"] {
        wanted.model = Some(odd.into());
        assert!(open(&wanted, Drive::Stream).is_err(), "{odd:?}");
    }
}

#[test]
fn an_attempt_that_is_repeated_is_a_notice_with_its_cause() {
    let mut live = live(Autonomy::Ask);
    live.prompt("go").unwrap();
    for (status, words) in [(json!(529), "the model said 529: attempt 2 of 10"), (Json::Null, "broke: attempt 2 of 10")]
    {
        let line = json!({ "type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "error_status": status });
        let events = live.tells(line);
        assert!(matches!(events.as_slice(), [Event::Notice { text }] if text.ends_with(words)), "{events:?}");
    }
}

#[test]
fn claude_is_asked_which_model_it_runs_before_it_is_prompted() {
    let asked_for = |model: &str| {
        let mut setup = setup(Agent::Claude, Autonomy::Ask);
        setup.model = Some(model.into());
        let mut live = Live::new(setup, Drive::Stream);
        let sent = live.opening();
        assert_eq!(sent[0]["request"]["subtype"], "get_settings");
        assert_eq!(live.prompt("too soon"), Err(PromptError::NotNow));
        (live, sent[0]["request_id"].clone())
    };
    let says = |id: &Json, model: &str| {
        json!({ "type": "control_response", "response": { "subtype": "success", "request_id": id,
            "response": { "applied": { "model": model } } } })
    };
    let (mut live, id) = asked_for("claude-opus-4-1");
    let events = live.tells(says(&id, "claude-opus-5-5"));
    let [Event::Error { message, fatal: true, kind: ErrorKind::Setup }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(message.contains("claude-opus-4-1") && message.contains("claude-opus-5-5"), "{message}");
    live.rebuild_everywhere();
    let (mut live, id) = asked_for("sonnet");
    assert!(live.tells(says(&id, "claude-sonnet-5-5")).is_empty());
    live.prompt("now").unwrap();
    live.rebuild_everywhere();
    let (mut live, id) = asked_for("m-2");
    let unsupported = json!({ "subtype": "error", "request_id": id, "error": "unsupported request" });
    assert!(live.tells(json!({ "type": "control_response", "response": unsupported })).is_empty());
    live.prompt("an older version says it with its first turn").unwrap();
    assert_eq!(ended(&live.tells(init())), EndReason::Failed);
    live.rebuild_everywhere();
}

#[test]
fn what_a_turn_cost_is_told_beside_the_total() {
    let cost = |live: &mut Live, line: Json| {
        live.prompt("go").unwrap();
        live.tells(init());
        let events = live.tells(line);
        events.iter().find_map(|event| match event {
            Event::Usage(usage) => usage.turn_cost_usd,
            _ => None,
        })
    };
    let result = |total: f64| {
        let mut line = done("completed", false);
        line["total_cost_usd"] = json!(total);
        line
    };
    let mut old = live(Autonomy::Ask);
    assert_eq!((cost(&mut old, result(0.5)), cost(&mut old, result(0.75))), (Some(0.5), Some(0.25)));
    // A process that goes on with a conversation goes on with its total.
    let mut line = result(2.5);
    line["model_usage_since_last_result"] = json!({ "m-1": { "costUSD": 0.25 }, "m-2": { "costUSD": 0.5 } });
    assert_eq!(cost(&mut live(Autonomy::Ask), line.clone()), Some(0.75));
    line["model_usage_since_last_result"] = json!({});
    assert_eq!(cost(&mut live(Autonomy::Ask), line).map(f64::is_sign_positive), Some(true));
}
