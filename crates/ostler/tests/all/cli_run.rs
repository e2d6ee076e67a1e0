//! `ostler run`: a hosted command behaves like one that the shell started.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::cli_kit::{Home, first_line, is_alive, kill, number, wait_for};

#[test]
fn output_streams_and_exit_code_are_the_commands_own() {
    let home = Home::up();
    let said = home.run(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (7, "out\n", "err\n"));
    assert_eq!(home.run(&["run", "--", "true"]).code, 0);
    assert_eq!(home.run(&["run", "--", "sh", "-c", "kill -TERM $$"]).code, 128 + 15);
    assert_eq!(home.run(&["run", "--", "sh", "-c", "exit 255"]).code, 255);
}

#[test]
fn stdin_is_passed_on_whole_and_its_end_too() {
    let home = Home::up();
    let input: Vec<u8> = (0..3_000_000_u32).flat_map(|n| n.to_le_bytes()).collect();
    let said = home.run_with_input(&["run", "--", "sha256sum"], &input);
    let expected = {
        let mut child =
            std::process::Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!((said.code, said.out), (0, expected));
}

#[test]
fn megabytes_of_output_arrive_byte_for_byte() {
    let home = Home::up();
    let output = home.command(&["run", "--", "seq", "1", "700000"]).output().unwrap();
    let expected: String = (1..=700_000).map(|n| format!("{n}\n")).collect();
    assert!(output.stdout == expected.as_bytes(), "{} of {} bytes", output.stdout.len(), expected.len());
}

#[test]
fn a_command_that_ends_before_its_input_does_is_no_error() {
    let home = Home::up();
    let said = home.run_with_input(&["run", "--", "head", "-c", "1"], &vec![b'x'; 4_000_000]);
    assert_eq!((said.code, said.out.as_str()), (0, "x"));
}

#[test]
fn detached_it_prints_the_id_and_goes_on() {
    let home = Home::up();
    let id = home.start("sleeper", "sleep 100");
    assert!(id.starts_with('p') && id.len() == 13, "{id}");
    let info = home.process("sleeper");
    assert_eq!((info["id"].as_str(), info["state"].as_str()), (Some(id.as_str()), Some("running")));
    assert!(is_alive(number(&info["pid"])));
}

#[test]
fn environment_and_folder_are_the_callers_unless_told() {
    let home = Home::up();
    let said = home.command(&["run", "--", "sh", "-c", "echo $GREETING $PWD"]).env("GREETING", "hi").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), format!("hi {}\n", home.path("home").display()));
    let script = "echo $A-$B; pwd";
    let out = home.ok(&["run", "--env", "A=1=2", "-e", "B=x y", "--cwd", "/", "--", "sh", "-c", script]);
    assert_eq!(out, "1=2-x y\n/\n");
    assert_eq!(home.run(&["run", "--env", "=1", "--", "true"]).code, 2);
}

#[test]
fn children_do_not_inherit_what_is_ours() {
    let home = Home::up();
    let out = home.ok(&[
        "run",
        "--",
        "sh",
        "-c",
        "ls -l /proc/self/fd | tail -n +2 | wc -l; ulimit -n; env | grep -c OSTLER_PROCESS",
    ]);
    let lines: Vec<&str> = out.lines().collect();
    // 0, 1, 2 and the one that `ls` itself has open.
    assert_eq!(lines[0], "4", "{out}");
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap();
    assert_eq!(lines[1], own.to_string());
    assert_eq!(lines[2], "1");
}

#[test]
fn what_cannot_be_started_is_named_and_leaves_nothing_behind() {
    let home = Home::up();
    let said = home.run(&["run", "--", "no-such-program-anywhere"]);
    assert_eq!(said.code, 127);
    assert!(said.err.contains("no-such-program-anywhere: command not found"), "{said:?}");
    let said = home.run(&["run", "--cwd", "/no/such/folder", "--", "/bin/true"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("folder") && said.err.contains("No such file"), "{said:?}");
    std::fs::write(home.path("home/plain"), "text").unwrap();
    let said = home.run(&["run", "--", "./plain"]);
    assert_eq!(said.code, 126);
    assert!(said.err.contains("plain") && said.err.contains("denied"), "{said:?}");
    assert_eq!(home.json(&["ps", "-a"]), serde_json::json!([]));
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_is_no_program_126_as_in_a_shell() {
    let home = Home::up();
    std::fs::write(home.path("home/plain"), "text").unwrap();
    std::fs::write(home.path("home/noise"), "text").unwrap();
    std::fs::set_permissions(home.path("home/noise"), PermissionsExt::from_mode(0o755)).unwrap();
    for flags in [&["run"][..], &["run", "-t"], &["run", "-d"]] {
        let code = |command: &str| home.run(&[flags, &["--", command]].concat()).code;
        assert_eq!(["nosuch", "./nosuch", "./plain/nosuch"].map(code), [127; 3], "{flags:?}");
        assert_eq!(["./plain", "./noise", "/"].map(code), [126; 3], "{flags:?}");
    }
    let said = home.run(&["--json", "run", "--", "./nosuch"]);
    assert!(said.err.contains("\"kind\":\"command_not_found\""), "{said:?}");
}

#[test]
fn a_key_of_another_command_is_refused() {
    let home = Home::up();
    assert_eq!(home.ok(&["run", "--key", "k", "--", "echo", "one"]), "one\n");
    assert_eq!(home.ok(&["run", "--key", "k", "--", "echo", "one"]), "one\n");
    let other = home.run(&["run", "--key", "k", "--", "echo", "two"]);
    assert_eq!((other.code, other.out.as_str()), (5, ""), "{other:?}");
}

#[test]
fn the_same_key_starts_one_process() {
    let home = Home::up();
    let start = || home.ok(&["run", "-d", "--key", "k1", "--", "sleep", "100"]);
    assert_eq!(start(), start());
    assert_eq!(home.json(&["ps"]).as_array().unwrap().len(), 1);
}

#[test]
fn nothing_of_a_private_process_reaches_the_disk() {
    let home = Home::up();
    let said = home.run_with_input(&["run", "--private", "--", "sh", "-c", "read x; echo secret-$x"], b"typed-word\n");
    assert_eq!(said.out, "secret-typed-word\n");
    let found =
        std::process::Command::new("grep").args(["-r", "-l", "typed-word"]).arg(home.path("state")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn keep_bounds_what_is_kept_and_readers_are_told() {
    let home = Home::up();
    let id = home.ok(&["run", "-d", "--keep", "256KiB", "--", "sh", "-c", "seq 1 400000; sleep 100"]);
    let id = id.trim();
    wait_for("the early output to be let go", || home.process(id)["first_seq"].as_u64().unwrap() > 1);
    wait_for("all of it to be written", || home.process(id)["stdout_bytes"].as_u64().unwrap() == 2_688_895);
    let said = home.run(&["logs", id]);
    assert!(said.err.contains("was deleted (retention)"), "{said:?}");
    assert!(said.out.ends_with("400000\n") && said.out.len() < 2_000_000, "{}", said.out.len());
}

#[test]
fn a_run_outlives_the_daemon_and_loses_nothing() {
    let home = Home::up();
    let mut child = home
        .command(&["run", "--name", "counter", "--", "sh", "-c", "read go; seq 1 200000; cat; exit 9"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    wait_for("the process", || home.ok(&["ps"]).contains("counter"));
    stdin.write_all(b"go\n").unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut got = vec![0; 1000];
    stdout.read_exact(&mut got).unwrap();
    kill(home.daemon_pid(), 9);
    stdin.write_all(b"after the crash\n").unwrap();
    drop(stdin);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    got.extend(rest);
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect::<String>() + "after the crash\n";
    assert!(got == expected.as_bytes(), "{} of {} bytes", got.len(), expected.len());
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn ctrl_c_leaves_it_running_and_says_how_to_come_back() {
    let home = Home::up();
    let mut child = home
        .command(&["run", "--name", "long", "--", "sh", "-c", "echo begun; sleep 100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once it shows the output, the client is listening.
    assert_eq!(first_line(&mut child), "begun\n");
    kill(child.id(), 2);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130));
    assert!(err.contains("go back to it: ostler attach ") && err.contains("--from 2"), "{err}");
    assert_eq!(home.process("long")["state"], "running");
}

#[test]
fn ended_processes_cost_the_daemon_no_descriptors() {
    let home = Home::up();
    let open = || std::fs::read_dir(format!("/proc/{}/fd", home.daemon_pid())).unwrap().count();
    home.ok(&["run", "--", "true"]);
    let before = open();
    for _ in 0..20 {
        home.ok(&["run", "--", "true"]);
    }
    // A process whose files stayed open would add four each time.
    wait_for("descriptors to be given back", || open() < before + 20);
}
