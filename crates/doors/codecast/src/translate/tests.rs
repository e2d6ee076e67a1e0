use super::ending::INTERRUPTED;
use super::*;

/// A session's records, told one after the other; raw lines are those that were given.
struct Conversation {
    translator: Translator,
    raw: Vec<u8>,
    record: u64,
}

impl Conversation {
    fn by(agent: Agent) -> Self {
        let mut told = Self { translator: Translator::new(agent, None), raw: Vec::new(), record: 0 };
        told.fact(json!({"type": "turn", "number": 1}));
        let settings = json!({"autonomy": "all"});
        told.fact(json!({"type": "process", "source": 1, "drive": "oneshot", "settings": settings}));
        told.fact(json!({"type": "sent", "number": 1, "source": 1, "at": 0, "len": 1}));
        told
    }

    fn at(&mut self, source: u32, src_end: u64, payload: String) -> Vec<Event> {
        self.record += 1;
        let head = EventHead { record: self.record, source, src_end, time_ns: 0, len: payload.len() };
        let raw = self.raw.clone();
        let find = |_, from, to| raw.get(from as usize..to as usize).map(<[u8]>::to_vec);
        self.translator.record(head, payload.as_bytes(), &find)
    }

    fn fact(&mut self, fact: Value) -> Vec<Event> {
        self.at(0, 0, fact.to_string())
    }

    fn line(&mut self, line: Value, events: &[Value]) -> Vec<Event> {
        self.raw.extend_from_slice(format!("{line}\n").as_bytes());
        let payload: String = events.iter().map(|event| format!("{event}\n")).collect();
        self.at(1, self.raw.len() as u64, payload)
    }

    /// The output ended in the middle of a turn.
    fn cut_off(&mut self) -> Vec<Event> {
        self.at(1, u64::MAX, json!({"type": "turn_ended", "reason": "interrupted"}).to_string())
    }

    fn exited(&mut self, code: Option<i32>, signal: Option<i32>) -> Vec<Event> {
        self.fact(
            json!({"type": "exited", "source": 1, "code": code, "signal": signal, "stderr": "noise\nlast words\n"}),
        )
    }
}

fn shown(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.clone().fitted().remove(0)).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(name: &str) -> Value {
    json!({"type": "tool_call", "id": name, "name": name, "title": name, "input": {"x": 1}, "kind": "other"})
}

const ENDED: &str = r#"{"type":"turn_ended","reason":"completed"}"#;

fn ended() -> Value {
    serde_json::from_str(ENDED).unwrap()
}

#[test]
fn a_turn_is_told_from_its_first_line_to_its_result() {
    let mut told = Conversation::by(Agent::Claude);
    let started = json!({"type": "started", "agent_session": "sdk", "model": "m"});
    let init = json!({"type": "system", "subtype": "init"});
    assert_eq!(
        shown(&told.line(init, &[started])),
        [
            r#"{"type":"system","subtype":"init","session_id":"sdk","model":"m","raw":{"type":"system","subtype":"init"}}"#
        ]
    );
    let delta = json!({"type": "text_delta", "text": "Hi"});
    assert_eq!(shown(&told.line(json!({}), &[delta])), [r#"{"type":"partial","content":"Hi"}"#]);
    let result = json!({"type": "result", "duration_ms": 42});
    assert_eq!(
        shown(&told.line(result, &[json!({"type": "usage"}), ended()])),
        [r#"{"type":"result","session_id":"sdk","raw":{"type":"result","duration_ms":42}}"#]
    );
    assert_eq!(told.exited(Some(0), None), []);
}

#[test]
fn a_message_of_claudes_is_its_tools_and_then_its_words_as_one() {
    let mut told = Conversation::by(Agent::Claude);
    let events = told.line(json!({}), &[text("first "), call("Read"), call("Edit"), text("second")]);
    assert_eq!(
        shown(&events),
        [
            r#"{"type":"tool_use","tool":"Read","input":{"x":1}}"#,
            r#"{"type":"tool_use","tool":"Edit","input":{"x":1}}"#,
            r#"{"type":"text","content":"first second"}"#,
        ]
    );
}

#[test]
fn what_claude_says_of_its_system_and_its_tools_comes_with_its_own_line() {
    let mut told = Conversation::by(Agent::Claude);
    let pending = json!({"type": "tool_pending", "id": "t", "name": "Glob"});
    assert_eq!(shown(&told.line(json!({}), std::slice::from_ref(&pending))), [r#"{"type":"tool_use","tool":"Glob"}"#]);
    told.line(json!({}), &[json!({"type": "started", "agent_session": "s", "model": null})]);
    let line = json!({"any": "thing"});
    for (event, subtype) in [
        (json!({"type": "status", "kind": "status"}), "status"),
        (json!({"type": "unknown", "kind": "system/new"}), "new"),
    ] {
        let whole = format!(r#"{{"type":"system","subtype":"{subtype}","session_id":"s","raw":{{"any":"thing"}}}}"#);
        assert_eq!(shown(&told.line(line.clone(), &[event])), [whole]);
    }
    let update = json!({"type": "tool_update", "id": "", "output_delta": "Running", "name": "Bash"});
    assert_eq!(
        shown(&told.line(line.clone(), &[update])),
        [r#"{"type":"tool_use","tool":"Bash","message":"Running","raw":{"any":"thing"}}"#]
    );
    let output = json!({"type": "tool_update", "id": "t", "output_delta": "out"});
    let unknown = json!({"type": "unknown", "kind": "new"});
    for silent in [vec![], vec![output], vec![unknown]] {
        assert_eq!(told.line(line.clone(), &silent), []);
    }
    assert_eq!(Conversation::by(Agent::Codex).line(line, &[pending]), []);
}

#[test]
fn an_id_that_only_the_result_names_is_its_own_and_makes_no_second_beginning() {
    let mut told = Conversation::by(Agent::Claude);
    let started = json!({"type": "started", "agent_session": "late", "model": null});
    let events = told.line(json!({"type": "result", "session_id": "late"}), &[started, ended()]);
    assert_eq!(events.len(), 1);
    assert!(shown(&events)[0].starts_with(r#"{"type":"result","session_id":"late""#));
}

#[test]
fn an_interrupted_turn_ends_with_that_however_its_process_goes() {
    for (code, signal) in [(Some(143), None), (Some(0), None), (None, Some(15)), (None, Some(9)), (Some(1), None)] {
        let mut told = Conversation::by(Agent::Claude);
        told.fact(json!({"type": "interrupt", "number": 1, "end_process": true}));
        assert_eq!(told.cut_off(), []);
        assert_eq!(told.exited(code, signal), [Event::Interrupted], "{code:?} {signal:?}");
        assert_eq!(told.exited(code, signal), []);
    }
}

#[test]
fn a_process_that_fails_is_an_error_with_its_last_words() {
    let mut told = Conversation::by(Agent::Codex);
    told.cut_off();
    let message = "Codex process exited abnormally (code=3, signal=null): last words";
    assert_eq!(told.exited(Some(3), None), [Event::error(message)]);
    let mut told = Conversation::by(Agent::Claude);
    told.cut_off();
    let message = "Claude process exited abnormally (code=null, signal=11): last words";
    assert_eq!(told.exited(None, Some(11)), [Event::error(message)]);
}

#[test]
fn nothing_follows_the_end_of_a_turn() {
    let mut told = Conversation::by(Agent::Claude);
    told.line(json!({}), &[text("Not logged in")]);
    let failed = json!({"type": "turn_ended", "reason": "failed", "message": "Not logged in"});
    let events = told.line(json!({"type": "result", "is_error": true}), &[failed]);
    assert!(matches!(&events[..], [Event::Result { .. }]), "{events:?}");
    assert_eq!(told.line(json!({"type": "system", "subtype": "late"}), &[text("late")]), []);
    assert_eq!(told.exited(Some(1), None), []);
    told.fact(json!({"type": "turn", "number": 2}));
    assert_eq!(told.line(json!({}), &[text("next")]).len(), 1, "another turn");
}

#[test]
fn an_error_that_ends_a_turn_is_its_one_end() {
    let mut told = Conversation::by(Agent::Claude);
    let error = json!({"type": "error", "message": "gone", "fatal": true, "kind": "resume"});
    let failed = json!({"type": "turn_ended", "reason": "failed"});
    let events = told.line(json!({"type": "result", "is_error": true}), &[error, failed]);
    assert_eq!(events, [Event::error("gone")]);
    assert_eq!(told.exited(Some(1), None), []);
}

#[test]
fn trouble_that_another_process_gets_over_is_a_notice() {
    let mut told = Conversation::by(Agent::Codex);
    let error = json!({"type": "error", "message": "gone", "fatal": true, "kind": "resume"});
    assert_eq!(told.line(json!({}), &[error]), []);
    let process = json!({"type": "process", "source": 2, "drive": "oneshot", "settings": {"autonomy": "all"}});
    assert_eq!(told.fact(process), [Event::notice("gone")]);
    let line = json!({"type": "error", "message": "a line was too long", "fatal": false, "kind": "line"});
    assert_eq!(told.line(json!({}), &[line]), [Event::notice("a line was too long")]);
}

#[test]
fn half_an_answer_that_nobody_stopped_is_an_error() {
    for (code, signal) in [(Some(143), None), (Some(0), None), (None, Some(15)), (None, Some(9)), (None, None)] {
        let mut told = Conversation::by(Agent::Claude);
        told.cut_off();
        let events = told.exited(code, signal);
        assert!(matches!(&events[..], [Event::Error { .. }]), "{code:?} {signal:?} {events:?}");
    }
}

#[test]
fn a_failure_that_nobody_has_heard_of_is_told() {
    let mut told = Conversation::by(Agent::Codex);
    let failed = json!({"type": "turn_ended", "reason": "failed", "message": "quota"});
    assert_eq!(told.line(json!({"type": "turn.failed"}), &[failed]), [Event::error("quota")]);
}

#[test]
fn a_program_that_does_not_start_is_told_once() {
    let mut told = Conversation { translator: Translator::new(Agent::Claude, None), raw: Vec::new(), record: 0 };
    told.fact(json!({"type": "turn", "number": 1}));
    assert_eq!(told.exited(None, None), []);
    let why = json!({"type": "error", "message": "Failed to spawn claude", "fatal": false, "kind": "agent"});
    assert_eq!(told.fact(json!({"type": "said", "event": why})), []);
    let failed = json!({"type": "turn_ended", "reason": "failed"});
    assert_eq!(told.fact(json!({"type": "said", "event": failed})), [Event::error("Failed to spawn claude")]);
}

#[test]
fn a_turn_whose_process_was_lost_is_an_error_and_one_that_was_stopped_is_interrupted() {
    let lost = json!({"type": "said", "event": {"type": "turn_ended", "reason": "interrupted"}});
    assert_eq!(Conversation::by(Agent::Claude).fact(lost.clone()), [Event::error(INTERRUPTED)]);
    let mut told = Conversation::by(Agent::Claude);
    told.fact(json!({"type": "interrupt", "number": 1, "end_process": true}));
    assert_eq!(told.fact(lost), [Event::Interrupted]);
}

fn asked(ask: &str, call: Option<&str>) -> Value {
    let questions = match ask {
        "question" => {
            json!([{"id": "q", "header": "H", "question": "Which?", "options": [{"label": "A"}], "several": true}])
        }
        _ => json!([]),
    };
    json!({"type": "asked", "request": "r", "ask": ask, "tool": "Bash", "title": "Bash: ls", "input": {"command": "ls"},
        "tool_call": call, "can": {}, "questions": questions})
}

#[test]
fn a_question_is_shown_as_heads_show_it_and_only_once() {
    let mut told = Conversation::by(Agent::Codex);
    assert_eq!(
        shown(&told.line(json!({}), &[asked("question", None)])),
        [concat!(
            r#"{"type":"tool_use","tool":"AskUserQuestion","input":{"questions":[{"question":"Which?","header":"H","#,
            r#""options":[{"label":"A","description":""}],"multiSelect":true}]}}"#
        )]
    );
    let mut told = Conversation::by(Agent::Claude);
    assert_eq!(told.line(json!({}), &[call("AskUserQuestion")]).len(), 1);
    assert_eq!(told.line(json!({}), &[asked("question", Some("AskUserQuestion"))]), []);
}

#[test]
fn a_permission_shows_as_the_tool_and_how_to_decide() {
    let mut told = Conversation::by(Agent::Claude);
    assert_eq!(told.line(json!({}), &[call("Bash")]).len(), 1);
    assert_eq!(told.line(json!({}), &[asked("permission", Some("Bash"))]), []);
    let notice = told.fact(json!({"type": "approval", "request": "r", "source": 1, "approval": "a123"}));
    assert_eq!(
        shown(&notice),
        [r#"{"type":"text","content":"Waiting for permission: Bash: ls\nDecide with `ostler approve a123`."}"#]
    );
    let mut told = Conversation::by(Agent::Codex);
    assert_eq!(told.line(json!({}), &[asked("permission", None)]).len(), 1);
}

#[test]
fn output_of_tools_is_shown_for_agents_that_do_not_show_it_themselves() {
    let result = json!({"type": "tool_result", "id": "run_shell_command", "output": "out", "is_error": false});
    let mut told = Conversation::by(Agent::Gemini);
    assert_eq!(
        shown(&told.line(json!({}), &[call("run_shell_command")])),
        [r#"{"type":"tool_use","tool":"bash","input":{"x":1}}"#]
    );
    assert_eq!(
        shown(&told.line(json!({}), std::slice::from_ref(&result))),
        [r#"{"type":"tool_use","tool":"bash","message":"out"}"#]
    );
    assert_eq!(Conversation::by(Agent::Claude).line(json!({}), &[result]), []);
}
