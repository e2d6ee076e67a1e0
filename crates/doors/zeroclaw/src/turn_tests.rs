use std::sync::Arc;

use ostler_story::{Can, Event, Fact, ToolCall, ToolKind};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::frame::{self, Frame};

/// A turn, and everything that it has said.
struct TurnUnderTest {
    turn: Turn,
    out: Vec<u8>,
    record: u64,
}

impl TurnUnderTest {
    fn new(generation: Option<u64>) -> Self {
        let Frame::Request { head, .. } = frame::read(br#"{"jsonrpc":"2.0","method":"session/prompt","id":9}"#) else {
            panic!()
        };
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let request = Some(Request { head, generation });
        Self { turn: Turn::new(Updates::of("s"), request, ("s1".into(), 2, 0), 0, place), out: Vec::new(), record: 0 }
    }

    /// For a client that comes when so many records are there.
    fn come_at(missed: u64) -> Self {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Self { turn: Turn::new(Updates::of("s"), None, ("s1".into(), 2, 0), missed, place), out: Vec::new(), record: 0 }
    }

    fn begun() -> Self {
        let mut told = Self::new(Some(3));
        told.fact(&Fact::Turn { number: 2 });
        told.fact(&Fact::Sent { number: 2, source: 1, ticks: None, intent: ostler_story::Intent { at: 0, len: 1 } });
        told
    }

    fn say(&mut self, source: u32, object: &impl serde::Serialize) -> Vec<Want> {
        self.record += 1;
        let payload = serde_json::to_vec(object).unwrap();
        let head = EventHead { record: self.record, source, src_end: 1, time_ns: 0, len: payload.len() };
        let wants = self.turn.record(&head, &payload, &mut self.out);
        self.turn.finish(&mut self.out);
        wants
    }

    fn texts(&self) -> Vec<String> {
        self.lines().iter().filter_map(|line| line["params"]["text"].as_str().map(str::to_owned)).collect()
    }

    fn fact(&mut self, fact: &Fact) -> Vec<Want> {
        self.say(0, fact)
    }

    fn event(&mut self, event: &Event) -> Vec<Want> {
        self.say(1, event)
    }

    fn lines(&self) -> Vec<Value> {
        self.out
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    fn kinds(&self) -> Vec<String> {
        let kind = |line: &Value| line["params"]["type"].as_str().unwrap_or("reply").to_owned();
        self.lines().iter().map(kind).collect()
    }

    fn last(&self) -> Value {
        self.lines().pop().unwrap()
    }
}

fn delta(text: &str) -> Event {
    Event::TextDelta { text: text.into() }
}

fn ended(reason: EndReason) -> Event {
    Event::TurnEnded { reason, message: None }
}

#[test]
fn what_others_prompted_before_is_not_this_turns() {
    let mut told = TurnUnderTest::new(None);
    told.event(&delta("theirs"));
    told.fact(&Fact::Interrupt { number: 1, end_process: false });
    told.event(&ended(EndReason::Interrupted));
    told.fact(&Fact::Turn { number: 2 });
    told.event(&delta("ours"));
    told.event(&ended(EndReason::Completed));
    assert_eq!(told.kinds(), ["agent_message_chunk", "turn_complete", "reply"]);
    let reply = json!({"session_id": "s", "sessionId": "s", "stop_reason": "end_turn", "stopReason": "end_turn", "content": "ours"});
    assert_eq!((&told.last()["result"], &told.last()["id"]), (&reply, &json!(9)));
    assert!(told.turn.is_over());
}

#[test]
fn a_block_is_told_once_whether_it_came_in_pieces_or_whole() {
    let mut told = TurnUnderTest::begun();
    for event in [delta("a "), delta("b"), Event::Text { text: "a b c".into() }, Event::Text { text: "d".into() }] {
        told.event(&event);
    }
    told.event(&Event::Thought { text: "hm".into() });
    told.event(&ended(EndReason::Completed));
    assert_eq!(told.texts(), ["a ", "b", " c", "\n\nd", "hm"]);
    assert_eq!(told.last()["result"]["content"], "a b c\n\nd");
}

#[test]
fn who_comes_to_a_running_turn_is_told_what_it_missed_in_few_words_and_the_rest_as_it_happens() {
    let mut told = TurnUnderTest::come_at(6);
    told.fact(&Fact::Turn { number: 2 });
    for text in ["a ", "b ", "c "] {
        told.event(&delta(text));
    }
    told.event(&Event::Usage(Usage { context_used: Some(1), ..Usage::default() }));
    assert!(told.out.is_empty(), "{:?}", told.kinds());
    told.event(&delta("d "));
    assert_eq!((told.texts(), told.kinds().len()), (vec!["a b c d ".to_owned()], 2));
    told.event(&delta("live"));
    told.event(&ended(EndReason::Completed));
    assert_eq!(told.texts(), ["a b c d ", "live"]);
    assert_eq!(told.kinds().last().map(String::as_str), Some("turn_complete"), "it has asked for nothing");
    assert!(told.turn.is_over());
}

#[test]
fn who_has_read_the_beginning_is_told_what_follows_and_no_end_that_says_it_again() {
    let read_upto = |read: u64| {
        let mut told = TurnUnderTest::come_at(5);
        told.turn = told.turn.after(read);
        told.fact(&Fact::Turn { number: 2 });
        for text in ["a ", "b ", "c "] {
            told.event(&delta(text));
        }
        told.event(&delta("d "));
        told
    };
    let mut told = read_upto(3);
    assert_eq!(told.texts(), ["c d "]);
    told.event(&Event::Text { text: "a b c d e".into() });
    told.event(&ended(EndReason::Completed));
    assert_eq!(told.texts(), ["c d ", "e"], "a block that was read in part is known to have been");
    assert_eq!(told.last()["params"]["content"], "c d e");

    let mut told = read_upto(5);
    told.event(&ended(EndReason::Completed));
    assert!(told.out.is_empty() && told.turn.is_over(), "{:?}", told.kinds());

    let mut told = read_upto(9);
    told.event(&ended(EndReason::Failed));
    assert!(told.out.is_empty() && told.turn.is_over(), "an end that was read is not told: {:?}", told.kinds());
}

#[test]
fn the_answer_is_what_follows_the_last_tool() {
    let mut told = TurnUnderTest::begun();
    told.event(&Event::Text { text: "let me look".into() });
    told.event(&Event::ToolCall(ToolCall::new("t", "bash", ToolKind::Execute, json!({}))));
    told.event(&Event::tool_result("t", "x", false));
    told.event(&Event::Text { text: "done".into() });
    told.event(&ended(EndReason::Completed));
    assert_eq!(
        told.kinds(),
        ["agent_message_chunk", "tool_call", "tool_result", "agent_message_chunk", "turn_complete", "reply"]
    );
    assert_eq!(told.last()["result"]["content"], "done");
    let complete = &told.lines()[4]["params"];
    assert_eq!((&complete["outcome"], &complete["client_turn_generation"]), (&json!("completed"), &json!(3)));
}

#[test]
fn a_turn_that_was_stopped_is_cancelled_and_one_whose_process_died_has_failed() {
    let mut stopped = TurnUnderTest::begun();
    stopped.event(&delta("half"));
    stopped.fact(&Fact::Interrupt { number: 2, end_process: false });
    stopped.event(&ended(EndReason::Failed));
    assert_eq!(stopped.last()["result"]["stop_reason"], "cancelled");
    let note = &stopped.lines()[1]["params"]["content"];
    assert_eq!(note, "turn cancelled via client_rpc in RPC_SESSION s");

    let mut died = TurnUnderTest::begun();
    died.fact(&Fact::Exited { source: 1, exit: ostler_story::Exit::Code(3), stderr: "oh\nno\n".into() });
    let error = &died.last()["error"];
    assert_eq!(error["code"], -32603);
    assert_eq!(error["message"], "the agent's process ended before the turn was over (exit 3): no");
}

#[test]
fn an_older_process_that_makes_room_ends_no_turn() {
    let mut told = TurnUnderTest::new(None);
    told.fact(&Fact::Turn { number: 2 });
    told.fact(&Fact::Exited { source: 1, exit: ostler_story::Exit::Code(0), stderr: String::new() });
    assert!(!told.turn.is_over() && told.out.is_empty());
}

#[test]
fn a_prompt_that_waited_too_long_is_busy_and_one_that_was_dropped_is_cancelled() {
    let mut waited = TurnUnderTest::new(None);
    waited.fact(&Fact::Dropped { number: 1, why: WAITED.into() });
    assert!(!waited.turn.is_over());
    waited.fact(&Fact::Dropped { number: 2, why: WAITED.into() });
    assert_eq!(waited.last()["error"]["code"], -32002);

    let mut dropped = TurnUnderTest::new(None);
    dropped.fact(&Fact::Dropped { number: 2, why: "the session was closed".into() });
    assert_eq!(dropped.last()["result"]["stop_reason"], "cancelled");
}

#[test]
fn a_request_is_shown_once_the_inbox_has_it_and_its_tool_is_announced() {
    let mut told = TurnUnderTest::begun();
    let asked = Asked {
        request: "r".into(),
        ask: Ask::Permission,
        tool: "bash".into(),
        title: "run ls".into(),
        input: json!({"command": "ls"}),
        tool_call: Some("t".into()),
        reason: None,
        can: Can::default(),
        grants: Vec::new(),
        questions: Vec::new(),
    };
    assert!(told.event(&Event::Asked(asked)).is_empty());
    assert_eq!(told.kinds(), ["tool_call"]);
    let wants = told.fact(&Fact::Approval { request: "r".into(), source: 1, approval: "a1".into() });
    assert!(matches!(wants.as_slice(), [Want::Show { approval, .. }] if approval == "a1"));
}

#[test]
fn a_request_that_was_answered_is_forgotten_with_who_did_it_before_the_turn_ends() {
    let mut told = TurnUnderTest::begun();
    let asked: Asked =
        serde_json::from_value(json!({"request": "r", "ask": "permission", "tool": "bash", "title": "run ls",
        "input": null, "can": {}}))
        .unwrap();
    told.event(&Event::Asked(asked));
    told.fact(&Fact::Approval { request: "r".into(), source: 1, approval: "a1".into() });
    let answered = Fact::Answered {
        request: "r".into(),
        source: 1,
        approval: "a1".into(),
        decision: Decision::Once,
        by: By::Rule { name: "r".into() },
        intent: ostler_story::Intent { at: 0, len: 1 },
    };
    let wants = told.fact(&answered);
    assert!(
        matches!(wants.as_slice(), [Want::Forget { approval, how }] if approval == "a1" && how == "answered by rule r")
    );
}
