//! The native door spoken to directly: what a client of one's own may rely on.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::cli_kit::{Home, kill, wait_for};
use serde_json::{Value, json};

/// A connection that sees every line.
struct Wire {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
    last_id: u64,
}

impl Wire {
    fn to(home: &Home) -> Self {
        let stream = UnixStream::connect(home.path("run/main.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Self { stream, lines, last_id: 0 }
    }

    fn write(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer, passing over notifications.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        loop {
            let line = self.read();
            if line["id"] == id {
                return line;
            }
        }
    }

    fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params.clone());
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].clone()
    }

    fn refused(&mut self, method: &str, params: Value) -> String {
        let answer = self.call(method, params.clone());
        let kind = answer["error"]["data"]["kind"].as_str();
        kind.unwrap_or_else(|| panic!("{method} {params}: {answer}")).to_owned()
    }

    fn spawn(&mut self, script: &str) -> String {
        let params = json!({"program": "/bin/sh", "args": ["-c", script]});
        self.ok("process.spawn", params)["id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn hello_agrees_on_a_version() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let hello = wire.ok("instance.hello", json!({"client": "a test", "version": 1}));
    assert_eq!((hello["version"].as_u64(), hello["instance"].as_str()), (Some(1), Some("main")));
    // A newer client is told what we speak; one older than anything is refused.
    assert_eq!(wire.ok("instance.hello", json!({"version": 99}))["version"], 1);
    assert_eq!(wire.refused("instance.hello", json!({"version": 0})), "refused");
}

#[test]
fn what_is_not_a_request_is_answered_and_harms_nothing() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    for line in ["{", "[]", "7", "\"x\"", "{\"id\":1}", "\u{1}", "{\"method\":7}"] {
        wire.write(line);
        assert_eq!(wire.read()["error"]["code"], -32600, "{line}");
    }
    assert_eq!(wire.refused("process.sing", json!({})), "unknown_method");
    assert_eq!(wire.refused("process.get", json!({})), "bad_params");
    assert_eq!(wire.refused("process.get", json!([1])), "bad_params");
    assert_eq!(wire.refused("process.get", json!({"id": "nobody"})), "not_found");
    assert_eq!(wire.refused("process.spawn", json!({"program": ""})), "bad_params");
    assert_eq!(wire.refused("process.spawn", json!({"program": "/bin/sh", "args": ["a\u{0}b"]})), "bad_params");
    assert_eq!(wire.refused("process.detach", json!({"watch": 5})), "not_found");
    wire.write("{\"id\":[1, \"x\"],\"method\":\"process.list\"}");
    assert_eq!(wire.read()["id"], json!([1, "x"]));
}

#[test]
fn the_document_names_every_method_that_answers() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let document = wire.ok("instance.openrpc", json!({}));
    assert_eq!(wire.ok("rpc.discover", json!({})), document);
    for method in document["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        if matches!(name, "instance.leave" | "instance.stop") {
            continue;
        }
        let answer = wire.call(name, json!({"id": "nobody"}));
        assert_ne!(answer["error"]["code"], -32601, "{name}");
    }
}

#[test]
fn a_watch_is_a_position_and_its_end_is_the_exit() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let id = wire.spawn("echo one; sleep 0.1; echo two >&2; sleep 0.1; exit 3");
    wait_for("its end", || home.process(&id)["state"] == "exited");
    let attached = wire.ok("process.attach", json!({"id": id}));
    assert_eq!((attached["watch"].as_u64(), attached["from"].as_u64()), (Some(1), Some(1)));
    let frames: Vec<Value> = (0..3).map(|_| wire.read()).collect();
    let stream = |index: usize| frames[index]["params"]["stream"].as_str();
    assert_eq!((stream(0), stream(1)), (Some("stdout"), Some("stderr")));
    assert_eq!(frames[0]["params"]["data"], "b25lCg==");
    assert_eq!((&frames[2]["method"], &frames[2]["params"]["exit"]["code"]), (&json!("process.exit"), &json!(3)));
    // From the middle, and from beyond the end: the exit is always told.
    wire.ok("process.attach", json!({"id": id, "from": 2}));
    assert_eq!(wire.read()["params"]["seq"], 2);
    assert_eq!(wire.read()["method"], "process.exit");
    wire.ok("process.attach", json!({"id": id, "from": 999}));
    assert_eq!(wire.read()["method"], "process.exit");
    wire.ok("process.attach", json!({"id": id, "tail": 4}));
    assert_eq!(wire.read()["params"]["seq"], 2);
}

#[test]
fn detach_ends_a_watch_and_not_the_process() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let id = wire.spawn("while read x; do echo $x; done");
    let watch = wire.ok("process.attach", json!({"id": id}))["watch"].clone();
    assert_eq!(wire.refused("process.attach", json!({"id": id})), "refused");
    wire.ok("process.stdin", json!({"id": id, "data": "YQo="}));
    assert_eq!(wire.read()["params"]["data"], "YQo=");
    wire.ok("process.detach", json!({"watch": watch}));
    wire.ok("process.stdin", json!({"id": id, "data": "Ygo="}));
    wait_for("the second line", || home.process(&id)["last_seq"] == 2);
    assert_eq!(wire.ok("process.get", json!({"id": id}))["state"], "running");
    // Nothing came in between: the next line is the answer to the next question.
    let asked = wire.ask("process.list", json!({}));
    assert_eq!(wire.read()["id"], asked);
    wire.ok("process.attach", json!({"id": id, "from": 2}));
    assert_eq!(wire.read()["params"]["seq"], 2);
}

#[test]
fn pipelined_stdin_keeps_its_order_and_offsets_make_repeats_harmless() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let id = wire.spawn("cat");
    let pieces: Vec<String> = (0..200).map(|n| format!("{n:03}\n")).collect();
    for piece in &pieces {
        let data = base64(piece.as_bytes());
        wire.ask("process.stdin", json!({"id": id, "data": data}));
    }
    let total = pieces.concat().len() as u64;
    wait_for("all of it", || home.process(&id)["stdout_bytes"] == total);
    assert_eq!(home.ok(&["logs", &id]), pieces.concat());
    let mut wire = Wire::to(&home);
    let again = wire.ok("process.stdin", json!({"id": id, "data": base64(b"199\n"), "offset": total - 4}));
    assert_eq!((&again["applied"], &again["duplicate"]), (&json!(total), &json!(true)));
    let answer = wire.call("process.stdin", json!({"id": id, "data": base64(b"x"), "offset": total + 5}));
    assert_eq!(
        (&answer["error"]["data"]["kind"], &answer["error"]["data"]["applied"]),
        (&json!("stdin_gap"), &json!(total))
    );
    wire.ok("process.close_stdin", json!({"id": id}));
    wire.ok("process.close_stdin", json!({"id": id}));
    wait_for("its end", || home.process(&id)["state"] == "exited");
    assert_eq!(home.process(&id)["stdout_bytes"], total);
}

#[test]
fn a_signal_with_a_key_is_sent_once() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let id = wire.spawn("trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done");
    home.wait_for_log(&id, "ready");
    // Two signals that wait to be heard are one.
    for (key, heard) in [("k", "usr1\n"), ("k", "usr1\n"), ("other", "usr1\nusr1\n")] {
        wire.ok("process.signal", json!({"id": id, "signal": 10, "scope": "process", "key": key}));
        home.wait_for_log(&id, heard);
    }
    assert_eq!(home.ok(&["logs", &id]), "ready\nusr1\nusr1\n");
    assert_eq!(wire.refused("process.signal", json!({"id": id, "signal": 0})), "bad_params");
}

#[test]
fn a_kill_is_answered_after_the_watcher_has_seen_the_exit() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let id = wire.spawn("trap 'seq 1 20000; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
    wire.ok("process.attach", json!({"id": id}));
    while wire.read()["params"]["data"] != "cmVhZHkK" {}
    let asked = wire.ask("process.kill", json!({"id": id}));
    let mut exited = false;
    loop {
        let line = wire.read();
        exited |= line["method"] == "process.exit";
        if line["id"] == asked {
            assert!(exited, "answered before the exit was seen");
            assert_eq!((&line["result"]["died"], &line["result"]["escalated"]), (&json!(true), &json!(false)));
            return;
        }
    }
}

#[test]
fn a_client_that_does_not_read_delays_nobody() {
    let home = Home::up();
    let mut lazy = Wire::to(&home);
    let id = lazy.spawn("seq 1 3000000; echo done >&2; sleep 100");
    lazy.ask("process.attach", json!({"id": id}));
    wait_for("the process to get ahead", || home.process(&id)["stderr_bytes"] == 5);
    let mut busy = Wire::to(&home);
    busy.ok("process.get", json!({"id": id}));
    // The lazy one has lost nothing.
    let mut bytes = 0;
    while bytes < 22_888_896 {
        let line = lazy.read();
        if line["method"] == "process.frame" && line["params"]["stream"] == "stdout" {
            bytes += decoded_length(line["params"]["data"].as_str().unwrap());
        }
    }
    assert_eq!(bytes, 22_888_896);
}

#[test]
fn another_doors_process_is_seen_and_ended_here() {
    let home = Home::up();
    let token = std::fs::read_to_string(home.path("state/instances/main/claustrum.token")).unwrap();
    let mut stream = UnixStream::connect(home.path("run/main-claustrum.sock")).unwrap();
    let spawn = json!({"jsonrpc": "2.0", "id": 1, "method": "process.spawn", "auth": token.trim(),
        "params": {"id": "a/b", "command": "sh", "args": ["-c", "echo there; sleep 100"]}});
    stream.write_all(format!("{spawn}\n").as_bytes()).unwrap();
    wait_for("the process", || home.json(&["ps"]).as_array().unwrap().len() == 1);
    let process = home.json(&["ps"])[0].clone();
    assert_eq!(process["alias"]["id"], "a/b");
    let id = process["id"].as_str().unwrap();
    home.wait_for_log(id, "there\n");
    home.ok(&["kill", id, "--wait"]);
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"exit\"")), "the other door hears of the end");
}

#[test]
fn a_daemon_that_dies_closes_the_connection_and_the_next_one_goes_on() {
    let home = Home::up();
    let mut wire = Wire::to(&home);
    let id = wire.spawn("while read x; do echo got $x; done");
    wire.ok("process.stdin", json!({"id": id, "data": base64(b"1\n"), "offset": 0}));
    let daemon = home.daemon_pid();
    kill(daemon, 9);
    wait_for("the next daemon", || home.run(&["status"]).code == 0 && home.daemon_pid() != daemon);
    let mut wire = Wire::to(&home);
    let again = wire.ok("process.stdin", json!({"id": id, "data": base64(b"1\n"), "offset": 0}));
    assert_eq!(again["duplicate"], true);
    wire.ok("process.stdin", json!({"id": id, "data": base64(b"2\n"), "offset": 2}));
    home.wait_for_log(&id, "got 2\n");
    assert_eq!(home.ok(&["logs", &id]), "got 1\ngot 2\n");
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|chunk| {
            let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
            (0..4).map(
                move |at| {
                    if at > chunk.len() { '=' } else { char::from(LETTERS[(word >> (18 - 6 * at) & 63) as usize]) }
                },
            )
        })
        .collect()
}

fn decoded_length(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}
