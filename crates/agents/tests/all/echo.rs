//! The built-in agent: the program itself behind its adapter, over real pipes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use ostler_story::{Agent, Ask, Autonomy, Decision, Drive, EndReason, Event, PlanStatus};

use crate::support::{Live, NEW_ID, setup, text};
use ostler_agents::{Adapter, echo, open};
use serde_json::json;

/// Far beyond what any machine needs.
const LIMIT: Duration = Duration::from_secs(30);

/// The program at work.
struct Agent1 {
    adapter: Box<dyn Adapter>,
    stdin: Option<PipeWriter>,
    lines: Receiver<Vec<u8>>,
}

impl Agent1 {
    fn start(autonomy: Autonomy) -> Self {
        let adapter = open(&setup(Agent::Echo, autonomy), Drive::Echo).unwrap();
        let launch = adapter.launch();
        let (verb, args) = launch.args.split_first().unwrap();
        assert_eq!(verb, echo::VERB);
        let program = echo::Program::from_args(args).unwrap();
        let (their_stdin, stdin) = std::io::pipe().unwrap();
        let (stdout, their_stdout) = std::io::pipe().unwrap();
        thread::spawn(move || echo::run(&program, their_stdin, their_stdout));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n') {
                let _ = sender.send(line.unwrap());
            }
        });
        Agent1 { adapter, stdin: Some(stdin), lines }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn prompt(&mut self, words: &str) {
        let bytes = self.adapter.prompt(&text(words)).unwrap();
        self.write(&bytes);
    }

    fn answer(&mut self, request: &str, answer: &Decision) {
        let bytes = self.adapter.answer(request, answer).unwrap();
        self.write(&bytes);
    }

    /// Everything up to and with the first event that `last` knows.
    fn until(&mut self, last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let lined = self.adapter.line(&self.lines.recv_timeout(LIMIT).unwrap());
            self.write(&lined.reply);
            events.extend(lined.events);
            if events.last().is_some_and(&last) {
                return events;
            }
        }
    }

    fn turn(&mut self) -> Vec<Event> {
        self.until(|event| matches!(event, Event::TurnEnded { .. }))
    }

    fn request(&mut self) -> String {
        match self.until(|event| matches!(event, Event::Asked(_))).pop() {
            Some(Event::Asked(asked)) => asked.request,
            other => panic!("{other:?}"),
        }
    }
}

fn ended(events: &[Event]) -> EndReason {
    match events.last() {
        Some(Event::TurnEnded { reason, .. }) => *reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_says_back_what_it_is_told_in_pieces_and_whole() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("good  morning\n\u{1F40E}");
    let events = agent.turn();
    assert!(matches!(&events[0], Event::Started { agent_session: Some(id), .. } if id == NEW_ID));
    let pieces: Vec<&str> = events
        .iter()
        .filter_map(|e| if let Event::TextDelta { text } = e { Some(text.as_str()) } else { None })
        .collect();
    assert!(pieces.len() > 2);
    assert_eq!(pieces.concat(), "good  morning\n\u{1F40E}");
    assert!(events.contains(&Event::Text { text: pieces.concat() }));
    assert_eq!(ended(&events), EndReason::Completed);
    assert!(agent.adapter.can_prompt());
}

#[test]
fn it_obeys_words() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("THINK TOOL PLAN TOOL SLOW:1");
    let events = agent.turn();
    let has = |what: fn(&Event) -> bool| events.iter().filter(|event| what(event)).count();
    assert_eq!(has(|e| matches!(e, Event::Thought { .. })), 1);
    assert_eq!(has(|e| matches!(e, Event::ToolResult { is_error: false, .. })), 2);
    assert_eq!(has(|e| matches!(e, Event::Plan { entries } if entries[0].status == PlanStatus::Done)), 1);
    assert_eq!(has(|e| *e == Event::Text { text: "1 ".into() }), 1);
    agent.prompt("FAIL now");
    assert_eq!(ended(&agent.turn()), EndReason::Failed);
}

#[test]
fn it_asks_and_takes_every_answer() {
    let mut agent = Agent1::start(Autonomy::Ask);
    let deny = |interrupt| Decision::Deny { message: "not now".into(), interrupt };
    for (answer, words, failed, end) in [
        (Decision::Once, "pretended to write", false, EndReason::Completed),
        (Decision::Changed { input: json!({ "what": "x" }) }, r#"{"what":"x"}"#, false, EndReason::Completed),
        (deny(false), "denied: not now", true, EndReason::Completed),
        (deny(true), "denied: not now", true, EndReason::Interrupted),
    ] {
        agent.prompt("ASK");
        let request = agent.request();
        agent.answer(&request, &answer);
        let events = agent.turn();
        let Event::ToolResult { output, is_error, .. } = &events[0] else { panic!("{events:?}") };
        assert!(output.contains(words) && *is_error == failed, "{output}");
        assert_eq!(ended(&events), end);
    }
}

#[test]
fn words_may_say_more_after_a_colon() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("ASK:push_the_branch");
    let asked = agent.until(|event| matches!(event, Event::Asked(_)));
    let Some(Event::Asked(asked)) = asked.last() else { panic!("{asked:?}") };
    assert_eq!(asked.title, "pretend to push the branch");
    let request = asked.request.clone();
    agent.answer(&request, &Decision::Once);
    agent.turn();
    agent.prompt("FAIL:no_tests");
    let events = agent.turn();
    assert!(matches!(events.last(), Some(Event::TurnEnded { message: Some(why), .. }) if why == "no tests"));
    assert_eq!(ended(&events), EndReason::Failed);
}

#[test]
fn a_file_of_the_workspace_is_read_out_instead_of_the_prompt() {
    let mut agent = Agent1::start(Autonomy::Ask);
    // Tests run in the folder of their crate.
    agent.prompt("READ:Cargo.toml");
    let whole = std::fs::read_to_string("Cargo.toml").unwrap();
    assert!(agent.turn().contains(&Event::Text { text: whole }));
    agent.prompt("READ:is-not-there");
    assert_eq!(ended(&agent.turn()), EndReason::Failed);
    agent.prompt("READ:../Cargo.toml");
    assert!(agent.turn().contains(&Event::Text { text: "READ:../Cargo.toml".into() }));
}

#[test]
fn nothing_is_written_without_a_yes() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("WRITE:never-written");
    let request = agent.request();
    agent.answer(&request, &Decision::Deny { message: "no".into(), interrupt: false });
    assert_eq!(ended(&agent.turn()), EndReason::Completed);
    assert!(!std::path::Path::new("never-written").exists());
}

#[test]
fn it_questions_and_is_told() {
    let mut agent = Agent1::start(Autonomy::All);
    agent.prompt("QUESTION");
    let request = agent.request();
    let answers = BTreeMap::from([("colour".to_owned(), vec!["blue".to_owned()])]);
    agent.answer(&request, &Decision::Answers { answers });
    assert!(agent.turn().contains(&Event::Text { text: "You chose blue.".into() }));
}

#[test]
fn all_lets_it_without_asking_anybody() {
    let mut agent = Agent1::start(Autonomy::All);
    agent.prompt("ASK");
    let events = agent.turn();
    assert!(events.iter().any(|event| matches!(event, Event::Granted { .. })));
    assert!(!events.iter().any(|event| matches!(event, Event::Asked(asked) if asked.ask == Ask::Permission)));
    assert_eq!(ended(&events), EndReason::Completed);
}

#[test]
fn edits_lets_it_write_files_of_the_workspace_and_asks_for_the_rest() {
    let mut adapter = open(&setup(Agent::Echo, Autonomy::Edits), Drive::Echo).unwrap();
    let mut asks = |request: &str, tool: &str, input: serde_json::Value| {
        let asked = json!({ "type": "asked", "request": request, "ask": "permission", "tool": tool, "title": "t", "input": input, "can": {} });
        adapter.line(asked.to_string().as_bytes()).events
    };
    assert!(matches!(asks("1", "write", json!({ "file_path": "notes.md" }))[..], [Event::Granted { .. }]));
    assert!(matches!(asks("2", "write", json!({ "file_path": "../notes.md" }))[..], [Event::Asked(_)]));
    assert!(matches!(asks("3", "pretend", json!({ "what": "write" }))[..], [Event::Asked(_)]));
}

#[test]
fn it_can_be_stopped_in_the_middle_and_while_it_asks() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("SLOW:30000");
    agent.until(|event| matches!(event, Event::TextDelta { .. }));
    let bytes = agent.adapter.interrupt().unwrap();
    agent.write(&bytes);
    assert_eq!(ended(&agent.turn()), EndReason::Interrupted);
    agent.prompt("ASK");
    let request = agent.request();
    let bytes = agent.adapter.interrupt().unwrap();
    agent.write(&bytes);
    let events = agent.turn();
    assert!(events.contains(&Event::Unasked { request }));
    assert_eq!(ended(&events), EndReason::Interrupted);
}

#[test]
fn it_finishes_what_it_began_when_its_stdin_ends() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("bye");
    agent.stdin = None;
    let events: Vec<Event> = agent.lines.iter().flat_map(|line| agent.adapter.line(&line).events).collect();
    assert_eq!(ended(&events), EndReason::Completed);
    assert!(agent.adapter.ended().is_empty());
}

#[test]
fn its_adapter_is_rebuilt_from_ledger_and_output() {
    for autonomy in [Autonomy::All, Autonomy::Ask] {
        let mut live = Live::new(setup(Agent::Echo, autonomy), Drive::Echo);
        live.prompt("ASK").unwrap();
        let asked = json!({ "type": "asked", "request": "ask-1", "ask": "permission", "tool": "pretend", "title": "t", "input": {}, "can": {} });
        live.says(asked.to_string());
        if autonomy == Autonomy::Ask {
            live.answer("ask-1", &Decision::Session).unwrap();
        }
        live.tells(json!({ "type": "turn_ended", "reason": "completed" }));
        live.prompt("more").unwrap();
        live.rebuild_everywhere();
    }
}

#[test]
fn every_event_reads_as_it_was_written() {
    let mut agent = Agent1::start(Autonomy::Ask);
    agent.prompt("THINK TOOL PLAN FAIL");
    for event in agent.turn() {
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    }
}
