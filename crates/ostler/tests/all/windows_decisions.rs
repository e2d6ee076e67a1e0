//! The daemon is killed exactly between a recorded yes and its record of having carried it out: the command runs once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::cli_kit::hooked::Hooked;
use crate::cli_kit::pty::Terminal;
use crate::cli_kit::{Home, wait_for};
use serde_json::{Value, json};

/// Asks for a command that leaves a line behind each time it runs.
fn ask(home: &Home) -> (Value, UnixStream) {
    let line = format!("echo ran >> {}", home.path("ran").display());
    let request = json!({
        "id": "one", "host": "h", "session": "s", "reason": "r", "env": {}, "time": ostler_api::Timestamp::now().to_string(),
        "pipeline": [["sh", "-c", line]], "privileged": false, "forward_agent": false,
    });
    let stream = send(home, &request);
    (request, stream)
}

fn send(home: &Home, request: &Value) -> UnixStream {
    let record = std::fs::read(home.path("state/instances/main/instance.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let doors = record["doors"].as_array().unwrap();
    let door = doors.iter().find(|door| door["name"] == "sudo-proxy").unwrap();
    let mut stream = UnixStream::connect(door["address"].as_str().unwrap()).unwrap();
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    stream
}

fn answer(mut stream: UnixStream) -> Value {
    stream.set_read_timeout(Some(crate::cli_kit::SOON)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// The id of what waits.
fn waiting(home: &Home) -> String {
    let mut id = None;
    wait_for("a request", || {
        let all = home.json(&["approvals", "--list"]);
        id = all[0]["id"].as_str().map(str::to_owned);
        id.is_some()
    });
    id.unwrap()
}

/// How many processes of this home are there to carry out a command.
fn runners(home: &Home) -> usize {
    let folder = home.path("state");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let words = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    words.filter(|words| words.contains("__stages") && words.contains(folder.to_str().unwrap())).count()
}

fn runs(home: &Home) -> usize {
    std::fs::read_to_string(home.path("ran")).unwrap_or_default().lines().count()
}

/// Presses y until it is taken: one pressed too soon does not count.
fn approve(home: &Home, id: &str, taken: impl Fn() -> bool) -> Terminal {
    let mut terminal = Terminal::run(home, &["approve", id]);
    terminal.expect("[y/N]");
    wait_for("the key is taken", || {
        if !taken() {
            terminal.type_in("y");
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        taken()
    });
    terminal
}

fn runs_once_when_killed_at(hook: &str) {
    let hooked = Hooked::up();
    let home = &hooked.home;
    let (request, stream) = ask(home);
    let id = waiting(home);
    hooked.set(hook);
    let hit = home.path("hooks").join(format!("{hook}.hit"));
    let _terminal = approve(home, &id, || hit.exists());
    hooked.kill_at(hook);
    drop(stream);
    let answer = answer(send(home, &request));
    assert_eq!(answer["status"], "ok", "{answer}");
    assert_eq!(runs(home), 1);
    home.ok(&["audit", "--verify"]);
    let audit = home.ok(&["audit"]);
    assert_eq!(audit.matches(" applied ").count(), 1, "{audit}");
    home.ok(&["down", "--kill"]);
}

#[test]
fn a_daemon_killed_before_it_tells_the_runner_that_waits_has_run_nothing_yet() {
    runs_once_when_killed_at("approval.telling");
}

#[test]
fn a_daemon_killed_after_it_told_the_runner_does_not_run_it_again() {
    runs_once_when_killed_at("approval.started");
}

#[test]
fn a_runner_that_waits_is_no_process_and_ends_with_its_question() {
    let home = Home::up();
    let (_, stream) = ask(&home);
    let id = waiting(&home);
    wait_for("a runner waits", || runners(&home) == 1);
    assert_eq!(home.json(&["ps", "-a"]).as_array().unwrap().len(), 0);
    let mut terminal = Terminal::run(&home, &["deny", &id]);
    assert_eq!(terminal.wait(), 0, "{}", terminal.screen());
    assert_eq!(answer(stream)["status"], "denied");
    wait_for("the runner is gone", || runners(&home) == 0);
    assert_eq!(runs(&home), 0);
    home.ok(&["down", "--kill"]);
}
