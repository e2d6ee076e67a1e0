//! Agents that speak ACP: what they are told and what they say.

use ostler_story::{
    Agent, Autonomy, Block, Decision, Diff, Drive, EndReason, ErrorKind, Event, Location, Offer, Offers, PlanStatus,
    ToolCall, ToolKind,
};

use crate::support::{Live, setup};
use ostler_agents::{PromptError, open};
use serde_json::{Value as Json, json};

fn any() -> Agent {
    Agent::acp(vec!["some-agent".into(), "--flag".into()])
}

/// A conversation that is open, with an agent that offers the modes of gemini.
fn opened(agent: Agent, autonomy: Autonomy) -> Live {
    let mut live = Live::new(setup(agent, autonomy), Drive::Acp);
    let sent = live.opening();
    assert_eq!((&sent[0]["jsonrpc"], &sent[0]["method"]), (&json!("2.0"), &json!("initialize")));
    let sent = live.wants(json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": { "loadSession": true } } }));
    assert_eq!(sent[0]["method"], "session/new");
    assert_eq!(live.prompt("early"), Err(PromptError::NotNow));
    let (events, reply) = live.says(session("default").to_string());
    assert_eq!(events[0], Event::Started { agent_session: Some("s".into()), model: None });
    for request in reply {
        assert!(!live.adapter.can_prompt(), "not before its mode is set");
        live.wants(json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }));
    }
    assert!(live.adapter.can_prompt());
    live
}

fn session(mode: &str) -> Json {
    let modes: Vec<Json> =
        ["default", "autoEdit", "yolo", "plan"].iter().map(|id| json!({ "id": id, "name": id })).collect();
    json!({ "jsonrpc": "2.0", "id": 2, "result": { "sessionId": "s", "modes": { "currentModeId": mode, "availableModes": modes } } })
}

fn update(update: Json) -> Json {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
}

fn chunk(text: &str) -> Json {
    update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }))
}

fn ask(id: Json, kind: &str, path: &str) -> Json {
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": { "sessionId": "s",
        "toolCall": { "toolCallId": "t1", "title": "touch a", "kind": kind, "locations": [{ "path": path }], "status": "pending" },
        "options": [
            { "optionId": "forever", "name": "Always", "kind": "allow_always" },
            { "optionId": "go_on", "name": "Yes", "kind": "allow_once" },
            { "optionId": "stop", "name": "No", "kind": "reject_once" } ] } })
}

fn end(live: &mut Live, id: &Json, reason: &str) -> Vec<Event> {
    live.tells(json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": reason } }))
}

fn offers(events: &[Event]) -> &Offers {
    match events.last() {
        Some(Event::Offers(offers)) => offers,
        other => panic!("no offers: {other:?}"),
    }
}

#[test]
fn what_it_lists_is_told_and_told_again_when_it_changes() {
    let mut live = Live::new(setup(any(), Autonomy::Ask), Drive::Acp);
    live.opening();
    live.wants(json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1 } }));
    let value = |value: &str| json!({ "value": value, "name": value });
    let mut told = session("default");
    told["result"]["configOptions"] = json!([
        { "id": "llm", "category": "model", "type": "select", "currentValue": "m2", "name": "Model",
            "options": [{ "group": "g", "name": "G", "options": [value("m1"), value("m2")] }] },
        { "id": "effort", "category": "thought_level", "type": "select", "currentValue": "low", "name": "Effort",
            "options": [value("low")] } ]);
    let (events, _) = live.says(told.to_string());
    let names = |list: &Option<Vec<Offer>>| {
        let mark = |offer: &Offer| format!("{}{}", offer.name, if offer.chosen { "*" } else { "" });
        list.iter().flatten().map(mark).collect::<Vec<_>>()
    };
    assert_eq!(names(&offers(&events).modes), ["default*", "autoEdit", "yolo", "plan"]);
    assert_eq!(names(&offers(&events).models), ["m1", "m2*"]);
    assert_eq!(offers(&events).options.as_ref().unwrap()[0].name, "effort");
    assert_eq!(offers(&events).commands, None, "what was not told is not there");
    let commands = update(json!({ "sessionUpdate": "available_commands_update",
        "availableCommands": [{ "name": "init", "description": "make AGENTS.md" }] }));
    let init = Offer::named("init").about("make AGENTS.md");
    assert_eq!(offers(&live.tells(commands.clone())).commands, Some(vec![init]));
    assert!(live.tells(commands).is_empty());
    let changed = live.tells(update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": "plan" })));
    assert_eq!(names(&offers(&changed).modes), ["default", "autoEdit", "yolo", "plan*"]);
    let title = update(json!({ "sessionUpdate": "session_info_update", "title": "A roof\n" }));
    assert_eq!(live.tells(title), [Event::Title { title: "A roof".into() }]);
    live.rebuild_everywhere();
}

#[test]
fn chunks_become_pieces_and_the_whole() {
    let mut live = opened(any(), Autonomy::Ask);
    let sent = live.prompt("go").unwrap();
    assert_eq!(sent[0]["params"], json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "go" }] }));
    let thought =
        update(json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } }));
    live.tells(thought);
    assert_eq!(live.tells(chunk("a"))[0], Event::Thought { text: "hm".into() });
    live.tells(chunk("b"));
    let events = end(&mut live, &sent[0]["id"], "end_turn");
    assert_eq!(
        events,
        [Event::Text { text: "ab".into() }, Event::TurnEnded { reason: EndReason::Completed, message: None }]
    );
    let second = live.prompt("more").unwrap();
    assert_ne!(second[0]["id"], sent[0]["id"]);
    live.rebuild_everywhere();
}

#[test]
fn options_are_chosen_by_their_kind() {
    let mut live = opened(any(), Autonomy::Ask);
    live.prompt("go").unwrap();
    let deny = Decision::Deny { message: "no".into(), interrupt: false };
    for (id, answer, option) in
        [(json!(0), Decision::Once, "go_on"), (json!("x"), Decision::Always, "forever"), (json!(2), deny, "stop")]
    {
        let events = live.tells(ask(id.clone(), "execute", "/a"));
        let Some(Event::Asked(asked)) = events.last() else { panic!("{events:?}") };
        assert_eq!(asked.grants, ["Always"]);
        let sent = live.answer(&asked.request, &answer).unwrap();
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        assert_eq!(sent, [json!({ "jsonrpc": "2.0", "id": id, "result": outcome })]);
    }
    live.rebuild_everywhere();
}

#[test]
fn a_tool_that_was_never_told_of_is_made_from_its_request() {
    let mut live = opened(Agent::Gemini, Autonomy::Ask);
    live.prompt("go").unwrap();
    live.tells(chunk("let me"));
    let events = live.tells(ask(json!(0), "execute", "/a"));
    assert_eq!(events[0], Event::Text { text: "let me".into() });
    assert!(matches!(&events[1], Event::ToolCall(call) if call.id == "t1" && call.title == "touch a"));
    assert!(matches!(&events[2], Event::Asked(asked) if asked.tool_call.as_deref() == Some("t1")));
    let done = update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed",
        "content": [{ "type": "content", "content": { "type": "text", "text": "out" } }] }));
    let result = Event::tool_result("t1", "out", false);
    assert_eq!(live.tells(done.clone()), [result]);
    assert!(live.tells(done).is_empty(), "a result is told once");
    live.rebuild_everywhere();
}

#[test]
fn a_change_is_told_once_with_the_call_or_with_its_result() {
    let mut live = opened(Agent::Gemini, Autonomy::Ask);
    live.prompt("go").unwrap();
    let shown = json!([{ "type": "diff", "path": "/w/a", "oldText": "x", "newText": "y" }]);
    let diff = Diff { path: "/w/a".into(), old: Some("x".into()), new: Some("y".into()), line: None };
    let call = |id: &str, more: Json| {
        let mut call = json!({ "sessionUpdate": "tool_call", "toolCallId": id, "status": "in_progress", "kind": "edit",
            "title": "t", "rawInput": { "n": 1 }, "locations": [{ "path": "/w/a", "line": 3 }] });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update(call)
    };
    let done =
        |id: &str| call(id, json!({ "sessionUpdate": "tool_call_update", "status": "completed", "content": shown }));
    let events = live.tells(call("t1", json!({ "content": shown })));
    let [Event::ToolCall(told)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(told.diffs, std::slice::from_ref(&diff));
    assert_eq!(told.locations, [Location { path: "/w/a".into(), line: Some(3) }]);
    assert!(matches!(&live.tells(done("t1"))[..], [Event::ToolResult { diffs, .. }] if diffs.is_empty()));
    live.tells(call("t2", json!({})));
    assert!(matches!(&live.tells(done("t2"))[..], [Event::ToolResult { diffs, .. }] if *diffs == [diff.clone()]));
    live.rebuild_everywhere();
}

#[test]
fn a_stopped_turn_answers_what_it_asked_with_cancelled() {
    let mut live = opened(any(), Autonomy::Ask);
    assert!(live.interrupt().is_none());
    let id = live.prompt("go").unwrap()[0]["id"].clone();
    live.tells(ask(json!(4), "execute", "/a"));
    let sent = live.interrupt().unwrap();
    assert_eq!(sent[0]["method"], "session/cancel");
    assert_eq!(sent[1], json!({ "jsonrpc": "2.0", "id": 4, "result": { "outcome": { "outcome": "cancelled" } } }));
    assert!(live.answer("4", &Decision::Once).is_err(), "it has its answer");
    let events = end(&mut live, &id, "cancelled");
    assert_eq!(
        events,
        [Event::Unasked { request: "4".into() }, Event::TurnEnded { reason: EndReason::Interrupted, message: None }]
    );
    live.rebuild_everywhere();
}

#[test]
fn a_no_that_stops_the_turn_does_both() {
    let mut live = opened(any(), Autonomy::Ask);
    live.prompt("go").unwrap();
    live.tells(ask(json!(4), "execute", "/a"));
    let sent = live.answer("4", &Decision::Deny { message: String::new(), interrupt: true }).unwrap();
    assert_eq!(sent[0]["result"]["outcome"]["optionId"], "stop");
    assert_eq!(sent[1]["method"], "session/cancel");
    live.rebuild_everywhere();
}

#[test]
fn an_old_conversation_is_not_told_again() {
    let mut wanted = setup(any(), Autonomy::Ask);
    wanted.resume = Some("old".into());
    let mut live = Live::new(wanted, Drive::Acp);
    live.opening();
    let sent = live.wants(json!({ "id": 1, "result": { "agentCapabilities": { "loadSession": true } } }));
    assert_eq!((&sent[0]["method"], &sent[0]["params"]["sessionId"]), (&json!("session/load"), &json!("old")));
    assert!(live.tells(chunk("old words")).is_empty());
    let (events, mark) = live.says(
        json!({ "id": 2, "result": { "modes": { "currentModeId": "default", "availableModes": [] } } }).to_string(),
    );
    assert_eq!(events, [Event::Started { agent_session: Some("old".into()), model: None }]);
    assert!(live.tells(chunk("late old words")).is_empty(), "told after the answer, and old all the same");
    assert!(!live.adapter.can_prompt());
    live.wants(json!({ "id": mark[0]["id"], "error": { "code": -32601, "message": "Method not found" } }));
    let id = live.prompt("go").unwrap()[0]["id"].clone();
    assert_eq!(live.tells(chunk("new")), [Event::TextDelta { text: "new".into() }]);
    end(&mut live, &id, "end_turn");
    live.rebuild_everywhere();
}

#[test]
fn gemini_finds_a_conversation_of_this_minute_without_overwriting_it() {
    for plain_works in [true, false] {
        let mut wanted = setup(Agent::Gemini, Autonomy::Ask);
        wanted.resume = Some("old".into());
        let mut live = Live::new(wanted, Drive::Acp);
        live.opening();
        let sent = live.wants(json!({ "id": 1, "result": { "agentCapabilities": { "loadSession": true } } }));
        assert_eq!(sent[0]["params"]["sessionId"], " old", "a blank keeps the new file's name apart");
        // A version that does not trim is asked by the plain id.
        let again = live.wants(json!({ "id": 2, "error": { "code": -32603, "message": "no such session" } }));
        assert_eq!(again[0]["params"]["sessionId"], "old");
        if plain_works {
            let (events, mark) = live.says(json!({ "id": again[0]["id"], "result": {} }).to_string());
            assert_eq!(events, [Event::Started { agent_session: Some("old".into()), model: None }]);
            live.wants(json!({ "id": mark[0]["id"], "result": {} }));
            assert_eq!(live.prompt("go").unwrap()[0]["params"]["sessionId"], "old");
        } else {
            let events = live.tells(json!({ "id": again[0]["id"], "error": { "code": 1, "message": "gone" } }));
            assert!(matches!(events[0], Event::Error { kind: ErrorKind::Resume, fatal: true, .. }));
        }
        live.rebuild_everywhere();
    }
}

#[test]
fn what_gemini_asks_about_is_shown_with_every_line_of_it() {
    let mut live = opened(Agent::Gemini, Autonomy::Ask);
    live.prompt("go").unwrap();
    let title = format!("echo harmless {}\nrm -rf ~", "x".repeat(200));
    let call = json!({ "toolCallId": "t", "title": title, "kind": "execute", "content": [], "locations": [] });
    let options = json!([{ "kind": "allow_once", "optionId": "y", "name": "Allow" }]);
    let ask =
        json!({ "id": 7, "method": "session/request_permission", "params": { "toolCall": call, "options": options } });
    let events = live.tells(ask);
    let Some(Event::Asked(asked)) = events.last() else { panic!("{events:?}") };
    assert_eq!(asked.input["title"], json!(title));
    assert!(asked.title.chars().count() <= 121 && !asked.title.contains('\n'), "the title is one line");
}

#[test]
fn a_call_is_told_of_once_its_input_is_known() {
    let mut live = opened(any(), Autonomy::Ask);
    live.prompt("go").unwrap();
    let call = |kind: &str, more: Json| {
        let mut call = json!({ "sessionUpdate": kind, "toolCallId": "t" });
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update(call)
    };
    let announced = json!({ "status": "pending", "title": "bash", "kind": "execute", "rawInput": {} });
    assert!(live.tells(call("tool_call", announced)).is_empty());
    let running = json!({ "status": "in_progress", "rawInput": { "command": "ls" } });
    let events = live.tells(call("tool_call_update", running));
    let [Event::ToolCall(told)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&told.input, told.kind, told.title.as_str()), (&json!({ "command": "ls" }), ToolKind::Execute, "bash"));
    let events = live.tells(call("tool_call_update", json!({ "status": "completed" })));
    assert!(matches!(events.as_slice(), [Event::ToolResult { is_error: false, .. }]));
    live.rebuild_everywhere();
}

#[test]
fn an_agent_that_can_resume_is_not_made_to_tell_everything() {
    let mut wanted = setup(any(), Autonomy::Ask);
    wanted.resume = Some("old".into());
    let mut live = Live::new(wanted, Drive::Acp);
    live.opening();
    let can = json!({ "agentCapabilities": { "loadSession": true, "sessionCapabilities": { "resume": {} } } });
    assert_eq!(live.wants(json!({ "id": 1, "result": can }))[0]["method"], "session/resume");
    live.tells(json!({ "id": 2, "result": {} }));
    assert!(live.adapter.can_prompt());
    live.rebuild_everywhere();
}

#[test]
fn a_laxer_mode_is_changed_before_the_first_prompt() {
    let mut live = Live::new(setup(Agent::Gemini, Autonomy::Ask), Drive::Acp);
    live.opening();
    live.wants(json!({ "id": 1, "result": {} }));
    let (_, reply) = live.says(session("yolo").to_string());
    assert_eq!(reply[0]["params"], json!({ "sessionId": "s", "modeId": "default" }));
    assert!(!live.adapter.can_prompt());
    let events = live.tells(json!({ "id": reply[0]["id"], "error": { "code": -32603, "message": "no" } }));
    assert!(matches!(events[0], Event::Error { kind: ErrorKind::Setup, fatal: true, .. }));
    assert!(!live.adapter.can_prompt(), "an agent that does not ask gets no prompt");
    live.rebuild_everywhere();
}

#[test]
fn all_says_yes_once_and_edits_only_inside_the_workspace() {
    for (autonomy, kind, path, granted) in [
        (Autonomy::All, "execute", "/a", true),
        (Autonomy::Edits, "edit", "/work/space/a", true),
        (Autonomy::Edits, "edit", "/work/other/a", false),
        (Autonomy::Edits, "execute", "/work/space/a", false),
        (Autonomy::Plan, "edit", "/work/space/a", false),
    ] {
        let mut live = opened(any(), autonomy);
        live.prompt("go").unwrap();
        let (events, reply) = live.says(ask(json!(1), kind, path).to_string());
        assert_eq!(matches!(events.last(), Some(Event::Granted { .. })), granted, "{autonomy:?} {kind} {path}");
        if granted {
            assert_eq!(reply[0]["result"]["outcome"]["optionId"], "go_on", "never more than once");
        }
        live.rebuild_everywhere();
    }
}

#[test]
fn files_and_terminals_of_ours_are_refused_at_once() {
    let mut live = opened(Agent::Opencode, Autonomy::Plan);
    let line = json!({ "jsonrpc": "2.0", "id": 8, "method": "fs/write_text_file", "params": {} });
    let (events, reply) = live.says(line.to_string());
    assert_eq!(events, [Event::Unknown { kind: "fs/write_text_file".into() }]);
    assert_eq!(reply[0]["error"]["code"], -32601);
    live.rebuild_everywhere();
}

#[test]
fn a_word_that_is_off_costs_nothing_but_itself() {
    let mut live = opened(any(), Autonomy::Ask);
    live.prompt("go").unwrap();
    let odd = json!({ "sessionUpdate": "agent_message_chunk", "content": { "text": "hi" }, "messageId": 7 });
    assert_eq!(live.tells(update(odd)), [Event::TextDelta { text: "hi".into() }]);
    let plan = json!({ "sessionUpdate": "plan", "entries": [
        { "content": "a", "status": "completed", "priority": "high" }, { "content": "b", "status": "cancelled" } ] });
    let events = live.tells(update(plan));
    let Some(Event::Plan { entries }) = events.last() else { panic!("{events:?}") };
    let steps: Vec<_> = entries.iter().map(|entry| (entry.text.as_str(), entry.status)).collect();
    assert_eq!(steps, [("a", PlanStatus::Done), ("b", PlanStatus::Pending)]);
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "kind": "juggle", "status": "completed",
        "locations": "none", "content": [{ "type": "hologram" }, { "type": "content", "content": { "type": "text", "text": "out" } }] });
    let events = live.tells(update(call));
    let [Event::ToolCall(ToolCall { input, .. }), Event::ToolResult { output, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((&input["content"][0]["type"], output.as_str()), (&json!("hologram"), "out"), "shown as it came");
    let events = end(&mut live, &json!(16), "fell asleep");
    assert_eq!(events.last(), Some(&Event::TurnEnded { reason: EndReason::Completed, message: None }));
    live.rebuild_everywhere();
}

#[test]
fn an_update_that_nobody_understands_stays_a_raw_line() {
    let mut live = opened(any(), Autonomy::Ask);
    live.prompt("go").unwrap();
    for (told, kind) in [
        (json!({ "sessionUpdate": "telepathy" }), "session/update/telepathy"),
        (json!({ "sessionUpdate": "usage_update", "used": "much" }), "session/update/usage_update"),
        (json!("tired"), "session/update/"),
    ] {
        assert_eq!(live.tells(update(told)), [Event::Unknown { kind: kind.into() }]);
    }
    live.rebuild_everywhere();
}

#[test]
fn a_change_that_the_schema_would_leave_out_is_checked_all_the_same() {
    let mut live = opened(any(), Autonomy::Edits);
    live.prompt("go").unwrap();
    let mut ask = ask(json!(1), "edit", "/work/space/a");
    ask["params"]["toolCall"]["content"] = json!([{ "type": "diff", "path": "/etc/passwd" }]);
    let events = live.tells(ask);
    assert!(matches!(events.last(), Some(Event::Asked(_))), "{events:?}");
}

#[test]
fn a_file_whose_name_is_no_text_is_asked_about() {
    let mut live = opened(any(), Autonomy::Edits);
    live.prompt("go").unwrap();
    let mut ask = ask(json!(1), "edit", "/work/space/a");
    ask["params"]["toolCall"]["content"] = json!([{ "type": "diff", "path": ["/etc/passwd"] }]);
    let events = live.tells(ask);
    assert!(matches!(events.last(), Some(Event::Asked(_))), "{events:?}");
}

#[test]
fn nobody_logged_in_is_said_as_such() {
    let mut live = Live::new(setup(any(), Autonomy::Ask), Drive::Acp);
    live.opening();
    live.wants(json!({ "id": 1, "result": {} }));
    let events = live.tells(json!({ "id": 2, "error": { "code": -32000, "message": "Authentication required" } }));
    assert!(matches!(events[0], Event::Error { kind: ErrorKind::Login, fatal: true, .. }));
}

#[test]
fn a_model_error_ends_the_turn_with_its_details() {
    let mut live = opened(any(), Autonomy::Ask);
    let id = live.prompt("go").unwrap()[0]["id"].clone();
    let events = live.tells(
        json!({ "id": id, "error": { "code": -32603, "message": "Internal error", "data": { "details": "quota" } } }),
    );
    assert_eq!(events, [Event::TurnEnded { reason: EndReason::Failed, message: Some("Internal error: quota".into()) }]);
    live.rebuild_everywhere();
}

#[test]
fn pictures_go_only_to_agents_that_take_them() {
    let mut live = opened(any(), Autonomy::Ask);
    let picture = [Block::Image { mime: "image/png".into(), data: "AA==".into() }];
    assert!(matches!(live.adapter.prompt(&picture), Err(PromptError::Unsupported(_))));
}

#[test]
fn opencode_is_told_to_ask_where_the_project_can_not_override_it() {
    for (autonomy, edit) in
        [(Autonomy::All, "ask"), (Autonomy::Ask, "ask"), (Autonomy::Edits, "allow"), (Autonomy::Plan, "deny")]
    {
        let launch = open(&setup(Agent::Opencode, autonomy), Drive::Acp).unwrap().launch();
        let (name, config) = &launch.env[0];
        let config: Json = serde_json::from_str(config).unwrap();
        assert_eq!(name, "OPENCODE_CONFIG_CONTENT");
        assert_eq!((&config["permission"]["edit"], &config["permission"]["bash"]), (&json!(edit), &json!("ask")));
    }
}

#[test]
fn a_no_where_no_is_not_offered_cancels_and_is_remembered() {
    let mut live = opened(any(), Autonomy::Ask);
    live.prompt("go").unwrap();
    let mut ask = ask(json!(4), "execute", "/a");
    ask["params"]["options"] = json!([{ "optionId": "y", "kind": "allow_once" }]);
    live.tells(ask);
    let sent = live.answer("4", &Decision::Deny { message: String::new(), interrupt: false }).unwrap();
    assert_eq!(sent[0]["result"], json!({ "outcome": { "outcome": "cancelled" } }));
    assert!(live.answer("4", &Decision::Once).is_err());
    live.rebuild_everywhere();
}

/// A conversation whose agent runs `current`, although `wanted` was asked for; what it is then told.
fn opened_with_models(agent: Agent, wanted: &str, current: &str) -> (Live, Vec<Json>) {
    let mut setup = setup(agent, Autonomy::Ask);
    setup.model = Some(wanted.into());
    let mut live = Live::new(setup, Drive::Acp);
    live.opening();
    live.wants(json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": 1 } }));
    let value = |name: &str| json!({ "value": name, "name": name });
    let option = |id: &str, category: &str, current: &str| {
        json!({ "id": id, "name": id, "category": category,
        "type": "select", "currentValue": current, "options": [value(current), value("other")] })
    };
    let result =
        json!({ "sessionId": "s", "configOptions": [option("llm", "model", current), option("m", "mode", "build")] });
    let reply = live.says(json!({ "jsonrpc": "2.0", "id": 2, "result": result }).to_string()).1;
    (live, reply)
}

#[test]
fn a_model_that_the_agent_does_not_know_stops_it_before_the_first_prompt() {
    let (mut live, reply) = opened_with_models(Agent::Opencode, "fake/nope", "opencode/its-default");
    assert_eq!(reply[0]["params"], json!({ "sessionId": "s", "configId": "llm", "value": "fake/nope" }));
    assert!(!live.adapter.can_prompt());
    let error = json!({ "code": -32602, "message": "model not found: fake/nope" });
    let events = live.tells(json!({ "jsonrpc": "2.0", "id": reply[0]["id"], "error": error }));
    let [Event::Error { message, fatal: true, kind: ErrorKind::Setup }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(message.contains("fake/nope") && message.contains("opencode"), "{message}");
    assert_eq!(live.prompt("too soon"), Err(PromptError::NotNow));
    live.rebuild_everywhere();
}

#[test]
fn a_model_that_is_chosen_is_shown_when_the_agent_says_that_it_runs_it() {
    let (mut live, reply) = opened_with_models(any(), "other", "default-1");
    let events = live.tells(json!({ "jsonrpc": "2.0", "id": reply[0]["id"], "result": {} }));
    let said =
        |model: Option<&str>| [Event::Started { agent_session: Some("s".into()), model: model.map(str::to_owned) }];
    assert_eq!(events, said(None), "a bare yes names none");
    assert!(live.adapter.can_prompt());
    live.rebuild_everywhere();
    let (mut live, reply) = opened_with_models(any(), "other", "default-1");
    let runs = json!([{ "id": "llm", "name": "llm", "category": "model", "type": "select", "currentValue": "other", "options": [] }]);
    let events = live.tells(json!({ "jsonrpc": "2.0", "id": reply[0]["id"], "result": { "configOptions": runs } }));
    assert_eq!(events[..1], said(Some("other")));
    let (live, reply) = opened_with_models(Agent::Gemini, "m-1", "m-1");
    assert!(reply.is_empty() && live.adapter.can_prompt(), "it was started with it");
    let (mut live, reply) = opened_with_models(any(), "m-2", "m-1");
    let other = json!([{ "id": "llm", "name": "llm", "category": "model", "type": "select", "currentValue": "m-1", "options": [] }]);
    let events = live.tells(json!({ "jsonrpc": "2.0", "id": reply[0]["id"], "result": { "configOptions": other } }));
    assert!(matches!(events.as_slice(), [Event::Error { kind: ErrorKind::Setup, .. }]), "a yes that changes nothing");
}
