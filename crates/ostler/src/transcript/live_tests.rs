use ostler_story::{Said, Story};
use serde_json::{Value, json};

use super::*;

/// What these objects add to a story.
fn pieces(events: &[Value]) -> Vec<Piece> {
    let mut story = Story::default();
    events.iter().filter_map(Said::read).flat_map(|said| story.take(said, false)).collect()
}

/// Everything that is shown for these events.
fn shown(events: &[Value]) -> String {
    let screen = Screen::plain();
    let mut live = Live::new(&screen);
    let mut text = live.take(&pieces(events));
    text.push_str(&live.finish());
    text
}

fn delta(text: &str) -> Value {
    json!({"type": "text_delta", "text": text})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn what_an_agent_tells_about_itself_is_shown_where_a_person_would_miss_it() {
    let limit = |state: &str| json!({"type": "limit", "name": "five_hour\u{1b}[2J", "used_percent": 93.0, "resets": 60, "state": state});
    let servers = json!([{"name": "docs", "status": "connected"}, {"name": "db\u{7}", "status": "failed"}]);
    let text = shown(&[
        json!({"type": "title", "title": "Mend the\u{1b}]0;x\u{7} roof"}),
        json!({"type": "offers", "commands": [{"name": "init"}, {"name": "review"}], "mcp_servers": servers}),
        json!({"type": "offers", "tools": [{"name": "Bash"}], "commands": []}),
        limit("far"),
        limit("near"),
        limit("reached"),
    ]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].starts_with("· called Mend the") && !text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
    assert_eq!(lines[1], "· commands: /init /review");
    assert!(lines[2].starts_with("! MCP server db") && lines[2].ends_with(": failed"), "{text}");
    assert!(lines[3].starts_with("! 93% of the limit five_hour"), "{text}");
    assert!(lines[3].ends_with("is used; it resets at 1970-01-01 00:01 UTC"), "{text}");
    assert!(lines[4].ends_with("is reached; it resets at 1970-01-01 00:01 UTC"), "{text}");
}

#[test]
fn pieces_are_not_said_again_by_the_whole() {
    assert_eq!(shown(&[delta("one "), delta("two"), text("one two"), text("three")]), "one two\nthree\n");
}

#[test]
fn a_whole_that_differs_from_its_pieces_is_shown() {
    assert_eq!(shown(&[delta("one"), text("one two")]), "one two\n");
    assert_eq!(shown(&[delta("on"), text("other")]), "on\nother\n");
}

#[test]
fn pieces_that_were_cut_off_stay_and_the_turn_ends_on_a_line_of_its_own() {
    let ended = json!({"type": "turn_ended", "reason": "interrupted"});
    assert_eq!(shown(&[delta("one t"), ended, delta("new"), text("new")]), "one t\n── interrupted\nnew\n");
}

#[test]
fn who_comes_in_the_middle_of_a_block_does_not_read_its_end_twice() {
    assert_eq!(shown(&[delta("two"), text("one two"), delta("e"), text("the whole")]), "two\ne\nthe whole\n");
}

#[test]
fn what_others_do_meanwhile_does_not_make_a_block_be_read_twice() {
    let prompt = json!({"type": "prompt", "number": 2, "blocks": [{"type": "text", "text": "next"}]});
    let (turn, ended) = (json!({"type": "turn", "number": 2}), json!({"type": "turn_ended", "reason": "completed"}));
    let text = shown(&[delta("one "), prompt, delta("two"), text("one two"), ended, turn, delta("x"), text("x")]);
    assert_eq!(text, "one \n\n› prompt 2\n  next\n\ntwo\n── done\n\n› prompt 2, from above\nx\n");
}

#[test]
fn a_prompt_whose_turn_begins_at_once_is_shown_once() {
    let prompt = json!({"type": "prompt", "number": 1, "blocks": [{"type": "text", "text": "p"}]});
    assert_eq!(shown(&[prompt, json!({"type": "turn", "number": 1}), text("a")]), "\n› prompt 1\n  p\n\na\n");
}

#[test]
fn thoughts_are_dimmed_and_stand_apart() {
    let screen = Screen::coloured();
    let mut live = Live::new(&screen);
    let thought = json!({"type": "thought_delta", "text": "hm"});
    assert_eq!(live.take(&pieces(&[thought])), "\x1b[2mhm\x1b[0m");
    assert_eq!(live.take(&pieces(&[delta("so")])), "\nso");
}

#[test]
fn a_prompt_stands_before_its_answer_and_names_another_door() {
    let prompt = json!({"type": "prompt", "number": 2, "door": "codecast", "blocks": [{"type": "text", "text": "do\nthis\n"}, {"type": "file", "path": "a.rs"}]});
    assert_eq!(shown(&[delta("x"), prompt]), "x\n\n› prompt 2, through codecast\n  do\n  this\n  [file a.rs]\n\n");
}

#[test]
fn a_tool_call_is_one_line_an_edit_shows_its_change_and_a_result_is_shortened() {
    let call = json!({"type": "tool_call", "id": "t", "name": "Edit", "title": "Edit a.rs", "kind": "edit",
        "input": {"file_path": "a.rs", "old_string": "x", "new_string": "y"}});
    let output = (1..=9).map(|n| format!("line {n}\n")).collect::<String>();
    let result = json!({"type": "tool_result", "id": "t", "output": output, "is_error": false});
    let text = shown(&[call.clone(), result]);
    assert!(text.starts_with("● Edit a.rs  [edit]\n  a.rs\n  -x\n  +y\n  └ line 1\n    line 2\n"), "{text}");
    assert!(text.ends_with("    line 6\n    … 3 more lines\n"), "{text}");
    let screen = Screen::coloured();
    let coloured = Live::new(&screen).take(&pieces(&[call]));
    assert!(coloured.contains("\x1b[31m  -x\x1b[0m") && coloured.contains("\x1b[32m  +y\x1b[0m"), "{coloured:?}");
}

#[test]
fn a_request_says_what_to_type() {
    let ask = |questions: Value| {
        json!({"type": "asked", "request": "r1", "ask": if questions.is_null() { "permission" } else { "question" }, "tool": "Bash",
            "title": "run rm", "input": {}, "can": {}, "questions": if questions.is_null() { json!([]) } else { questions }})
    };
    let approval = json!({"type": "approval", "request": "r1", "approval": "a77", "source": 1});
    let text = shown(&[ask(Value::Null), approval.clone()]);
    assert_eq!(text, "? waiting for approval: run rm\n  decide: ostler approve a77   or: ostler deny a77\n");
    let question = json!([{"id": "colour", "question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]);
    let both = [ask(question), approval.clone()];
    let below = Live::new(&Screen::plain()).asking_below(true).take(&pieces(&both));
    assert!(
        below.contains("? the agent asks: run rm\n") && !below.contains("Which?"),
        "it is put whole below: {below}"
    );
    let text = shown(&both);
    assert!(text.contains("  colour: Which?\n    - red\n    - blue\n"), "{text}");
    assert!(text.contains("ostler approve a77 --answer colour=red "), "{text}");
    let padded =
        json!([{"id": "a: b", "question": "Which?", "options": [{"label": "red   - blue", "description": "warm"}]}]);
    let text = shown(&[ask(padded), approval.clone()]);
    assert!(text.contains("  'a: b': Which?\n    - 'red   - blue': warm\n"), "{text}");
    assert!(text.contains("ostler approve a77 --answer 'a: b=red   - blue'   or"), "{text}");
    let answered = json!({"type": "answered", "request": "r1", "approval": "a77", "source": 1, "by": "rule r", "at": 0, "len": 1,
        "decision": {"answer": "deny", "message": "not so", "interrupt": false}});
    assert_eq!(shown(&[answered]), "  a77 answered: no: not so, by rule r\n");
}

#[test]
fn a_turn_ends_with_what_it_used() {
    let tokens = json!({"type": "usage", "input_tokens": 3, "output_tokens": 5});
    let cost = json!({"type": "usage", "cost_usd": 9.75, "turn_cost_usd": 0.25});
    let ended = json!({"type": "turn_ended", "reason": "completed"});
    let again = json!({"type": "turn", "number": 2});
    let text = shown(&[tokens, cost, ended.clone(), ended.clone(), again, ended]);
    assert_eq!(text, "── done (3 tokens in, 5 out, $0.2500)\n\n› prompt 2\n── done\n");
}

#[test]
fn the_last_words_of_an_agent_that_failed_are_shown_line_by_line() {
    let ended = json!({"type": "turn_ended", "reason": "failed", "message": "claude ended (exit code 7): one\ntwo"});
    assert_eq!(shown(&[ended]), "── failed: claude ended (exit code 7): one\n     two\n");
    let error = json!({"type": "error", "message": "one\ntwo", "fatal": true, "kind": "setup"});
    assert_eq!(shown(std::slice::from_ref(&error)), "! one\n  two\n");
    let ended = json!({"type": "turn_ended", "reason": "failed", "message": "one\ntwo"});
    assert_eq!(shown(&[error, ended]), "! one\n  two\n── failed\n", "a reason is read once");
}

#[test]
fn nothing_that_is_said_acts_on_the_terminal() {
    let nasty = "\x1b]0;x\x07\u{9b}2J\u{202e}\r\u{200b}\n\x1b[2Jend\t";
    let events = [
        delta(nasty),
        text(nasty),
        json!({"type": "thought", "text": nasty}),
        json!({"type": "notice", "text": nasty}),
        json!({"type": "error", "message": nasty, "fatal": false, "kind": "agent"}),
        json!({"type": "started", "agent_session": nasty, "model": nasty}),
        json!({"type": "tool_call", "id": nasty, "name": nasty, "title": nasty, "kind": "edit", "input": {"path": nasty, "old_str": nasty, "new_str": nasty}}),
        json!({"type": "tool_result", "id": nasty, "output": nasty, "is_error": true}),
        json!({"type": "plan", "entries": [{"text": nasty, "status": "done"}]}),
        json!({"type": "granted", "request": nasty, "tool": nasty, "input": {}}),
        json!({"type": "asked", "request": nasty, "ask": "question", "tool": nasty, "title": nasty, "input": {}, "reason": nasty, "can": {},
            "questions": [{"id": nasty, "question": nasty, "header": nasty, "options": [{"label": nasty, "description": nasty}]}]}),
        json!({"type": "approval", "request": nasty, "approval": nasty, "source": 1}),
        json!({"type": "answered", "request": nasty, "approval": nasty, "decision": {"answer": "answers", "answers": {"q": [nasty]}}, "by": format!("rule {nasty}"), "source": 1, "at": 0, "len": 1}),
        json!({"type": "dropped", "number": 1, "why": nasty}),
        json!({"type": "interrupt", "number": 1, "end_process": true}),
        json!({"type": "prompt", "number": 1, "door": nasty, "blocks": [{"type": "text", "text": nasty}, {"type": "file", "path": nasty}, {"type": "image", "mime": nasty, "data": ""}]}),
        json!({"type": "exited", "source": 1, "code": 3, "stderr": nasty}),
        json!({"type": "turn_ended", "reason": "failed", "message": nasty}),
    ];
    assert_eq!(events.iter().filter_map(Said::read).count(), events.len(), "every one of them is known");
    let text = shown(&events);
    for line in text.lines() {
        assert_eq!(visible(line), line, "{line:?}");
    }
}
