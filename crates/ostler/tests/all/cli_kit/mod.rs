//! A private ostler per test: its own state, runtime and home folders, and nothing left running afterwards.
#![allow(dead_code, reason = "every test file uses its own part")]

pub(crate) mod hooked;
pub(crate) mod pty;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Generous: a loaded machine must not make a sound program fail.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const OSTLER: &str = env!("CARGO_BIN_EXE_ostler");

/// A user's machine with nothing on it yet.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        // Short, so that socket paths are what they usually are.
        let dir = tempfile::Builder::new().prefix("o").tempdir().unwrap();
        for name in ["state", "home", "xdg"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    /// With a daemon running.
    pub(crate) fn up() -> Self {
        let home = Self::new();
        home.ok(&["up"]);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(OSTLER);
        self.prepare(&mut command);
        command.args(args);
        command
    }

    /// Gives any command this home's surroundings.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.path("home"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            // Other programs' sockets are looked for here: never in the real one of whoever runs the tests.
            .env("XDG_RUNTIME_DIR", self.path("xdg"))
            .env("OSTLER_STATE", self.path("state"))
            .env("OSTLER_RUNTIME", self.path("run"))
            .env("OSTLER_CONFIG", self.path("config.toml"))
            .env("TERM", "xterm")
            .stdin(Stdio::null());
    }

    /// Runs to the end, however it ends.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        said(self.command(args).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        said(output)
    }

    /// Runs and must succeed; gives back what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "ostler {args:?}: {said:?}");
        said.out
    }

    /// Runs with `--json` and must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn daemon_pid(&self) -> u32 {
        number(&self.json(&["status"])[0]["pid"])
    }

    pub(crate) fn keeper_pid(&self) -> u32 {
        number(&self.json(&["status"])[0]["keeper_pid"])
    }

    /// The process with this name, as `ps -a` knows it.
    pub(crate) fn process(&self, name: &str) -> Value {
        let all = self.json(&["ps", "-a"]);
        let found = all.as_array().unwrap().iter().find(|process| process["name"] == name || process["id"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {all}")).clone()
    }

    /// Starts something in the background and gives back its full id.
    pub(crate) fn start(&self, name: &str, script: &str) -> String {
        self.ok(&["run", "-d", "--name", name, "--", "sh", "-c", script]).trim().to_owned()
    }

    /// Waits until the whole log of a process holds `text`.
    pub(crate) fn wait_for_log(&self, id: &str, text: &str) -> String {
        let mut log = String::new();
        wait_for(&format!("{text:?} in the log of {id}"), || {
            log = self.ok(&["logs", id]);
            log.contains(text)
        });
        log
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let marker = format!("OSTLER_STATE={}", self.path("state").display());
        // Keepers have an empty environment on purpose: a daemon knows its own, and children are theirs.
        let told = self.run(&["status", "--json"]).out;
        let told: Vec<Value> = serde_json::from_str(&told).unwrap_or_default();
        let mut keepers: Vec<u32> = told.iter().map(|status| number(&status["keeper_pid"])).collect();
        let deadline = Instant::now() + SOON;
        // Keeper and daemon bring each other back: the daemon at once, the keeper after a moment, so that one goes last.
        loop {
            let own = processes_with(&marker);
            keepers.extend(own.iter().filter_map(|pid| parent(*pid)).filter(|pid| is_keeper(*pid)));
            keepers.retain(|pid| is_keeper(*pid));
            if (own.is_empty() && keepers.is_empty()) || Instant::now() > deadline {
                return;
            }
            own.iter().chain(&keepers).for_each(|pid| kill(*pid, 9));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(crate) fn kill(pid: u32, signal: i32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let signal = rustix::process::Signal::from_named_raw(signal).unwrap();
    // It may have ended by itself.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Whether it does something when this signal comes: before that it would just end.
pub(crate) fn catches(pid: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1)
}

/// The first line that it says; the rest is left where it is.
pub(crate) fn first_line(child: &mut Child) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    let out = child.stdout.as_mut().unwrap();
    while line.last() != Some(&b'\n') && out.read(&mut byte).unwrap() == 1 {
        line.extend(byte);
    }
    String::from_utf8(line).unwrap()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until something becomes true.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {SOON:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))).unwrap()
}

fn said(output: Output) -> CommandOutput {
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    CommandOutput { code, out: text(output.stdout), err: text(output.stderr) }
}

/// Processes whose environment says that they belong to this home.
fn processes_with(marker: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes())
    };
    pids().filter(|pid| *pid != std::process::id()).filter(holds).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn is_keeper(pid: u32) -> bool {
    is_alive(pid)
        && std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("ostler-keeper"))
}

fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
