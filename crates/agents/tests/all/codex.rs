//! Codex's app server: what it is told and what it says.

use std::collections::BTreeMap;

use ostler_story::{Agent, Ask, Autonomy, Decision, Drive, EndReason, ErrorKind, Event, Limit, LimitState};

use crate::support::{Live, setup};
use ostler_agents::{PromptError, open};
use serde_json::{Value as Json, json};

/// A conversation that is open.
fn opened(autonomy: Autonomy) -> Live {
    let mut live = Live::new(setup(Agent::Codex, autonomy), Drive::AppServer);
    assert_eq!(live.opening()[0]["method"], "initialize");
    assert!(live.adapter.opening().is_empty(), "opened once");
    assert_eq!(live.prompt("early"), Err(PromptError::NotNow));
    let sent = live.wants(json!({ "id": 1, "result": { "userAgent": "x" } }));
    assert_eq!((&sent[0]["method"], &sent[1]["method"]), (&json!("initialized"), &json!("thread/start")));
    live.tells(json!({ "id": 2, "result": { "thread": { "id": "th" }, "model": "m" } }));
    live
}

fn note(method: &str, params: Json) -> Json {
    json!({ "method": method, "params": params, "emittedAtMs": 1 })
}

fn begin(live: &mut Live) {
    let sent = live.prompt("go").unwrap();
    assert_eq!(sent[0]["method"], "turn/start");
    let params = &sent[0]["params"];
    assert_eq!((&params["threadId"], &params["input"]), (&json!("th"), &json!([{ "type": "text", "text": "go" }])));
    live.tells(json!({ "id": sent[0]["id"], "result": { "turn": { "id": "tu" } } }));
    live.tells(note("turn/started", json!({ "threadId": "th", "turn": { "id": "tu" } })));
}

fn end(live: &mut Live, status: &str) -> Vec<Event> {
    live.tells(note("turn/completed", json!({ "threadId": "th", "turn": { "id": "tu", "status": status } })))
}

fn ask_command(id: u64) -> Json {
    json!({ "id": id, "method": "item/commandExecution/requestApproval", "params": { "threadId": "th", "turnId": "tu",
        "itemId": "i1", "command": "touch a", "cwd": "/work/space", "reason": "must" } })
}

#[test]
fn its_title_its_servers_and_its_limits_are_told_when_they_change() {
    let mut live = opened(Autonomy::Ask);
    let title = note("thread/name/updated", json!({ "threadId": "th", "threadName": "A roof" }));
    assert_eq!(live.tells(title), [Event::Title { title: "A roof".into() }]);
    let server =
        |name: &str, status: &str| note("mcpServer/startupStatus/updated", json!({ "name": name, "status": status }));
    live.tells(server("docs", "starting"));
    live.tells(server("db", "ready"));
    let events = live.tells(server("docs", "failed"));
    let [Event::Offers(offers)] = events.as_slice() else { panic!("{events:?}") };
    let told: Vec<_> =
        offers.mcp_servers.iter().flatten().map(|server| (server.name.as_str(), server.is_missing())).collect();
    assert_eq!(told, [("db", false), ("docs", true)]);
    let limits = |used: u64| {
        let window = json!({ "usedPercent": used, "windowDurationMins": 300, "resetsAt": 1_794_860_000 });
        note("account/rateLimits/updated", json!({ "rateLimits": { "primary": window, "secondary": null } }))
    };
    let limit = |used: f64, state| {
        let (name, used_percent, resets) = ("5 h".into(), Some(used), Some(1_794_860_000));
        Event::Limit(Limit { name, used_percent, resets, state })
    };
    assert_eq!(live.tells(limits(12)), [limit(12.0, LimitState::Far)]);
    assert!(live.tells(limits(12)).is_empty());
    assert_eq!(live.tells(limits(95)), [limit(95.0, LimitState::Near)]);
    assert_eq!(live.tells(limits(100)), [limit(100.0, LimitState::Reached)]);
    let none = json!({ "rateLimits": { "limitId": "codex", "primary": null, "secondary": null } });
    assert!(live.tells(note("account/rateLimits/updated", none)).is_empty(), "what is not told is not there");
    live.rebuild_everywhere();
}

#[test]
fn a_chat_comes_in_pieces_and_whole() {
    let mut live = opened(Autonomy::Ask);
    begin(&mut live);
    let events = live.tells(note("item/agentMessage/delta", json!({ "threadId": "th", "itemId": "i", "delta": "Hi" })));
    assert_eq!(events, [Event::TextDelta { text: "Hi".into() }]);
    let item = json!({ "threadId": "th", "item": { "type": "agentMessage", "id": "i", "text": "Hi" } });
    assert_eq!(live.tells(note("item/completed", item)), [Event::Text { text: "Hi".into() }]);
    assert!(!live.adapter.can_prompt());
    assert_eq!(end(&mut live, "completed"), [Event::TurnEnded { reason: EndReason::Completed, message: None }]);
    begin(&mut live);
    end(&mut live, "completed");
    live.rebuild_everywhere();
}

#[test]
fn decisions_go_back_under_the_id_that_asked() {
    let mut live = opened(Autonomy::Ask);
    begin(&mut live);
    let deny = |interrupt| Decision::Deny { message: "no".into(), interrupt };
    for (id, answer, word) in [
        (10, Decision::Once, "accept"),
        (11, Decision::Session, "acceptForSession"),
        (12, deny(false), "decline"),
        (13, deny(true), "cancel"),
    ] {
        let events = live.tells(ask_command(id));
        let [Event::Asked(asked)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((asked.title.as_str(), asked.reason.as_deref()), ("touch a", Some("must")));
        assert!(live.answer(&asked.request, &Decision::Changed { input: json!({}) }).is_err());
        let sent = live.answer(&asked.request, &answer).unwrap();
        assert_eq!(sent, [json!({ "id": id, "result": { "decision": word } })]);
    }
    live.rebuild_everywhere();
}

#[test]
fn a_change_of_files_is_shown_with_what_it_changes() {
    let mut live = opened(Autonomy::Ask);
    begin(&mut live);
    let changes = json!([{ "path": "/work/space/a", "kind": { "type": "add" }, "diff": "+x" }]);
    let item = json!({ "threadId": "th", "item": { "type": "fileChange", "id": "i1", "changes": changes, "status": "inProgress" } });
    live.tells(note("item/started", item));
    let ask = json!({ "id": "s-1", "method": "item/fileChange/requestApproval", "params": { "threadId": "th", "itemId": "i1" } });
    let events = live.tells(ask);
    let [Event::Asked(asked)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&asked.input["changes"], asked.request.as_str()), (&changes, "\"s-1\""));
    assert_eq!(live.answer("\"s-1\"", &Decision::Once).unwrap()[0]["id"], "s-1");
    live.rebuild_everywhere();
}

#[test]
fn edits_grants_changes_inside_the_workspace_and_nothing_else() {
    for (path, root, granted) in [
        ("/work/space/a", Json::Null, true),
        ("/work/space/../etc/a", Json::Null, false),
        ("/etc/passwd", Json::Null, false),
        ("/work/space/a", json!("/"), false),
    ] {
        let mut live = opened(Autonomy::Edits);
        begin(&mut live);
        let item = json!({ "item": { "type": "fileChange", "id": "i1", "changes": [{ "path": path }] } });
        live.tells(note("item/started", item));
        let ask = json!({ "id": 5, "method": "item/fileChange/requestApproval", "params": { "itemId": "i1", "grantRoot": root } });
        let (events, reply) = live.says(ask.to_string());
        assert_eq!(matches!(events[0], Event::Granted { .. }), granted, "{path}");
        assert_eq!(!reply.is_empty(), granted);
        assert!(matches!(live.tells(ask_command(6))[0], Event::Asked(_)), "a command is asked for");
        live.rebuild_everywhere();
    }
}

#[test]
fn all_answers_by_policy() {
    let mut live = opened(Autonomy::All);
    begin(&mut live);
    let (events, reply) = live.says(ask_command(9).to_string());
    assert!(matches!(events.as_slice(), [Event::Granted { .. }]));
    assert_eq!(reply, [json!({ "id": 9, "result": { "decision": "accept" } })]);
    live.rebuild_everywhere();
}

#[test]
fn an_interrupt_takes_back_what_was_asked() {
    let mut live = opened(Autonomy::Ask);
    assert!(live.interrupt().is_none(), "nothing runs");
    begin(&mut live);
    live.tells(ask_command(7));
    let sent = live.interrupt().unwrap();
    assert_eq!(sent[0]["params"], json!({ "threadId": "th", "turnId": "tu" }));
    let events = end(&mut live, "interrupted");
    assert_eq!(events[0], Event::Unasked { request: "7".into() });
    assert_eq!(events[1], Event::TurnEnded { reason: EndReason::Interrupted, message: None });
    assert!(live.tells(note("serverRequest/resolved", json!({ "threadId": "th", "requestId": 7 }))).is_empty());
    assert!(live.answer("7", &Decision::Once).is_err());
    live.rebuild_everywhere();
}

#[test]
fn a_turn_can_be_steered() {
    let mut live = opened(Autonomy::Ask);
    assert!(live.steer("no turn").is_none());
    begin(&mut live);
    let sent = live.steer("left").unwrap();
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["expectedTurnId"]), (&json!("turn/steer"), &json!("tu")));
    live.rebuild_everywhere();
}

#[test]
fn questions_are_answered_by_their_ids() {
    let mut live = opened(Autonomy::All);
    begin(&mut live);
    let ask = json!({ "id": 3, "method": "item/tool/requestUserInput", "params": { "itemId": "i", "questions": [
        { "id": "q1", "header": "H", "question": "Which?", "options": [{ "label": "a", "description": "" }] }] } });
    let events = live.tells(ask);
    let [Event::Asked(asked)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((asked.ask, asked.questions[0].id.as_str()), (Ask::Question, "q1"));
    let answers = BTreeMap::from([("q1".to_owned(), vec!["a".to_owned()])]);
    let sent = live.answer("3", &Decision::Answers { answers }).unwrap();
    assert_eq!(sent[0]["result"], json!({ "answers": { "q1": { "answers": ["a"] } } }));
    live.rebuild_everywhere();
}

#[test]
fn another_thread_does_not_end_our_turn() {
    let mut live = opened(Autonomy::Ask);
    begin(&mut live);
    let other = json!({ "threadId": "other", "turn": { "id": "x", "status": "completed" } });
    assert!(live.tells(note("turn/completed", other)).is_empty());
    assert!(!live.adapter.can_prompt());
}

#[test]
fn a_turn_that_never_began_has_failed() {
    let mut live = opened(Autonomy::Ask);
    let id = live.prompt("go").unwrap()[0]["id"].clone();
    let events = live.tells(json!({ "id": id, "error": { "code": -1, "message": "no" } }));
    assert_eq!(events, [Event::TurnEnded { reason: EndReason::Failed, message: Some("no".into()) }]);
    assert!(live.adapter.can_prompt());
    live.rebuild_everywhere();
}

#[test]
fn a_thread_is_resumed_by_its_id_and_missed_aloud() {
    let mut wanted = setup(Agent::Codex, Autonomy::Plan);
    wanted.resume = Some("old".into());
    let mut live = Live::new(wanted, Drive::AppServer);
    live.opening();
    let sent = live.wants(json!({ "id": 1, "result": {} }));
    assert_eq!(sent[1]["method"], "thread/resume");
    assert_eq!((&sent[1]["params"]["threadId"], &sent[1]["params"]["excludeTurns"]), (&json!("old"), &json!(true)));
    assert_eq!(
        (&sent[1]["params"]["sandbox"], &sent[1]["params"]["approvalPolicy"]),
        (&json!("read-only"), &json!("never"))
    );
    let events = live.tells(json!({ "id": 2, "error": { "code": -32600, "message": "no rollout" } }));
    assert!(matches!(events[0], Event::Error { kind: ErrorKind::Resume, fatal: true, .. }));
    assert!(!live.adapter.can_prompt());
    live.rebuild_everywhere();
}

#[test]
fn a_thread_that_runs_another_model_than_was_asked_for_stops_before_the_first_prompt() {
    let opened = |told: Json| {
        let mut wanted = setup(Agent::Codex, Autonomy::Ask);
        wanted.model = Some("gpt-5-codex".into());
        let mut live = Live::new(wanted, Drive::AppServer);
        live.opening();
        live.wants(json!({ "id": 1, "result": {} }));
        let mut result = json!({ "thread": { "id": "th" } });
        result["model"] = told;
        let events = live.tells(json!({ "id": 2, "result": result }));
        live.rebuild_everywhere();
        events
    };
    let started =
        |model: Option<&str>| Event::Started { agent_session: Some("th".into()), model: model.map(str::to_owned) };
    let other = opened(json!("gpt-5-mini"));
    let [Event::Started { .. }, Event::Error { message, fatal: true, kind: ErrorKind::Setup }] = other.as_slice()
    else {
        panic!("{other:?}")
    };
    assert_eq!(other[0], started(Some("gpt-5-mini")), "what it says it runs is what is shown");
    assert!(message.contains("gpt-5-codex") && message.contains("gpt-5-mini"), "{message}");
    assert_eq!(opened(json!("gpt-5-codex")), [started(Some("gpt-5-codex"))]);
    assert_eq!(opened(Json::Null), [started(None)], "who says nothing runs nobody knows what");
}

#[test]
fn a_thread_opens_read_only_and_each_turn_says_what_it_may_write() {
    let may = [
        (Autonomy::Ask, "untrusted", "workspaceWrite"),
        (Autonomy::Edits, "untrusted", "workspaceWrite"),
        (Autonomy::Plan, "never", "readOnly"),
        (Autonomy::All, "on-request", "dangerFullAccess"),
    ];
    for (autonomy, approval, sandbox) in may {
        let mut live = Live::new(setup(Agent::Codex, autonomy), Drive::AppServer);
        live.opening();
        let thread = live.wants(json!({ "id": 1, "result": {} })).remove(1)["params"].clone();
        assert_eq!((&thread["sandbox"], &thread["approvalPolicy"]), (&json!("read-only"), &json!(approval)));
        assert_eq!(thread["approvalsReviewer"], "user", "people are asked, whatever its own configuration says");
        live.tells(json!({ "id": 2, "result": { "thread": { "id": "th" } } }));
        assert_eq!(live.prompt("go").unwrap()[0]["params"]["sandboxPolicy"], json!({ "type": sandbox }));
    }
}

#[test]
fn an_attempt_that_is_repeated_is_only_a_notice() {
    let mut live = opened(Autonomy::Ask);
    begin(&mut live);
    let error = |retry| json!({ "threadId": "th", "error": { "message": "Reconnecting" }, "willRetry": retry });
    assert!(matches!(live.tells(note("error", error(true)))[0], Event::Notice { .. }));
    assert!(matches!(live.tells(note("error", error(false)))[0], Event::Error { fatal: false, .. }));
}

#[test]
fn a_raw_mode_names_both_of_codexs_settings() {
    let mut wanted = setup(Agent::Codex, Autonomy::Ask);
    wanted.raw_mode = Some("on-request/workspace-write".into());
    assert!(open(&wanted, Drive::AppServer).is_ok());
    wanted.raw_mode = Some("on-request/no-such-sandbox".into());
    assert!(open(&wanted, Drive::AppServer).is_err());
    wanted.raw_mode = Some("yolo".into());
    assert!(open(&wanted, Drive::AppServer).unwrap_err().to_string().contains("APPROVAL/SANDBOX"));
}
