//! Whatever an agent says, nothing panics; and whatever happened, it can be rebuilt at every point.

use ostler_story::{Agent, Autonomy, Decision, Drive, Event};

use crate::support::{Live, setup};
use ostler_agents::{MAX_LINE, open};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Every way to drive an agent.
fn ways() -> Vec<(Agent, Drive)> {
    let acp = Agent::acp(vec!["x".into()]);
    let mut ways = vec![
        (Agent::Claude, Drive::Stream),
        (Agent::Codex, Drive::AppServer),
        (Agent::Gemini, Drive::Acp),
        (Agent::Opencode, Drive::Acp),
        (acp, Drive::Acp),
        (Agent::Echo, Drive::Echo),
    ];
    ways.extend([Agent::Claude, Agent::Codex, Agent::Gemini, Agent::Opencode].map(|agent| (agent, Drive::Oneshot)));
    ways
}

fn autonomies() -> impl Strategy<Value = Autonomy> {
    prop_oneof![Just(Autonomy::All), Just(Autonomy::Edits), Just(Autonomy::Plan), Just(Autonomy::Ask)]
}

/// What may happen next.
#[derive(Debug, Clone)]
enum Act {
    /// The agent says the n-th of the lines that it knows.
    Says(usize),
    Prompt,
    /// The n-th request of those that were made is answered.
    Answer(usize, usize),
    Interrupt,
    Steer,
    Junk(Vec<u8>),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => any::<usize>().prop_map(Act::Says),
        2 => Just(Act::Prompt),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(n, m)| Act::Answer(n, m)),
        1 => Just(Act::Interrupt),
        1 => Just(Act::Steer),
        1 => prop::collection::vec(any::<u8>().prop_filter("a line has no end inside", |b| *b != b'\n'), 0..40).prop_map(Act::Junk),
    ];
    prop::collection::vec(act, 0..40)
}

/// What the agents say, in each of their tongues. `n` makes the ids of requests new each time, as agents do.
fn phrase(drive: Drive, choice: usize, n: usize) -> Json {
    let mut phrases = match drive {
        Drive::Stream => vec![
            json!({ "type": "system", "subtype": "init", "session_id": "c", "permissionMode": "default" }),
            json!({ "type": "control_request", "request_id": format!("r{n}"), "request": { "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "x" } } }),
            json!({ "type": "control_request", "request_id": format!("r{n}"), "request": { "subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": { "questions": [{ "question": "?" }] } } }),
            json!({ "type": "control_request", "request_id": format!("u{n}"), "request": { "subtype": "other" } }),
            json!({ "type": "control_cancel_request", "request_id": format!("r{}", n.saturating_sub(2)) }),
            json!({ "type": "result", "is_error": false, "terminal_reason": "completed" }),
            json!({ "type": "assistant", "message": { "content": [{ "type": "tool_use", "id": "t", "name": "TodoWrite", "input": { "todos": [{}] } }] } }),
        ],
        Drive::AppServer => vec![
            json!({ "id": 1, "result": {} }),
            json!({ "id": 2, "result": { "thread": { "id": "th" } } }),
            json!({ "id": 3, "error": { "code": 1, "message": "no" } }),
            json!({ "method": "turn/started", "params": { "threadId": "th", "turn": { "id": "tu" } } }),
            json!({ "method": "turn/completed", "params": { "threadId": "th", "turn": { "status": "completed" } } }),
            json!({ "id": n, "method": "item/commandExecution/requestApproval", "params": { "command": "x" } }),
            json!({ "id": n, "method": "item/permissions/requestApproval", "params": { "permissions": { "network": true } } }),
            json!({ "id": n, "method": "item/fileChange/requestApproval", "params": { "itemId": "f" } }),
            json!({ "id": n, "method": "what/is/this", "params": {} }),
            json!({ "method": "item/started", "params": { "item": { "type": "fileChange", "id": "f", "changes": [{ "path": "a" }] } } }),
            json!({ "method": "serverRequest/resolved", "params": { "requestId": n.saturating_sub(2) } }),
        ],
        Drive::Acp => vec![
            json!({ "id": 1, "result": { "agentCapabilities": { "loadSession": true } } }),
            json!({ "id": 2, "result": { "sessionId": "s", "modes": { "currentModeId": "plan", "availableModes": [{ "id": "default" }, { "id": "plan" }] } } }),
            json!({ "id": 3, "result": {} }),
            json!({ "id": 5, "error": { "code": -32601, "message": "no" } }),
            json!({ "id": 2, "error": { "code": -32603, "message": "no" } }),
            json!({ "id": 6, "result": { "modes": { "currentModeId": "default", "availableModes": [] } } }),
            json!({ "id": 16, "result": { "stopReason": "end_turn" } }),
            json!({ "id": 17, "result": { "stopReason": "cancelled" } }),
            json!({ "id": n + 100, "method": "session/request_permission", "params": { "toolCall": { "toolCallId": "t", "kind": "edit", "locations": [{ "path": "a" }] },
                "options": [{ "kind": "allow_once", "optionId": "y" }, { "kind": "reject_once", "optionId": "n" }] } }),
            json!({ "id": n + 100, "method": "fs/read_text_file", "params": {} }),
            json!({ "method": "session/update", "params": { "update": { "sessionUpdate": "agent_message_chunk", "content": { "text": "a" } } } }),
            json!({ "method": "session/update", "params": { "update": { "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" } } }),
            json!({ "method": "session/update", "params": { "update": { "sessionUpdate": "tool_call", "toolCallId": "t", "status": "pending", "kind": "edit" } } }),
        ],
        Drive::Echo => vec![
            json!({ "type": "asked", "request": format!("a{n}"), "ask": "permission", "tool": "t", "title": "t", "input": {}, "can": {} }),
            json!({ "type": "unasked", "request": format!("a{}", n.saturating_sub(2)) }),
            json!({ "type": "text_delta", "text": "x" }),
            json!({ "type": "turn_ended", "reason": "completed" }),
        ],
        Drive::Oneshot => vec![
            json!({ "type": "message", "role": "assistant", "content": "a", "delta": true }),
            json!({ "type": "message.part.updated", "part": { "type": "text", "text": "a" } }),
            json!({ "type": "item.updated", "item": { "type": "agent_message", "text": "aa" } }),
            json!({ "type": "tool_use", "part": { "state": { "status": "running" } }, "tool_name": "x" }),
            json!({ "type": "step_finish", "part": { "reason": "stop" } }),
            json!({ "type": "result", "status": "success" }),
            json!({ "type": "turn.completed" }),
        ],
    };
    let choice = choice % phrases.len();
    phrases.swap_remove(choice)
}

fn answers() -> Vec<Decision> {
    let deny = |interrupt| Decision::Deny { message: String::new(), interrupt };
    let answers = std::collections::BTreeMap::from([("?".to_owned(), vec!["x".to_owned()])]);
    vec![
        Decision::Once,
        Decision::Session,
        Decision::Always,
        deny(false),
        deny(true),
        Decision::Changed { input: json!({}) },
        Decision::Answers { answers },
    ]
}

fn play(live: &mut Live, drive: Drive, acts: &[Act]) {
    let mut requests: Vec<String> = Vec::new();
    live.opening();
    for (n, act) in acts.iter().enumerate() {
        match act {
            Act::Says(choice) => {
                let (events, _) = live.says(phrase(drive, *choice, n).to_string());
                requests.extend(events.iter().filter_map(|event| match event {
                    Event::Asked(asked) => Some(asked.request.clone()),
                    _ => None,
                }));
            }
            Act::Prompt => drop(live.prompt("words")),
            Act::Answer(which, how) if !requests.is_empty() => {
                let answers = answers();
                let request = requests[which % requests.len()].clone();
                drop(live.answer(&request, &answers[how % answers.len()]));
            }
            Act::Answer(..) => {}
            Act::Interrupt => drop(live.interrupt()),
            Act::Steer => drop(live.steer("left")),
            Act::Junk(bytes) => drop(live.says(bytes)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_can_be_rebuilt_at_any_point(acts in acts(), autonomy in autonomies(), resume in any::<bool>()) {
        for (agent, drive) in ways() {
            let mut wanted = setup(agent, autonomy);
            wanted.resume = resume.then(|| "old".to_owned());
            let mut live = Live::new(wanted, drive);
            play(&mut live, drive, &acts);
            live.rebuild_everywhere();
            live.adapter.ended();
            prop_assert!(live.adapter.ended().is_empty(), "the end is said once");
        }
    }

    #[test]
    fn no_bytes_make_it_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..10)) {
        for (agent, drive) in ways() {
            let mut adapter = open(&setup(agent, Autonomy::All), drive).unwrap();
            for line in &lines {
                adapter.sent(line);
                adapter.line(line);
            }
            adapter.ended();
        }
    }

    #[test]
    fn no_json_makes_it_panic(texts in prop::collection::vec(member(), 0..12)) {
        for (agent, drive) in ways() {
            let mut adapter = open(&setup(agent, Autonomy::Edits), drive).unwrap();
            for text in &texts {
                adapter.line(text.to_string().as_bytes());
                adapter.sent(text.to_string().as_bytes());
                adapter.line(text.to_string().as_bytes());
            }
        }
    }
}

/// Objects made of the names that adapters look for, with values of any sort.
fn member() -> impl Strategy<Value = Json> {
    let names = "type|subtype|id|method|params|result|error|item|part|update|sessionUpdate|content|message|request|request_id|event|delta|toolCall|options|questions|changes|state|turn|thread";
    let words = "system|init|assistant|user|result|control_request|can_use_tool|turn/completed|item/started|item/completed|session/update|session/request_permission|tool_call|plan|asked|text|tool|item.completed|tool_use|message.part.updated|fileChange";
    let leaf = prop_oneof![
        words.prop_map(Json::String),
        any::<i64>().prop_map(|n| json!(n)),
        (0u64..40).prop_map(|n| json!(n)),
        any::<bool>().prop_map(Json::Bool),
        Just(Json::Null),
        ".{0,6}".prop_map(Json::String),
    ];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
            prop::collection::hash_map(names, inner, 0..5).prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::hash_map(names, value, 1..6).prop_map(|map| Json::Object(map.into_iter().collect()))
}

#[test]
fn a_line_that_is_too_long_is_an_error_and_not_read() {
    let line = format!("{{\"type\":\"text_delta\",\"text\":\"{}\"}}", "x".repeat(MAX_LINE));
    for (agent, drive) in ways() {
        let mut adapter = open(&setup(agent, Autonomy::Ask), drive).unwrap();
        let lined = adapter.line(line.as_bytes());
        assert!(matches!(lined.events.as_slice(), [Event::Error { fatal: false, .. }]), "{drive:?}");
    }
}

#[test]
fn an_agent_that_asks_without_end_is_refused_and_rebuilt() {
    for (agent, drive, choice) in [
        (Agent::Claude, Drive::Stream, 1),
        (Agent::Codex, Drive::AppServer, 5),
        (Agent::Gemini, Drive::Acp, 8),
        (Agent::Echo, Drive::Echo, 0),
    ] {
        let mut live = Live::new(setup(agent, Autonomy::Ask), drive);
        let refused = (0..260).filter(|n| !live.says(phrase(drive, choice, *n).to_string()).1.is_empty()).count();
        assert_eq!(refused, 4, "{drive:?}");
        live.rebuild_everywhere();
    }
}
