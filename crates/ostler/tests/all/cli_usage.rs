//! Help, mistakes, settings, and what needs no daemon.

use crate::cli_kit::Home;
use crate::cli_kit::pty::Terminal;

const VERBS: &[&str] = &[
    "up",
    "down",
    "restart",
    "status",
    "run",
    "ps",
    "attach",
    "logs",
    "kill",
    "wait",
    "prune",
    "forget",
    "as",
    "link",
    "config",
    "doctor",
    "mcp",
    "metrics",
    "api",
    "uninstall",
];

#[test]
fn every_verb_has_help_with_an_example() {
    let home = Home::new();
    let all = home.ok(&["help", "--all"]);
    for verb in VERBS {
        let listed = |line: &str| line.get(8..).is_some_and(|rest| rest.starts_with(&format!("{verb} ")));
        assert!(all.lines().any(listed), "{verb} is not in help --all");
        let help = home.ok(&[verb, "--help"]);
        assert_eq!(home.ok(&["help", verb]), help);
        assert!(help.contains("Example") && help.contains(&format!("ostler {verb}")), "{verb}:\n{help}");
    }
    assert_eq!(home.ok(&["help"]), home.ok(&["--help"]));
    assert_eq!(home.run(&["help", "psx"]).code, 2);
    assert!(home.ok(&["--version"]).starts_with("ostler "));
}

#[test]
fn mistyped_verbs_and_flags_get_a_suggestion_and_exit_code_2() {
    let home = Home::new();
    for (args, suggestion) in [
        (&["statsu"][..], "status"),
        (&["attahc", "x"], "attach"),
        (&["logs", "x", "--folow"], "--follow"),
        (&["run", "--detahc", "--", "true"], "--detach"),
        (&["kill", "x", "--signal", "TREM"], "TERM"),
        (&["as", "claustrm"], "claustrum"),
        (&["stop"], "'down', 'kill'"),
        (&["ls"], "'ps', 'sessions'"),
        (&["list"], "'ps', 'sessions'"),
    ] {
        let said = home.run(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.err.contains(suggestion), "{args:?}: {said:?}");
    }
    assert!(!home.run(&["config", "list"]).err.contains("sessions"), "a word after a verb is that verb's");
    assert_eq!(home.run(&[]).code, 3, "alone it shows what is running");
    assert_eq!(home.run(&["run"]).code, 2);
    assert_eq!(home.run(&["down", "--keep", "--kill"]).code, 2);
    assert_eq!(home.run(&["ps", "--instance", "../x"]).code, 2);
}

#[test]
fn flags_of_the_command_are_not_ours() {
    let home = Home::up();
    assert_eq!(home.ok(&["run", "echo", "-n", "--json", "--help"]), "--json --help");
    assert_eq!(home.ok(&["run", "--", "echo", "--", "-t"]), "-- -t\n");
}

#[test]
fn errors_in_json_carry_kind_and_hint() {
    let home = Home::new();
    let said = home.run(&["ps", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!((said.code, error["error"]["kind"].as_str()), (3, Some("no_instance")));
    let said = home.run(&["ps", "--bogus", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!((said.code, error["error"]["kind"].as_str()), (2, Some("usage")));
    assert_eq!(error["error"]["message"], "unexpected argument '--bogus' found");
}

#[test]
fn a_mistyped_setting_is_an_error_everywhere_it_matters() {
    let home = Home::new();
    std::fs::write(home.path("config.toml"), "[journal]\nkeep_fro = \"1h\"\ntotal_max = \"lots\"\n").unwrap();
    let check = home.run(&["config", "check"]);
    assert_eq!(check.code, 1, "{check:?}");
    assert!(check.out.contains("config.toml:2: no setting `journal.keep_fro`; did you mean `journal.keep_for`?"));
    assert!(check.out.contains("config.toml:3: journal.total_max = lots: expected a size"), "{check:?}");
    for args in [&["up"][..], &["config", "show"], &["doctor"]] {
        let said = home.run(args);
        assert_eq!(said.code, 1, "{args:?}: {said:?}");
        assert!((said.err + &said.out).contains("did you mean `journal.keep_for`?"), "{args:?}");
    }
}

#[test]
fn a_mistyped_section_is_named_even_if_it_is_empty() {
    let home = Home::new();
    std::fs::write(home.path("config.toml"), "[sesions]\n").unwrap();
    let check = home.run(&["config", "check"]);
    assert_eq!(check.code, 1, "{check:?}");
    assert!(check.out.contains("config.toml:1: no section `sesions`; did you mean `sessions`?"), "{check:?}");
}

#[test]
fn a_state_folder_that_is_none_is_named_with_its_variable() {
    let home = Home::new();
    let file = home.path("file");
    std::fs::write(&file, "in the way").unwrap();
    let output = home.command(&["up"]).env("OSTLER_STATE", &file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(file.to_str().unwrap()) && said.contains("OSTLER_STATE"), "{said}");
}

#[test]
fn show_names_the_origin_of_every_value() {
    let home = Home::new();
    std::fs::write(home.path("config.toml"), "[journal]\nkeep_for = \"2h\"\n").unwrap();
    let output = home.command(&["config", "show", "--json"]).env("OSTLER_LOG_LEVEL", "debug").output().unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap();
    assert_eq!(row("journal.keep_for")["value"], "2h");
    assert!(row("journal.keep_for")["origin"].as_str().unwrap().ends_with("config.toml:2"));
    assert_eq!(row("log.level")["origin"], "environment OSTLER_LOG_LEVEL");
    assert_eq!(row("attach.detach_key")["origin"], "default");
}

#[test]
fn init_writes_a_file_that_is_valid_and_is_never_overwritten() {
    let home = Home::new();
    assert_eq!(home.ok(&["config", "path"]).trim(), home.path("config.toml").to_str().unwrap());
    home.ok(&["config", "init"]);
    home.ok(&["config", "check"]);
    let said = home.run(&["config", "init"]);
    assert_eq!(said.code, 5, "{said:?}");
}

#[test]
fn doctor_looks_at_every_promise() {
    let home = Home::up();
    let said = home.run(&["doctor", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&said.out).unwrap();
    for name in [
        "settings",
        "file system",
        "space",
        "output",
        "reading",
        "sync",
        "descriptors",
        "pipes",
        "daemon",
        "children",
        "git",
    ] {
        let row = rows.iter().find(|row| row["check"] == name).unwrap_or_else(|| panic!("{name} in {rows:?}"));
        assert!(!row["text"].as_str().unwrap().is_empty());
    }
    let broken = rows.iter().any(|row| row["verdict"] == "broken");
    assert_eq!(said.code, i32::from(broken));
    assert!(
        std::fs::read_dir(home.path("state"))
            .unwrap()
            .flatten()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with(".doctor"))
    );
}

#[test]
fn the_api_describes_itself() {
    let home = Home::new();
    let document: serde_json::Value = serde_json::from_str(&home.ok(&["api"])).unwrap();
    let names: Vec<&str> =
        document["methods"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    for name in ["instance.hello", "process.spawn", "process.attach", "process.stdin"] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn links_are_made_and_nobody_elses_file_is_touched() {
    let home = Home::new();
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    home.ok(&["link", bin.to_str().unwrap()]);
    home.ok(&["link", bin.to_str().unwrap()]);
    let link = bin.join("claustrum");
    let by_link = std::process::Command::new(&link).arg("-version").output().unwrap();
    let by_name = home.command(&["as", "claustrum", "-version"]).output().unwrap();
    assert_eq!((by_link.status.code(), &by_link.stdout), (by_name.status.code(), &by_name.stdout));
    assert!(by_link.status.success());
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "theirs").unwrap();
    assert_eq!(home.run(&["link", bin.to_str().unwrap()]).code, 5);
    assert_eq!(std::fs::read(&link).unwrap(), b"theirs");
}

#[test]
fn uninstall_takes_away_what_was_put_there_and_nothing_else() {
    let home = Home::up();
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    home.ok(&["link", bin.to_str().unwrap()]);
    home.start("sleeper", "sleep 100");
    assert_eq!(home.run(&["uninstall"]).code, 5, "something runs");
    home.ok(&["down", "--keep"]);
    assert_eq!(home.run(&["uninstall", "--purge"]).code, 5, "a keeper still holds a process");
    home.ok(&["up"]);
    home.ok(&["down", "--kill"]);
    std::fs::write(home.path("run/stranger"), "not ours").unwrap();
    let theirs = std::os::unix::net::UnixListener::bind(home.path("run/bus")).unwrap();
    let plan = home.ok(&["uninstall", "--purge", "--dry-run"]);
    assert!(plan.contains("would remove") && bin.join("claustrum").exists(), "{plan}");
    home.ok(&["uninstall"]);
    assert!(!bin.join("claustrum").exists() && home.path("state/instances").exists());
    home.ok(&["uninstall", "--purge"]);
    assert!(!home.path("state").exists(), "{:?}", std::fs::read_dir(home.path("state")).map(|d| d.count()));
    assert_eq!(std::fs::read(home.path("run/stranger")).unwrap(), b"not ours");
    assert!(home.path("run/bus").exists(), "another program's socket");
    drop(theirs);
}

#[test]
fn every_row_of_doctor_has_a_name_of_its_own_also_on_a_terminal() {
    let home = Home::up();
    let mut seat = Terminal::sized(&home, &["doctor", "--json"], (24, 4000));
    seat.wait();
    let rows: Vec<serde_json::Value> = serde_json::from_str(seat.screen().trim()).unwrap();
    let mut names: Vec<&str> = rows.iter().map(|row| row["check"].as_str().unwrap()).collect();
    assert!(names.contains(&"terminal") && names.contains(&"tiocsti"), "{names:?}");
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "{rows:?}");
}
