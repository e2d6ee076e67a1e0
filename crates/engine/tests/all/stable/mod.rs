//! A bench for sessions: the test program is keeper, daemon and echo agent too, depending on how it is called. A daemon is a
//! child that can be killed; it is spoken to in JSON lines, and what it did is read from the session's journal.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod daemon;

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ostler_agents::echo;
use serde_json::{Value, json};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub type Test = (&'static str, fn());

#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

/// Becomes what it is called as, or runs the tests whose names contain the first argument.
pub fn main(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [name, ..] if *name == ostler_keeper::NAME => return ostler_keeper::run(),
        [_, verb, rest @ ..] if *verb == echo::VERB => {
            let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
            let program = echo::Program::from_args(&rest).unwrap();
            return ExitCode::from(u8::from(echo::run(&program, std::io::stdin(), std::io::stdout()).is_err()));
        }
        [_, "__daemon", dir] => return daemon::run(Path::new(dir)),
        _ => {}
    }
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().skip(1).find(|argument| !argument.starts_with('-'));
    let (mut ran, mut failed) = (0, 0);
    for (name, test) in tests.iter().filter(|(name, _)| wanted.is_none_or(|wanted| name.contains(wanted.as_str()))) {
        let start = Instant::now();
        let outcome = std::panic::catch_unwind(test);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.2} s)", start.elapsed().as_secs_f64());
        ran += 1;
        failed += usize::from(outcome.is_err());
    }
    println!("\ntest result: {}. {} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" }, ran - failed);
    ExitCode::from(u8::from(failed > 0))
}

/// An instance folder, and the daemon that serves it at the moment.
pub struct Stable {
    dir: tempfile::TempDir,
    daemon: RefCell<Option<Daemon>>,
}

struct Daemon {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Stable {
    pub fn new() -> Self {
        let stable = Self { dir: tempfile::tempdir().unwrap(), daemon: RefCell::default() };
        std::fs::create_dir(stable.path("hooks")).unwrap();
        stable.up();
        stable
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a daemon and waits until it answers.
    pub fn up(&self) {
        let mut child = Command::new("/proc/self/exe")
            .arg("__daemon")
            .arg(self.dir.path())
            .env("OSTLER_HOOKS", self.path("hooks"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        *self.daemon.borrow_mut() = Some(Daemon { child, stdin, stdout });
        assert_eq!(self.ask(json!({"do": "hello"})), json!("hello"));
    }

    /// SIGKILL.
    pub fn kill(&self) {
        if let Some(mut daemon) = self.daemon.borrow_mut().take() {
            daemon.child.kill().unwrap();
            daemon.child.wait().unwrap();
        }
    }

    pub fn restart(&self) {
        self.kill();
        self.up();
    }

    /// Asks and waits for the answer.
    pub fn ask(&self, what: Value) -> Value {
        self.try_ask(&what).unwrap_or_else(|| panic!("no answer to {what}"))
    }

    /// Nothing if the daemon is killed meanwhile.
    pub fn try_ask(&self, what: &Value) -> Option<Value> {
        let mut slot = self.daemon.borrow_mut();
        let daemon = slot.as_mut().expect("a daemon");
        writeln!(daemon.stdin, "{what}").ok()?;
        let mut line = String::new();
        daemon.stdout.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Tells without waiting.
    pub fn tell(&self, what: &Value) {
        let mut slot = self.daemon.borrow_mut();
        writeln!(slot.as_mut().expect("a daemon").stdin, "{what}").unwrap();
    }

    pub fn session(&self, more: Value) -> String {
        let mut what = json!({"do": "new"});
        what.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask(what).as_str().unwrap().to_owned()
    }

    pub fn prompt(&self, id: &str, text: &str) -> Value {
        self.ask(json!({"do": "prompt", "id": id, "text": text}))
    }

    pub fn view(&self, id: &str) -> Value {
        self.ask(json!({"do": "view", "id": id}))
    }

    /// Waits until the session is at this status.
    pub fn wait(&self, id: &str, status: &str) -> Value {
        let mut seen = Value::Null;
        wait_until(&format!("{id} is {status}"), || {
            seen = self.view(id);
            seen["status"] == status
        });
        seen
    }

    /// Everything that the session's journal says, in order.
    pub fn said(&self, id: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("sessions").join(id).join("events")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Of this type.
    pub fn of(&self, id: &str, kind: &str) -> Vec<Value> {
        self.said(id).into_iter().filter(|said| said["type"] == kind).collect()
    }

    /// Makes every daemon stop at this hook.
    pub fn set(&self, hook: &str) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let fifo = self.path("hooks").join(hook);
        rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    /// Waits until the daemon stands at the hook, kills it there, and starts the next.
    pub fn kill_at(&self, hook: &str) {
        let hit = self.path("hooks").join(format!("{hook}.hit"));
        wait_until(&format!("a daemon at {hook}"), || hit.exists());
        std::fs::remove_file(self.path("hooks").join(hook)).unwrap();
        self.restart();
    }
}

impl Drop for Stable {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.try_ask(&json!({"do": "stop"}));
        }
        self.kill();
    }
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
