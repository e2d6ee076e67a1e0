//! A bench for tests that launch a real keeper. The test program is the keeper's program too: under
//! the keeper's name its main becomes the keeper, so `launch` finds it behind `/proc/self/exe`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod half;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ostler_keeper::{
    Adopted, ConnectError, Event, Hello, Keeper, RequestError, Scope, Signalled, SpawnError, SpawnSpec, Spawned,
    StdioKind, connect, launch,
};
use ostler_story::Exit;
use rustix::event::{PollFd, PollFlags, poll};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A test and its name.
pub type Test = (&'static str, fn());

/// Lists tests by name.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

/// Becomes the keeper, or runs the tests whose names contain the first argument.
pub fn main(tests: &[Test]) -> ExitCode {
    let mut arguments = std::env::args();
    if arguments.next().as_deref() == Some(ostler_keeper::NAME) {
        return ostler_keeper::run();
    }
    let arguments: Vec<String> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut failed = 0;
    let mut ran = 0;
    for (name, test) in tests {
        if wanted.is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        ran += 1;
        let start = Instant::now();
        let outcome = std::panic::catch_unwind(test);
        let took = start.elapsed();
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.2} s)", took.as_secs_f64());
        failed += usize::from(outcome.is_err());
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let passed = ran - failed;
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    ExitCode::from(u8::from(failed > 0))
}

/// A directory with a keeper in it, killed at the end together with whatever it hosts.
pub struct Stable {
    dir: tempfile::TempDir,
    keepers: std::cell::RefCell<Vec<u32>>,
}

/// A connected daemon.
pub struct Daemon {
    pub keeper: Keeper,
    pub events: Receiver<Event>,
}

impl Stable {
    pub fn new() -> Stable {
        let dir = tempfile::tempdir().unwrap();
        launch(dir.path()).unwrap();
        Stable { dir, keepers: std::cell::RefCell::default() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn launch(&self) {
        launch(self.path()).unwrap();
    }

    pub fn try_connect(&self) -> Result<(Daemon, Vec<Adopted>), ConnectError> {
        let (sender, events) = channel();
        let sender = std::sync::Mutex::new(sender);
        let hello = Hello { program: "test".into() };
        let (keeper, adopted) = connect(self.path(), hello, move |event| {
            let _ = sender.lock().unwrap().send(event);
        })?;
        self.keepers.borrow_mut().push(keeper.pid());
        Ok((Daemon { keeper, events }, adopted))
    }

    pub fn connect(&self) -> (Daemon, Vec<Adopted>) {
        self.connect_soon().unwrap()
    }

    /// Connects; the connection before may still be on its way out.
    fn connect_soon(&self) -> Result<(Daemon, Vec<Adopted>), ConnectError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_connect() {
                Err(ConnectError::Busy { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                other => return other,
            }
        }
    }
}

impl Drop for Stable {
    fn drop(&mut self) {
        if let Ok((daemon, adopted)) = self.connect_soon() {
            let (sender, receiver) = channel();
            let living = adopted.iter().filter(|child| child.exit.is_none());
            for child in living {
                daemon.keeper.signal(&child.key, 9, Scope::Tree, answer(sender.clone()));
            }
            drop(sender);
            while receiver.recv_timeout(PATIENCE).is_ok() {}
            for child in adopted {
                daemon.keeper.abandon(&child.key);
            }
            daemon.keeper.farewell();
        }
        for keeper in self.keepers.borrow().iter() {
            // A keeper that left is not hit: its name is checked.
            let name = std::fs::read_to_string(format!("/proc/{keeper}/comm")).unwrap_or_default();
            if name.trim() == ostler_keeper::NAME {
                wait_until("the keeper has ended", || !alive(*keeper));
            }
        }
    }
}

impl Daemon {
    pub fn spawn_with(&self, key: &str, spec: SpawnSpec, held: Vec<OwnedFd>) -> Result<Spawned, SpawnError> {
        let (sender, receiver) = channel();
        self.keeper.spawn(key, &spec, held, answer(sender));
        receiver.recv_timeout(PATIENCE).expect("an answer")
    }

    pub fn spawn(&self, key: &str, spec: SpawnSpec) -> Spawned {
        self.spawn_with(key, spec, Vec::new()).unwrap()
    }

    pub fn sh(&self, key: &str, script: &str) -> Spawned {
        self.spawn(key, sh(script))
    }

    pub fn signal(&self, key: &str, signal: i32, scope: Scope) -> Result<Signalled, RequestError> {
        let (sender, receiver) = channel();
        self.keeper.signal(key, signal, scope, answer(sender));
        receiver.recv_timeout(PATIENCE).expect("an answer")
    }

    pub fn exit(&self, wanted: &str) -> Exit {
        match self.event() {
            Event::Exited { key, exit } if key == wanted => exit,
            other => panic!("expected the exit of {wanted}, got {other:?}"),
        }
    }

    pub fn event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }
}

/// A callback that hands its answer to a waiting test.
pub fn answer<T: Send + 'static>(sender: Sender<T>) -> impl FnOnce(T) + Send + 'static {
    move |value| {
        let _ = sender.send(value);
    }
}

/// A shell script with pipes.
pub fn sh(script: &str) -> SpawnSpec {
    SpawnSpec { stdio: [StdioKind::Pipe; 3], ..command(&["/bin/sh", "-c", script]) }
}

/// A command with nothing on its stdio.
pub fn command(argv: &[&str]) -> SpawnSpec {
    SpawnSpec {
        program: PathBuf::from(argv[0]),
        argv: argv.iter().map(|argument| (*argument).into()).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/".into(),
        ..SpawnSpec::default()
    }
}

/// Reads a non-blocking descriptor until `enough` or its end.
pub fn read_until(fd: &OwnedFd, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut file = File::from(fd.try_clone().unwrap());
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    let deadline = Instant::now() + PATIENCE;
    while !enough(&all) {
        assert!(Instant::now() < deadline, "only got {all:?}");
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => all.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
                poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&second)).unwrap();
            }
            // What a terminal says when its last program is gone.
            Err(error) if error.raw_os_error() == Some(5) => break,
            Err(error) => panic!("{error}"),
        }
    }
    all
}

pub fn read_all(fd: &OwnedFd) -> String {
    String::from_utf8(read_until(fd, |_| false)).unwrap()
}

pub fn read_line(fd: &OwnedFd) -> String {
    String::from_utf8(read_until(fd, |all| all.contains(&b'\n'))).unwrap()
}

pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A number from a `/proc/PID/status` line, as it stands there.
pub fn status(pid: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}
