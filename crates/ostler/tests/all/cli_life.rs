//! The daemon's life as a person sees it: up, down, restart, and what survives what.

use std::process::Stdio;

use crate::cli_kit::{Home, is_alive, kill, number, wait_for};

/// Says a number every so often, so that one sees whether it goes on.
const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.05; done";

#[test]
fn up_says_how_to_connect_and_again_that_it_is_running() {
    let home = Home::new();
    let first = home.ok(&["up"]);
    assert!(first.starts_with("ostler is up (pid "), "{first}");
    assert!(first.lines().count() <= 12 && first.contains("ostler new echo -m hello"), "{first}");
    let sockets = home.ok(&["status", "--connect"]);
    assert!(sockets.contains("native") && sockets.contains("main.sock"), "{sockets}");
    assert!(sockets.contains("claustrum"), "{sockets}");
    let again = home.ok(&["up"]);
    assert!(again.starts_with(&format!("already running (pid {})", home.daemon_pid())), "{again}");
}

#[test]
fn every_door_that_up_names_is_a_private_socket_or_on_the_loopback() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let home = Home::up();
    let doors = home.json(&["up"])["doors"].clone();
    assert!(doors.as_array().unwrap().len() >= 2, "{doors}");
    for door in doors.as_array().unwrap() {
        let address = door["address"].as_str().unwrap();
        if let Ok(address) = address.parse::<std::net::SocketAddr>() {
            assert!(address.ip().is_loopback(), "{address}");
            continue;
        }
        let found = std::fs::metadata(address).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    for name in ["state", "run"] {
        assert_eq!(std::fs::metadata(home.path(name)).unwrap().permissions().mode() & 0o777, 0o700, "{name}");
    }
}

#[test]
fn without_an_instance_every_verb_says_so_with_exit_code_3() {
    let home = Home::new();
    for args in [
        &["run", "--", "true"][..],
        &["ps"],
        &["status"],
        &["attach", "x"],
        &["logs", "x"],
        &["kill", "x"],
        &["forget", "x"],
        &["prune"],
        &["metrics"],
    ] {
        let said = home.run(args);
        assert_eq!(said.code, 3, "{args:?}: {said:?}");
        assert!(said.err.contains("ostler is not running; start it with: ostler up"), "{args:?}: {said:?}");
    }
    let said = home.run(&["down"]);
    assert_eq!(said.code, 3);
    assert!(said.err.contains("ostler is not running; there is nothing to stop"), "{said:?}");
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let home = Home::new();
    std::fs::write(home.path("run"), "in the way").unwrap();
    let said = home.run(&["up"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(home.path("run").to_str().unwrap()), "{said:?}");
    // Nor does anything try again behind one's back.
    std::fs::remove_file(home.path("run")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(home.run(&["ps"]).code, 3);
}

#[test]
fn a_killed_daemon_comes_back_by_itself_with_the_same_processes() {
    let home = Home::up();
    let id = home.start("ticker", COUNTER);
    home.wait_for_log("ticker", "tick 3\n");
    let (before, daemon) = (home.process("ticker"), home.daemon_pid());
    kill(daemon, 9);
    wait_for("the keeper to bring the daemon back", || {
        let said = home.run(&["status", "--json"]);
        said.code == 0 && number(&serde_json::from_str::<serde_json::Value>(&said.out).unwrap()[0]["pid"]) != daemon
    });
    let after = home.process("ticker");
    assert_eq!((&after["id"], &after["pid"], &after["started"]), (&before["id"], &before["pid"], &before["started"]));
    let last = after["last_seq"].as_u64().unwrap();
    wait_for("more output", || home.process("ticker")["last_seq"].as_u64().unwrap() > last);
    assert_is_gapless(&home.ok(&["logs", &id]));
}

#[test]
fn restart_replaces_the_daemon_and_keeps_every_child() {
    let home = Home::up();
    let id = home.start("ticker", COUNTER);
    home.wait_for_log("ticker", "tick 3\n");
    let (before, old) = (home.process("ticker"), home.daemon_pid());
    let said = home.ok(&["restart"]);
    assert!(said.contains(&format!("was {old}")), "{said}");
    assert_ne!(home.daemon_pid(), old);
    assert!(!is_alive(old));
    let after = home.process("ticker");
    assert_eq!((&after["id"], &after["pid"]), (&before["id"], &before["pid"]));
    let last = after["last_seq"].as_u64().unwrap();
    wait_for("more output", || home.process("ticker")["last_seq"].as_u64().unwrap() > last);
    assert_is_gapless(&home.ok(&["logs", &id]));
}

#[test]
fn restart_without_a_daemon_starts_one_and_says_so() {
    let home = Home::new();
    let said = home.ok(&["restart"]);
    assert!(said.contains("was not running"), "{said}");
    assert!(is_alive(home.daemon_pid()));
}

#[test]
fn down_refuses_to_decide_about_children_where_it_cannot_ask() {
    let home = Home::up();
    home.start("ticker", COUNTER);
    let said = home.run(&["down"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("1 process is running") && said.err.contains("--keep"), "{said:?}");
    assert!(is_alive(home.daemon_pid()));
}

#[test]
fn down_keep_lets_children_go_on_and_up_comes_back_to_them() {
    let home = Home::up();
    let id = home.start("ticker", COUNTER);
    home.wait_for_log("ticker", "tick 3\n");
    let (before, daemon, keeper) = (home.process("ticker"), home.daemon_pid(), home.keeper_pid());
    let said = home.ok(&["down", "--keep"]);
    assert!(said.contains("1 process keeps running"), "{said}");
    assert!(!is_alive(daemon) && is_alive(keeper) && is_alive(number(&before["pid"])));
    // The keeper must not bring back a daemon that was sent away.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(home.run(&["ps"]).code, 3);
    home.ok(&["up"]);
    assert_eq!(home.process("ticker")["pid"], before["pid"]);
    let last = before["last_seq"].as_u64().unwrap();
    wait_for("more output", || home.process("ticker")["last_seq"].as_u64().unwrap() > last + 3);
    assert_is_gapless(&home.ok(&["logs", &id]));
}

#[test]
fn long_arguments_are_run_as_they_are() {
    let home = Home::up();
    let long = "x".repeat(40_000);
    assert_eq!(home.ok(&["run", "--", "/bin/echo", &long]), format!("{long}\n"));
    home.ok(&["restart"]);
    assert_eq!(home.json(&["ps", "-a"])[0]["args"].to_string().matches('x').count(), 40_000);
}

#[test]
fn a_restart_by_another_program_changes_the_keeper_too_and_loses_nothing() {
    let home = Home::up();
    let id = home.start("ticker", COUNTER);
    home.wait_for_log("ticker", "tick 3\n");
    let (before, keeper) = (home.process("ticker"), home.keeper_pid());
    assert!(!home.run(&["restart"]).err.contains("upgraded"), "nothing to say about the same program");
    let upgraded = home.path("upgraded");
    // By another process: a test beside this one may fork while the file is open for writing, and who holds it then keeps it from being run.
    let copied = std::process::Command::new("cp").arg(crate::cli_kit::OSTLER).arg(&upgraded).status();
    assert!(copied.unwrap().success());
    let mut command = std::process::Command::new(&upgraded);
    home.prepare(&mut command);
    let output = command.arg("restart").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("upgraded in place (pid {keeper})")), "{said}");
    assert_eq!(std::fs::read_link(format!("/proc/{keeper}/exe")).unwrap(), upgraded);
    assert_eq!((home.keeper_pid(), &home.process("ticker")["pid"]), (keeper, &before["pid"]));
    let last = before["last_seq"].as_u64().unwrap();
    wait_for("more output", || home.process("ticker")["last_seq"].as_u64().unwrap() > last + 3);
    assert_is_gapless(&home.ok(&["logs", &id]));
    home.start("after", "exit 7");
    wait_for("an end that the new program told", || home.process("after")["exit"]["code"] == 7);
}

#[test]
fn down_kill_ends_children_daemon_and_keeper() {
    let home = Home::up();
    home.start("ticker", COUNTER);
    home.start("stubborn", "trap '' TERM; while :; do sleep 0.1; done");
    std::fs::write(home.path("config.toml"), "process.kill_grace = \"300ms\"\n").unwrap();
    home.ok(&["restart"]);
    let pids: Vec<u32> = ["ticker", "stubborn"].iter().map(|name| number(&home.process(name)["pid"])).collect();
    let (daemon, keeper) = (home.daemon_pid(), home.keeper_pid());
    let said = home.ok(&["down", "--kill"]);
    assert!(said.contains("2 processes ended"), "{said}");
    for pid in pids.into_iter().chain([daemon]) {
        assert!(!is_alive(pid), "{pid}");
    }
    wait_for("the keeper to end", || !is_alive(keeper));
    assert_eq!(home.run(&["ps"]).code, 3);
}

#[test]
fn down_kill_ends_what_a_keeper_holds_without_a_daemon() {
    let home = Home::new();
    home.ok(&["up", "--instance", "lab"]);
    home.ok(&["run", "-d", "--name", "ticker", "--instance", "lab", "--", "sleep", "100"]);
    let (pid, keeper) = (number(&home.process("ticker")["pid"]), home.keeper_pid());
    let said = home.ok(&["down", "--keep", "--instance", "lab"]);
    assert!(said.contains("go back to it with: ostler up --instance lab"), "{said}");
    let said = home.run(&["down", "--instance", "lab"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("`lab` is not running, but 1 process is still running"), "{said:?}");
    assert!(said.err.contains("ostler up --instance lab") && said.err.contains("ostler down --kill --instance lab"));
    assert!(home.run(&["doctor"]).out.contains("`lab` is not running, but 1 process is still running"));
    let said = home.run(&["uninstall"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("still running: lab") && said.err.contains("--kill --instance lab"), "{said:?}");
    assert!(is_alive(pid) && is_alive(keeper), "asking has ended something");
    let said = home.ok(&["down", "--kill", "--instance", "lab"]);
    assert!(said.contains("1 process ended"), "{said}");
    assert!(!is_alive(pid));
    wait_for("the keeper to end", || !is_alive(keeper));
    assert_eq!(home.run(&["down", "--kill", "--instance", "lab"]).code, 3);
}

#[test]
fn down_without_a_name_means_main_and_says_who_runs_instead() {
    let home = Home::new();
    home.ok(&["up", "--instance", "lab"]);
    for args in [&["down"][..], &["down", "--kill"]] {
        let said = home.run(args);
        assert_eq!(said.code, 3, "{said:?}");
        assert!(said.err.contains("ostler is not running; running: lab"), "{said:?}");
        assert!(said.err.contains("--instance lab"), "{said:?}");
    }
}

#[test]
fn restart_of_an_instance_that_nobody_knows_makes_none() {
    let home = Home::up();
    let said = home.run(&["restart", "--instance", "lba"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("no instance `lba`; running: main"), "{said:?}");
    assert!(said.err.contains("ostler up --instance lba"), "{said:?}");
    assert!(!home.path("state/instances/lba").exists());
}

#[test]
fn a_killed_sudo_proxy_is_in_nobodys_way() {
    let home = Home::new();
    let mut proxy = home.command(&["as", "sudo-proxy"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the instance", || home.run(&["status"]).code == 0);
    let (keeper, socket) = (home.keeper_pid(), home.path("xdg/sudo-proxy.sock"));
    kill(proxy.id(), 9);
    proxy.wait().unwrap();
    assert!(socket.exists() && is_alive(keeper));
    home.ok(&["up"]);
    let said = home.run(&["as", "sudo-request", "--", "true"]);
    assert!(said.err.contains("ostler listens at"), "{said:?}");
    home.ok(&["down"]);
    home.ok(&["uninstall", "--purge"]);
    assert!(!socket.exists() && !home.path("state").exists());
    wait_for("the keeper to end", || !is_alive(keeper));
}

#[test]
fn down_without_children_needs_no_flag() {
    let home = Home::up();
    let (daemon, keeper) = (home.daemon_pid(), home.keeper_pid());
    home.ok(&["down"]);
    assert!(!is_alive(daemon));
    wait_for("the keeper to end", || !is_alive(keeper));
}

#[test]
fn a_service_manager_that_stops_the_daemon_does_not_end_the_children() {
    let home = Home::up();
    home.start("ticker", COUNTER);
    let pid = number(&home.process("ticker")["pid"]);
    let daemon = home.daemon_pid();
    kill(daemon, 15);
    wait_for("the daemon to end", || !is_alive(daemon));
    assert!(is_alive(pid));
    home.ok(&["up"]);
    assert_eq!(number(&home.process("ticker")["pid"]), pid);
}

#[test]
fn doors_come_back_when_a_logout_sweeps_the_runtime_folder() {
    let home = Home::up();
    home.start("ticker", COUNTER);
    std::fs::remove_dir_all(home.path("run")).unwrap();
    wait_for("the socket to come back", || home.run(&["ps"]).code == 0);
    assert_eq!(home.process("ticker")["state"], "running");
}

#[test]
fn two_instances_are_listed_together_and_told_apart() {
    let home = Home::up();
    home.ok(&["up", "--instance", "lab"]);
    home.start("near", "sleep 100");
    home.ok(&["run", "-d", "--name", "there", "--instance", "lab", "--", "sleep", "100"]);
    let all = home.ok(&["ps"]);
    assert!(all.contains("INSTANCE") && all.contains("near") && all.contains("there"), "{all}");
    let lab = home.ok(&["ps", "--instance", "lab"]);
    assert!(!lab.contains("near") && lab.contains("there"), "{lab}");
    assert_eq!(home.json(&["status"]).as_array().unwrap().len(), 2);
    // An id works wherever its process lives.
    home.ok(&["kill", "there", "--wait"]);
    assert_eq!(home.process("there")["state"], "exited");
    home.ok(&["down", "--instance", "lab"]);
    assert_eq!(home.run(&["ps", "--instance", "lab"]).code, 3);
    assert_eq!(home.run(&["ps"]).code, 0);
}

#[test]
fn a_daemon_under_another_name_is_an_instance_like_any_other() {
    let home = Home::up();
    std::fs::write(home.path("token"), "secret").unwrap();
    let (socket, token) = (home.path("home/rpc.sock"), home.path("token"));
    let args = ["-serve", "-socket", socket.to_str().unwrap(), "-token-file", token.to_str().unwrap()];
    // It keeps its launcher's standard output, as the program it stands in for does.
    let mut launcher = home.command(&["as", "claustrum"]);
    let launched =
        launcher.args(args).env("OSTLER_JOIN", "never").stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(launched.success());
    wait_for("both instances", || home.json(&["status"]).as_array().is_some_and(|all| all.len() == 2));
    let all = home.json(&["status"]);
    let name = all[0]["instance"].as_str().unwrap();
    assert!(name.starts_with("claustrum-"), "{all}");
    home.ok(&["run", "-d", "--name", "guest", "--instance", name, "--", "sleep", "100"]);
    assert_eq!(home.process("guest")["instance"], name);
    let said = home.run(&["restart", "--instance", name]);
    assert_eq!(said.code, 5, "{said:?}");
    home.ok(&["down", "--kill", "--instance", name]);
    assert!(!socket.exists());
    assert_eq!(home.json(&["status"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_record_of_a_newer_ostler_is_named_and_left_alone() {
    let home = Home::up();
    let dir = home.path("state/instances/future");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("instance.json"), r#"{"version": 99}"#).unwrap();
    let said = home.run(&["ps"]);
    assert_eq!(said.code, 0);
    assert!(said.err.contains("future/instance.json: written by a newer ostler"), "{said:?}");
    assert_eq!(std::fs::read_to_string(dir.join("instance.json")).unwrap(), r#"{"version": 99}"#);
}

#[test]
fn up_drop_in_takes_other_programs_places_and_restart_keeps_them() {
    let home = Home::new();
    let place = home.path("home/.claude/remote/rpc.sock");
    home.ok(&["up"]);
    assert!(!place.exists());
    home.ok(&["down"]);
    home.ok(&["up", "--drop-in"]);
    let said = home.ok(&["status", "--connect"]);
    assert!(said.contains(place.to_str().unwrap()) && place.exists(), "{said}");
    assert!(home.path("xdg/sudo-proxy.sock").exists(), "{said}");
    home.ok(&["restart"]);
    assert!(home.ok(&["status", "--connect"]).contains(place.to_str().unwrap()));
}

#[test]
fn paths_longer_than_a_socket_address_work() {
    let home = Home::new();
    let deep = home.path("state").join("d".repeat(100)).join("e".repeat(60));
    let run = |args: &[&str]| {
        let output = home.command(args).env("OSTLER_RUNTIME", &deep).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["up"]);
    assert_eq!(run(&["run", "--", "echo", "far"]), "far\n");
}

#[test]
fn nothing_leaves_the_machine() {
    let home = Home::new();
    // In a network namespace with nothing in it everything works, and no socket is open but a listener on the loopback.
    let script = format!(
        "{0} up >&2 && {0} run -- echo hosted && {0} doctor >&2; cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 \
         | grep -v local_address | grep -vc '0100007F:.... 00000000:0000 0A'; {0} down --kill >&2",
        crate::cli_kit::OSTLER
    );
    let mut command = std::process::Command::new("unshare");
    home.prepare(&mut command);
    let output = command.args(["--net", "--map-root-user", "sh", "-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "hosted\n0\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every tick exactly once and in order.
fn assert_is_gapless(log: &str) {
    for (index, line) in log.lines().enumerate() {
        assert_eq!(line, format!("tick {}", index + 1), "line {index}");
    }
}
