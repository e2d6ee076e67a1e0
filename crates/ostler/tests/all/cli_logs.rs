//! `ostler logs`, `kill`, `forget`, `prune`, `ps`: looking at what is hosted, and letting it go.

use std::process::Stdio;

use crate::cli_kit::pty::Terminal;
use crate::cli_kit::{Home, first_line, is_alive, kill, number, wait_for};

/// Waits until a process that ends by itself has.
fn finished(home: &Home, name: &str, script: &str) -> String {
    let id = home.start(name, script);
    wait_for("its end", || home.process(&id)["state"] == "exited");
    id
}

#[test]
fn logs_are_whole_split_by_stream_and_can_begin_anywhere() {
    let home = Home::up();
    finished(&home, "two", "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c");
    let said = home.run(&["logs", "two"]);
    assert_eq!((said.out.as_str(), said.err.as_str(), said.code), ("a\nc\n", "b\n", 0));
    assert_eq!(home.run(&["logs", "two", "--from", "3"]).out, "c\n");
    assert_eq!(home.run(&["logs", "two", "--from", "99"]).out, "");
}

#[test]
fn times_stand_before_each_line() {
    let home = Home::up();
    finished(&home, "timed", "echo one; echo two");
    let out = home.ok(&["logs", "timed", "--time"]);
    for (line, word) in out.lines().zip(["one", "two"]) {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.len() == 27, "{line}");
        assert_eq!(rest, word);
    }
}

#[test]
fn in_json_every_frame_is_an_object_and_the_exit_too() {
    let home = Home::up();
    finished(&home, "framed", "printf hi; exit 3");
    let out = home.ok(&["logs", "framed", "--json"]);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (lines[0]["seq"].as_u64(), lines[0]["stream"].as_str(), lines[0]["data"].as_str()),
        (Some(1), Some("stdout"), Some("aGk="))
    );
    assert_eq!(lines[1]["exit"]["code"], 3);
}

#[test]
fn following_ends_with_the_process() {
    let home = Home::up();
    let id = home.start("short", "echo a; sleep 0.5; echo b");
    assert_eq!(home.ok(&["logs", "-f", &id]), "a\nb\n");
}

#[test]
fn ctrl_c_while_following_says_how_to_go_on() {
    let home = Home::up();
    home.start("long", "echo begun; sleep 100");
    home.wait_for_log("long", "begun");
    let mut child =
        home.command(&["logs", "-f", "long"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(first_line(&mut child), "begun\n");
    kill(child.id(), 2);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("ostler logs long -f --from 2"), "{err}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(home.process("long")["state"], "running");
}

#[test]
fn a_terminal_is_safe_from_what_a_process_wrote_and_a_pipe_gets_it_raw() {
    let home = Home::up();
    finished(&home, "evil", r"printf '\033[31mred\033[0m \033]0;owned\007 \033[6n end\n'");
    let raw = home.ok(&["logs", "evil"]);
    assert_eq!(raw, "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x1b[6n end\n");
    let mut terminal = Terminal::run(&home, &["logs", "evil"]);
    assert_eq!(terminal.wait(), 0);
    terminal.expect("end");
    let shown = terminal.screen();
    assert!(shown.contains("\x1b[31mred\x1b[0m ^[]0;owned^G ^[[6n end"), "{shown:?}");
    assert!(!shown.contains("\x1b]0;") && !shown.contains("\x1b[6n"), "{shown:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::up();
    finished(&home, "much", "seq 1 100000");
    let script = format!("{} logs much | head -n 1", crate::cli_kit::OSTLER);
    let mut command = std::process::Command::new("bash");
    home.prepare(&mut command);
    let output = command.args(["-o", "pipefail", "-c", &script]).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice(), output.stderr.as_slice()),
        (Some(0), &b"1\n"[..], &b""[..])
    );
}

#[test]
fn the_daemons_own_log_is_there_also_when_it_is_down() {
    let home = Home::up();
    home.ok(&["down"]);
    home.ok(&["logs", "--daemon"]);
    let empty = Home::new();
    assert_eq!(empty.run(&["logs", "--daemon"]).code, 4);
}

#[test]
fn the_daemons_own_log_begins_with_its_last_lines_where_that_is_asked() {
    let home = Home::up();
    home.ok(&["down"]);
    std::fs::write(home.path("state/instances/main/daemon.log"), "one\ntwo\nthree\n").unwrap();
    let last = |count: &str| home.ok(&["logs", "--daemon", "-n", count]);
    assert_eq!(["0", "1", "2", "9"].map(last), ["", "three\n", "two\nthree\n", "one\ntwo\nthree\n"]);
}

#[test]
fn kill_waits_escalates_and_sends_single_signals() {
    let home = Home::up();
    std::fs::write(home.path("config.toml"), "process.kill_grace = \"300ms\"\n").unwrap();
    home.start("meek", "sleep 100");
    let pid = number(&home.process("meek")["pid"]);
    assert!(home.ok(&["kill", "meek", "--wait"]).contains(" ended"));
    assert!(!is_alive(pid));
    assert_eq!(home.process("meek")["exit"]["signal"], 15);
    home.start("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.1; done");
    home.wait_for_log("stubborn", "ready");
    assert!(home.ok(&["kill", "stubborn", "--wait"]).contains("by SIGKILL"));
    home.start("hup", "trap 'echo got it; exit 4' HUP; echo ready; while :; do sleep 0.05; done");
    home.wait_for_log("hup", "ready");
    home.ok(&["kill", "hup", "--signal", "HUP", "--wait"]);
    assert_eq!(home.process("hup")["exit"]["code"], 4);
    // What has ended cannot be ended again; that is no failure.
    assert!(home.ok(&["kill", "hup"]).contains("exited 4"));
}

#[test]
fn forget_deletes_now_and_refuses_what_runs() {
    let home = Home::up();
    let id = finished(&home, "over", "echo bye");
    home.start("alive", "sleep 100");
    let said = home.run(&["forget", "alive"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("ostler kill"), "{said:?}");
    assert!(home.path("state/instances/main/procs").join(&id).exists());
    home.ok(&["forget", &id]);
    assert!(!home.path("state/instances/main/procs").join(&id).exists());
    assert_eq!(home.run(&["logs", &id]).code, 4);
}

#[test]
fn prune_takes_what_is_past_its_retention_and_only_that() {
    let home = Home::new();
    std::fs::write(home.path("config.toml"), "journal.keep_for = \"1s\"\n").unwrap();
    home.ok(&["up"]);
    let id = finished(&home, "old", "echo old");
    home.start("alive", "sleep 100");
    assert!(home.ok(&["prune", "--dry-run"]).contains("nothing to delete"));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(home.ok(&["prune", "--dry-run"]).contains(&format!("old ({id}) would be removed")));
    assert_eq!(home.run(&["logs", &id]).code, 0);
    assert!(home.ok(&["prune"]).contains(&format!("old ({id}) removed\n1 process, freed")));
    assert_eq!(home.run(&["logs", &id]).code, 4);
    assert_eq!(home.process("alive")["state"], "running");
}

#[test]
fn a_prefix_or_a_name_is_as_good_as_an_id() {
    let home = Home::up();
    let id = finished(&home, "named", "echo x");
    for text in ["named", &id, &id[..7]] {
        assert_eq!(home.ok(&["logs", text]), "x\n", "{text}");
    }
    home.start("other", "sleep 100");
    let said = home.run(&["logs", "p"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("matches several") && said.err.contains(&id), "{said:?}");
    assert_eq!(home.run(&["logs", "nobody"]).code, 4);
}

#[test]
fn ps_is_a_table_for_people_and_json_for_programs() {
    let home = Home::up();
    home.start("web", "sleep 100");
    finished(&home, "done", "exit 3");
    let table = home.ok(&["ps", "-a"]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["ID", "NAME", "STATE", "PID", "STARTED", "OUTPUT", "ATTACHED", "COMMAND"]);
    assert!(table.contains("running") && table.contains("exited 3"), "{table}");
    assert!(!table.contains('\x1b'), "no colour into a pipe");
    assert!(!home.ok(&["ps"]).contains("exited 3"));
    let rows = home.json(&["ps", "-a"]);
    assert_eq!(rows[0]["instance"], "main");
    assert!(rows[0]["started"].as_str().unwrap().ends_with('Z'));
}
