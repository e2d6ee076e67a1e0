//! Talks to a real agent through its adapter, to see what a new version of a CLI does.
//!
//! `drive [--oneshot] [--resume ID] [--raw] AGENT AUTONOMY ANSWER STEP...`, in the current folder. ANSWER is what every
//! request hears: once, session, deny, stop, changed:JSON, answer:LABEL, wait (interrupts instead). STEP is `p:TEXT` (a turn),
//! `f:FILE` (a turn with what is in it) or `i:TEXT` (a turn that is interrupted at its first piece). Events go to stdout.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a tool for developers")]

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ostler_agents::{Adapter, Piece, Setup, Splitter, open};
use ostler_story::{Agent, Asked, Autonomy, Block, Decision, Drive, Event};

/// A slow machine under load needs half a minute to start some of them.
const LIMIT: Duration = Duration::from_secs(60);

struct Session {
    adapter: Box<dyn Adapter>,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    answer: String,
    raw: bool,
    began: Instant,
}

impl Session {
    fn write(&mut self, bytes: &[u8]) {
        if self.raw && !bytes.is_empty() {
            eprint!("> {}", String::from_utf8_lossy(bytes));
        }
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(bytes).expect("the agent reads");
        }
    }

    /// Takes one line; false at the end of the output.
    fn step(&mut self, interrupt: &mut bool) -> Option<Vec<Event>> {
        let Ok(line) = self.lines.recv_timeout(LIMIT) else { return None };
        if self.raw {
            eprintln!("< {}", String::from_utf8_lossy(&line).chars().take(600).collect::<String>());
        }
        let lined = self.adapter.line(&line);
        self.write(&lined.reply);
        for event in &lined.events {
            println!("{:6} {}", self.began.elapsed().as_millis(), serde_json::to_string(event).unwrap());
            if let Event::Asked(asked) = event {
                self.decide(asked);
            }
            if *interrupt && matches!(event, Event::TextDelta { .. }) {
                *interrupt = false;
                let bytes = self.adapter.interrupt().expect("a turn is running");
                self.write(&bytes);
            }
        }
        Some(lined.events)
    }

    fn decide(&mut self, asked: &Asked) {
        let deny = |interrupt| Decision::Deny { message: "not that".into(), interrupt };
        let answer = match self.answer.split_once(':').unwrap_or((&self.answer, "")) {
            ("once", _) => Decision::Once,
            ("session", _) => Decision::Session,
            ("deny", _) => deny(false),
            ("stop", _) => deny(true),
            ("changed", json) => Decision::Changed { input: serde_json::from_str(json).expect("JSON") },
            ("answer", label) => {
                let answers = asked.questions.iter().map(|q| (q.id.clone(), vec![label.to_owned()])).collect();
                Decision::Answers { answers }
            }
            _ => {
                let bytes = self.adapter.interrupt().expect("a turn is running");
                return self.write(&bytes);
            }
        };
        let bytes = self.adapter.answer(&asked.request, &answer).expect("an answer");
        self.write(&bytes);
    }

    fn turn(&mut self, text: &str, mut interrupt: bool) {
        while !self.adapter.can_prompt() {
            self.step(&mut false).expect("the agent opens");
        }
        let bytes = self.adapter.prompt(&[Block::Text { text: text.to_owned() }]).expect("a prompt");
        self.write(&bytes);
        if self.adapter.launch().close_stdin_after_prompt {
            self.stdin = None;
        }
        while let Some(events) = self.step(&mut interrupt) {
            if events.iter().any(|event| matches!(event, Event::TurnEnded { .. })) {
                return;
            }
        }
        println!("       at the end: {:?}", self.adapter.ended());
    }
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| args.iter().position(|arg| arg == name).map(|at| args.remove(at)).is_some();
    let (oneshot, raw) = (flag("--oneshot"), flag("--raw"));
    let resume = args.iter().position(|arg| arg == "--resume").map(|at| args.drain(at..at + 2).nth(1).unwrap());
    let mut args = args.into_iter();
    let mut next = || args.next().expect("AGENT AUTONOMY ANSWER STEP...");
    let name = next();
    let agent = match name.as_str() {
        "claude" => Agent::Claude,
        "codex" => Agent::Codex,
        "gemini" => Agent::Gemini,
        "opencode" => Agent::Opencode,
        command => Agent::acp(command.split(' ').map(str::to_owned).collect()),
    };
    let drive = match agent {
        _ if oneshot => Drive::Oneshot,
        Agent::Claude => Drive::Stream,
        Agent::Codex => Drive::AppServer,
        _ => Drive::Acp,
    };
    let autonomy: Autonomy = serde_json::from_value(next().into()).expect("all, edits, plan or ask");
    let answer = next();
    let cwd = std::env::current_dir().unwrap().to_str().unwrap().to_owned();
    let new_session_id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned();
    let model = std::env::var("DRIVE_MODEL").ok();
    let setup = Setup { agent, program: None, cwd, model, autonomy, resume, new_session_id, raw_mode: None };
    let mut adapter = open(&setup, drive).expect("supported");
    let launch = adapter.launch();
    println!("{} {}", launch.program, launch.args.join(" "));
    let mut child = Command::new(&launch.program)
        .args(&launch.args)
        .envs(launch.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let (sender, lines) = channel();
    let mut stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 1 << 16]);
        while let Ok(n @ 1..) = stdout.read(&mut buffer) {
            splitter.push(buffer.get(..n).unwrap(), |_, piece| {
                if let Piece::Line(line) = piece {
                    let _ = sender.send(line.to_vec());
                }
            });
        }
    });
    let stdin = child.stdin.take();
    let opening = adapter.opening();
    let mut session = Session { adapter, child, stdin, lines, answer, raw, began: Instant::now() };
    session.write(&opening);
    for step in args {
        match step.split_once(':') {
            Some(("p", text)) => session.turn(text, false),
            Some(("i", text)) => session.turn(text, true),
            Some(("f", path)) => session.turn(&std::fs::read_to_string(path).expect("a file"), false),
            _ => panic!("p:TEXT, i:TEXT or f:FILE"),
        }
    }
    session.stdin = None;
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end && session.child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = session.child.kill();
    println!("{:?}", session.child.wait().unwrap());
}
