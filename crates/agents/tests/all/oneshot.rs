//! CLIs that are run once for each prompt.

use ostler_story::{Agent, Autonomy, Block, Drive, EndReason, Event};

use crate::support::{Live, setup, text};
use ostler_agents::{PromptError, open};
use serde_json::{Value as Json, json};

const ALL: [Agent; 4] = [Agent::Claude, Agent::Codex, Agent::Gemini, Agent::Opencode];

/// Plays a run; everything that it said.
fn run(agent: Agent, lines: &[Json]) -> Vec<Event> {
    let mut live = Live::new(setup(agent, Autonomy::Ask), Drive::Oneshot);
    live.prompt("go").unwrap();
    let mut events: Vec<Event> = lines.iter().flat_map(|line| live.tells(line.clone())).collect();
    live.rebuild_everywhere();
    events.extend(live.adapter.ended());
    events
}

fn args(agent: Agent, autonomy: Autonomy) -> String {
    open(&setup(agent, autonomy), Drive::Oneshot).unwrap().launch().args.join(" ")
}

fn has_one_end(events: &[Event], reason: EndReason) {
    let ends: Vec<_> = events.iter().filter(|event| matches!(event, Event::TurnEnded { .. })).collect();
    assert!(matches!(ends.as_slice(), [Event::TurnEnded { reason: r, .. }] if *r == reason), "{events:?}");
}

#[test]
fn a_prompt_goes_to_stdin_as_it_is_and_only_once() {
    for agent in ALL {
        let mut adapter = open(&setup(agent, Autonomy::Ask), Drive::Oneshot).unwrap();
        let words = "--version\n\"quoted\" \u{1F40E}";
        assert_eq!(adapter.prompt(&text(words)).unwrap(), words.as_bytes());
        assert_eq!(adapter.prompt(&text("again")), Err(PromptError::NotNow));
        let launch = adapter.launch();
        assert!(launch.close_stdin_after_prompt);
        assert!(!launch.args.iter().any(|arg| arg.contains("quoted")));
    }
}

#[test]
fn what_can_not_be_sent_is_refused() {
    let mut adapter = open(&setup(Agent::Codex, Autonomy::Ask), Drive::Oneshot).unwrap();
    let picture = [Block::Image { mime: "image/png".into(), data: "AA==".into() }];
    assert!(matches!(adapter.prompt(&picture), Err(PromptError::Unsupported(_))));
    assert_eq!(adapter.prompt(&text(" \n")), Err(PromptError::Empty));
    assert!(matches!(adapter.prompt(&text(&"x".repeat(9 << 20))), Err(PromptError::TooLong(_))));
    assert!(adapter.can_prompt(), "nothing was sent");
    assert!(open(&setup(Agent::Echo, Autonomy::Ask), Drive::Oneshot).is_err());
}

#[test]
fn autonomy_is_in_the_command_line() {
    assert!(args(Agent::Claude, Autonomy::All).contains("--dangerously-skip-permissions"));
    for autonomy in [Autonomy::Edits, Autonomy::Plan, Autonomy::Ask] {
        assert!(!args(Agent::Claude, autonomy).contains("dangerously"));
    }
    assert!(args(Agent::Codex, Autonomy::Edits).contains("--sandbox workspace-write"));
    assert!(args(Agent::Codex, Autonomy::Ask).contains("--sandbox read-only"));
    assert!(args(Agent::Gemini, Autonomy::Plan).contains("--approval-mode plan"));
    assert!(args(Agent::Opencode, Autonomy::All).ends_with("--auto"));
}

#[test]
fn a_conversation_goes_on_by_its_id() {
    for (agent, words) in ALL.into_iter().zip(["--resume id-1", "resume id-1 -", "--resume id-1", "--session id-1"]) {
        let mut wanted = setup(agent, Autonomy::Ask);
        wanted.resume = Some("id-1".into());
        wanted.model = Some("m".into());
        let line = open(&wanted, Drive::Oneshot).unwrap().launch().args.join(" ");
        assert!(line.ends_with(words) && line.contains("--model m"), "{line}");
    }
}

#[test]
fn claude_once() {
    let events = run(
        Agent::Claude,
        &[
            json!({ "type": "system", "subtype": "init", "session_id": "c", "model": "m", "permissionMode": "bypassPermissions" }),
            json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "hi" }] } }),
            json!({ "type": "result", "subtype": "success", "is_error": false, "session_id": "c" }),
        ],
    );
    assert_eq!(events[0], Event::Started { agent_session: Some("c".into()), model: Some("m".into()) });
    assert_eq!(events[1], Event::Text { text: "hi".into() });
    has_one_end(&events, EndReason::Completed);
}

#[test]
fn claude_that_tells_its_id_only_at_the_end_is_known_by_it() {
    let events = run(Agent::Claude, &[json!({ "type": "result", "is_error": false, "session_id": "late" })]);
    assert_eq!(events[0], Event::Started { agent_session: Some("late".into()), model: None });
}

#[test]
fn codex_once() {
    let item = |item: Json| json!({ "type": "item.completed", "item": item });
    let events = run(
        Agent::Codex,
        &[
            json!({ "type": "thread.started", "thread_id": "th" }),
            json!({ "type": "turn.started" }),
            json!({ "type": "error", "message": "Reconnecting... 2/5" }),
            json!({ "type": "item.started", "item": { "id": "i", "type": "command_execution", "command": "ls", "status": "in_progress" } }),
            item(
                json!({ "id": "i", "type": "command_execution", "command": "ls", "aggregated_output": "a", "status": "completed" }),
            ),
            json!({ "type": "item.updated", "item": { "id": "j", "type": "agent_message", "text": "He" } }),
            json!({ "type": "item.updated", "item": { "id": "j", "type": "agent_message", "text": "Hello" } }),
            item(json!({ "id": "j", "type": "agent_message", "text": "Hello" })),
            json!({ "type": "turn.completed", "usage": { "input_tokens": 1, "output_tokens": 2 } }),
        ],
    );
    assert!(matches!(&events[2], Event::ToolCall(call) if call.name == "bash"));
    assert_eq!(events[3], Event::tool_result("i", "a", false));
    assert_eq!(events[5], Event::TextDelta { text: "llo".into() });
    assert_eq!(events[6], Event::Text { text: "Hello".into() });
    has_one_end(&events, EndReason::Completed);
}

#[test]
fn gemini_once() {
    let piece = |text: &str| json!({ "type": "message", "role": "assistant", "content": text, "delta": true });
    let events = run(
        Agent::Gemini,
        &[
            json!({ "type": "init", "session_id": "g", "model": "m" }),
            json!({ "type": "message", "role": "user", "content": "go" }),
            piece("a"),
            piece("b"),
            json!({ "type": "tool_use", "tool_name": "run_shell_command", "tool_id": "t", "parameters": { "command": "ls" } }),
            json!({ "type": "tool_result", "tool_id": "t", "status": "error", "error": { "message": "no" } }),
            json!({ "type": "result", "status": "success", "stats": {} }),
        ],
    );
    assert_eq!(events[3], Event::Text { text: "ab".into() });
    assert_eq!(events[5], Event::tool_result("t", "no", true));
    has_one_end(&events, EndReason::Completed);
}

#[test]
fn gemini_that_tells_the_whole_after_its_pieces_tells_it_once() {
    let say =
        |text: &str, delta: bool| json!({ "type": "message", "role": "assistant", "content": text, "delta": delta });
    let events =
        run(Agent::Gemini, &[say("a", true), say("a", false), json!({ "type": "result", "status": "success" })]);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Text { .. })).count(), 1);
}

#[test]
fn opencode_once() {
    let step = |reason: &str| json!({ "type": "step_finish", "sessionID": "o", "part": { "reason": reason, "tokens": { "input": 1 } } });
    let events = run(
        Agent::Opencode,
        &[
            json!({ "type": "step_start", "sessionID": "o", "part": {} }),
            json!({ "type": "tool_use", "sessionID": "o", "part": { "callID": "c", "tool": "bash",
                "state": { "status": "completed", "input": { "command": "ls" }, "output": "a" } } }),
            step("tool-calls"),
            json!({ "type": "step_start", "sessionID": "o", "part": {} }),
            json!({ "type": "text", "sessionID": "o", "part": { "text": "done" } }),
            step("stop"),
        ],
    );
    assert!(matches!(&events[1], Event::ToolCall(call) if call.id == "c"));
    assert_eq!(events[2], Event::tool_result("c", "a", false));
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Started { .. })).count(), 1);
    has_one_end(&events, EndReason::Completed);
}

#[test]
fn an_end_without_a_result_is_an_interruption_and_a_failure_is_none() {
    for agent in ALL {
        has_one_end(&run(agent, &[]), EndReason::Interrupted);
    }
    has_one_end(
        &run(Agent::Codex, &[json!({ "type": "turn.failed", "error": { "message": "x" } })]),
        EndReason::Failed,
    );
    has_one_end(
        &run(Agent::Opencode, &[json!({ "type": "error", "error": { "data": { "message": "x" } } })]),
        EndReason::Failed,
    );
    has_one_end(
        &run(Agent::Gemini, &[json!({ "type": "result", "status": "error", "error": { "message": "x" } })]),
        EndReason::Failed,
    );
}
