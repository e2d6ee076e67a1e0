use serde_json::{Value, json};

use super::*;
use crate::{Block, Diff, Location};

/// What the story says of these objects. `None` stands for an end of the output in the middle of a turn.
fn told(objects: &[Value]) -> Vec<Piece> {
    let mut story = Story::default();
    objects.iter().flat_map(|object| story.take(said(object), false)).collect()
}

fn said(object: &Value) -> Said {
    Said::read(object).unwrap()
}

fn ends(pieces: &[Piece]) -> Vec<&Ended> {
    fn ended(piece: &Piece) -> Option<&Ended> {
        match piece {
            Piece::Ended(ended) => Some(ended),
            _ => None,
        }
    }
    pieces.iter().filter_map(ended).collect()
}

fn prompt(number: u64) -> Value {
    json!({"type": "prompt", "number": number, "blocks": [{"type": "text", "text": "p"}], "door": "d"})
}

fn turn(number: u64) -> Value {
    json!({"type": "turn", "number": number})
}

fn sent() -> Value {
    json!({"type": "sent", "number": 1, "source": 1, "at": 0, "len": 1})
}

fn exited(code: i32) -> Value {
    json!({"type": "exited", "source": 1, "code": code, "stderr": "last words"})
}

fn delta(text: &str) -> Value {
    json!({"type": "text_delta", "text": text})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn ended(reason: &str) -> Value {
    json!({"type": "turn_ended", "reason": reason})
}

#[test]
fn a_prompt_in_mid_answer_waits_for_its_turn_and_cuts_nothing_off() {
    let pieces = told(&[
        prompt(1),
        turn(1),
        delta("half an "),
        prompt(2),
        prompt(3),
        json!({"type": "notice", "text": "n"}),
        delta("answer"),
        text("half an answer"),
        ended("completed"),
        json!({"type": "dropped", "number": 3, "why": "w"}),
        turn(2),
    ]);
    assert!(!pieces.iter().any(|piece| matches!(piece, Piece::CutOff(_))), "{pieces:?}");
    let whole =
        |piece: &Piece| matches!(piece, Piece::Whole { text, heard: Heard::First(14), .. } if text == "half an answer");
    assert!(pieces.iter().any(whole), "{pieces:?}");
    let blocks = vec![Block::Text { text: "p".into() }];
    let waited = |number| Some(Prompt { number, blocks: blocks.clone(), door: "d".into() });
    assert!(pieces.contains(&Piece::Dropped { number: 3, why: "w".into(), prompt: waited(3) }));
    assert_eq!(pieces.last(), Some(&Piece::Begun { number: 2, prompt: waited(2) }));
}

#[test]
fn a_whole_block_says_how_much_of_it_was_heard() {
    let heard = |before: &[Value], whole: &str| {
        let mut objects = before.to_vec();
        objects.push(text(whole));
        match told(&objects).pop() {
            Some(Piece::Whole { text, heard, .. }) => (heard, heard.rest(&text).to_owned()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(heard(&[turn(1), delta("a "), delta("b")], "a b c"), (Heard::First(3), " c".into()));
    assert_eq!(heard(&[turn(1), delta("x")], "y"), (Heard::Otherwise, "y".into()));
    assert_eq!(heard(&[delta("end")], "the end"), (Heard::Last, String::new()), "whoever comes in the middle");
    assert_eq!(heard(&[turn(1), delta("end")], "the end"), (Heard::Otherwise, "the end".into()));
    let thought = json!({"type": "thought_delta", "text": "hm"});
    assert_eq!(heard(&[turn(1), delta("a"), thought], "ab"), (Heard::First(1), "b".into()));
}

#[test]
fn what_was_cut_off_is_told_once() {
    let pieces = told(&[turn(1), sent(), delta("half"), ended("interrupted"), exited(0)]);
    let cut: Vec<_> = pieces.iter().filter(|piece| matches!(piece, Piece::CutOff(_))).collect();
    assert_eq!(cut, [&Piece::CutOff("half".into())]);
    assert_eq!(ends(&pieces).len(), 1);
}

#[test]
fn a_tool_of_a_sub_agent_cuts_nothing_off_and_one_of_its_own_does() {
    let call = |parent: Option<&str>| json!({"type": "tool_call", "id": "t", "name": "x", "title": "", "input": 1, "kind": "other", "parent": parent});
    let cuts = |pieces: &[Piece]| pieces.iter().any(|piece| matches!(piece, Piece::CutOff(_)));
    assert!(!cuts(&told(&[turn(1), delta("half"), call(Some("p"))])));
    assert!(cuts(&told(&[turn(1), delta("half"), call(None)])));
    let result = json!({"type": "tool_result", "id": "t", "output": "o", "is_error": false});
    let named = told(&[turn(1), call(None), result.clone(), turn(2), result]);
    let names: Vec<_> = named
        .iter()
        .filter_map(|piece| match piece {
            Piece::ToolEnded { name, .. } => Some(name.as_deref()),
            _ => None,
        })
        .collect();
    assert_eq!(names, [Some("x"), None]);
}

#[test]
fn an_output_that_breaks_off_is_told_by_the_end_of_its_process() {
    let mut story = Story::default();
    let mut pieces = Vec::new();
    for object in [turn(1), sent()] {
        pieces.extend(story.take(said(&object), false));
    }
    pieces.extend(story.take(said(&ended("interrupted")), true));
    assert!(ends(&pieces).is_empty());
    pieces.extend(story.take(said(&exited(3)), false));
    pieces.extend(story.take(said(&exited(3)), false));
    let why = Some(Why::Exited { exit: crate::Exit::Code(3), stderr: "last words".into(), told: None });
    let ended = ends(&pieces);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].number, ended[0].reason, &ended[0].why), (Some(1), EndReason::Interrupted, &why));
    let mut story = Story::default();
    story.take(said(&json!({"type": "turn_ended", "reason": "failed", "message": "it said nothing"})), true);
    let pieces = story.take(said(&exited(7)), false);
    let ended = ends(&pieces);
    let told = matches!(&ended[0].why, Some(Why::Exited { told: Some(told), .. }) if told == "it said nothing");
    assert!(told && ended[0].reason == EndReason::Failed && matches!(pieces[1], Piece::Noted(_)), "{pieces:?}");
}

#[test]
fn a_process_that_never_took_the_prompt_ends_no_turn() {
    let pieces = told(&[turn(1), exited(1)]);
    assert!(ends(&pieces).is_empty(), "{pieces:?}");
    let said =
        json!({"type": "said", "event": {"type": "error", "message": "no login", "fatal": false, "kind": "agent"}});
    let pieces = told(&[turn(1), said, json!({"type": "said", "event": ended("failed")})]);
    assert_eq!(ends(&pieces)[0].why, Some(Why::Told("no login".into())));
}

#[test]
fn what_ends_because_somebody_stopped_it_says_so() {
    let interrupt = json!({"type": "interrupt", "number": 1, "end_process": false});
    let stopped = |objects: &[Value]| ends(&told(objects))[0].stopped;
    assert_eq!(stopped(&[turn(1), sent(), interrupt.clone(), exited(0)]), Some(Stop::Interrupted));
    assert_eq!(stopped(&[turn(1), sent(), interrupt, json!({"type": "closed"}), exited(0)]), Some(Stop::Closed));
    let other = json!({"type": "interrupt", "number": 2, "end_process": false});
    assert_eq!(stopped(&[turn(1), sent(), other, exited(0)]), None);
}

#[test]
fn trouble_that_a_turn_can_live_with_is_not_what_it_ends_of() {
    let error = |kind: &str, fatal: bool| json!({"type": "error", "message": kind, "fatal": fatal, "kind": kind});
    let why = |error: Value| {
        let pieces = told(&[turn(1), sent(), error, exited(1)]);
        let ended = ends(&pieces)[0].clone();
        (matches!(ended.why, Some(Why::Told(_))), ended.trouble)
    };
    assert_eq!(why(error("agent", false)), (false, Some("agent".into())));
    assert_eq!(why(error("agent", true)), (true, Some("agent".into())));
    assert_eq!(why(error("login", false)), (true, Some("login".into())));
    let process = json!({"type": "process", "source": 2, "drive": "echo", "settings": {"autonomy": "all"}});
    let pieces = told(&[turn(1), error("resume", false), process, sent(), exited(1)]);
    assert!(pieces.contains(&Piece::Process { source: 2, after: Some("resume".into()) }));
    assert!(matches!(ends(&pieces)[0].why, Some(Why::Exited { .. })));
}

#[test]
fn a_request_is_told_with_its_place_in_the_inbox_and_taken_back_with_its_turn() {
    let asked = |request: &str| json!({"type": "asked", "request": request, "ask": "permission", "tool": "bash", "title": "ls", "input": 1, "can": {}});
    let approval =
        |request: &str, id: &str| json!({"type": "approval", "request": request, "source": 1, "approval": id});
    let pieces = told(&[
        turn(1),
        asked("r1"),
        approval("r1", "a1"),
        asked("r2"),
        approval("r2", "a2"),
        json!({"type": "unasked", "request": "r1"}),
        ended("completed"),
    ]);
    let waits = |piece: &Piece| match piece {
        Piece::Waits { approval, asked } => Some((approval.clone(), asked.as_ref().map(|asked| asked.request.clone()))),
        _ => None,
    };
    let waiting: Vec<_> = pieces.iter().filter_map(waits).collect();
    assert_eq!(waiting, [("a1".into(), Some("r1".into())), ("a2".into(), Some("r2".into()))]);
    let back = |piece: &Piece| match piece {
        Piece::TakenBack { approval, .. } => approval.clone(),
        _ => None,
    };
    assert_eq!(pieces.iter().filter_map(back).collect::<Vec<_>>(), ["a1", "a2"]);
}

#[test]
fn what_a_turn_used_is_told_with_its_end_and_not_carried_over() {
    let usage = |tokens: u64| json!({"type": "usage", "input_tokens": tokens});
    let pieces = told(&[turn(1), usage(1), usage(5), ended("completed"), turn(2), ended("completed")]);
    let used: Vec<_> = ends(&pieces).iter().map(|ended| ended.usage.input_tokens).collect();
    assert_eq!(used, [Some(5), None]);
}

#[test]
fn a_call_of_an_older_journal_has_its_changes_like_any_other() {
    let call = json!({"type": "tool_call", "id": "t", "name": "Edit", "title": "", "kind": "edit",
        "input": {"file_path": "/a", "old_string": "x", "new_string": "y"}});
    let Some(Piece::Tool(call)) = told(&[call]).pop() else { panic!() };
    let diff = Diff { path: "/a".into(), old: Some("x".into()), new: Some("y".into()), line: None };
    assert_eq!((call.diffs, call.locations), (vec![diff], vec![Location { path: "/a".into(), line: None }]));
}
