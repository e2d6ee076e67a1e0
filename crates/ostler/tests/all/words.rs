//! Every string of help and errors in one file, to be read from top to bottom: `snapshots/words.snap`.
//!
//! After a change: `INSTA_UPDATE=always cargo test --workspace --test all words`, and read what changed.

use std::fmt::Write;
use std::process::Command;

use crate::cli_kit::{Home, OSTLER, wait_for};

/// Words of ARCHITECTURE.md that mean nothing to who uses the program.
const OURS: &[&str] = &["door", "doors", "keeper", "keepers", "stand-in", "autonomy", "stables"];

/// What the program says, made the same on every machine and day.
struct Words {
    home: Home,
    text: String,
}

impl Words {
    /// Help: as it is.
    fn help(&mut self, words: &[&str]) -> String {
        let help = self.home.ok(&[&["help"][..], words].concat());
        let line = ["ostler", "help"].iter().chain(words).copied().collect::<Vec<_>>().join(" ");
        let _ = write!(self.text, "\n$ {}\n{help}", line.trim());
        help
    }

    /// A command that goes wrong, or has something to say; without a terminal, wherever the test is run from.
    fn says(&mut self, args: &[&str]) {
        // What a command deletes had an id before it, what it makes has one after.
        let before = self.marks();
        let mut command = Command::new("setsid");
        self.home.prepare(&mut command);
        let output = command.args(["-w", OSTLER]).args(args).output().unwrap();
        let code = output.status.code().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let marks = [before, self.marks()].concat();
        let (line, text) = (self.plain(&args.join(" "), &marks), self.plain(&(out + &err), &marks));
        let _ = write!(self.text, "\n$ ostler {}   (exit code {code})\n{text}", line.trim_end());
    }

    /// Every id there is, and what stands for it.
    fn marks(&self) -> Vec<(String, &'static str)> {
        let lists =
            [(&["ps", "-a"][..], "p0"), (&["sessions", "--all"], "s0"), (&["approvals", "--list", "--all"], "a0")];
        let ids = lists.iter().flat_map(|(list, mark)| {
            let all = self.home.run(&[*list, &["--json"]].concat()).out;
            let all: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap_or_default();
            all.into_iter().map(|one| (one["id"].as_str().unwrap().to_owned(), *mark)).collect::<Vec<_>>()
        });
        ids.collect()
    }

    fn plain(&self, text: &str, marks: &[(String, &str)]) -> String {
        let mut text = text.replace(self.home.path("").to_str().unwrap().trim_end_matches('/'), "/HOME");
        for (id, mark) in marks {
            text = text.replace(id, mark).replace(&id[..6], mark);
        }
        let text = text.split_inclusive([' ', '\n']).map(unnamed).collect::<String>();
        let mut plain = String::new();
        for c in text.replace("just now", "1s ago").chars() {
            match c.is_ascii_digit() {
                true if plain.ends_with('N') => {}
                true => plain.push('N'),
                false => plain.push(c),
            }
        }
        plain.lines().map(squeezed).collect()
    }
}

/// A conversation's own id is another one each time.
fn unnamed(word: &str) -> &str {
    let name = word.trim_end();
    let of_one = name.len() == 36 && name.matches('-').count() == 4;
    if of_one { "UUID " } else { word }
}

/// Columns are as wide as what stands in them: two blanks keep them apart here.
fn squeezed(line: &str) -> String {
    let words = line.trim_start();
    let start = line.len() - words.len();
    let parts: Vec<&str> = words.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
    format!("{:start$}{}\n", "", parts.join("  "))
}

/// The commands below one, from its help.
fn below(help: &str) -> Vec<String> {
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

fn help(told: &mut Words) {
    told.help(&[]);
    let all = told.help(&["--all"]);
    let verbs = all.lines().take_while(|line| !line.starts_with("Global options"));
    let verbs: Vec<&str> =
        verbs.filter_map(|line| line.get(8..)?.split(' ').next()).filter(|verb| !verb.is_empty()).collect();
    for verb in verbs.iter().skip_while(|verb| **verb != "demo" && **verb != "up").chain(&["help"]) {
        let help = told.help(&[verb]);
        for under in below(&help) {
            told.help(&[verb, &under]);
        }
    }
}

/// Mistakes in the call, and what needs a daemon that is not there.
fn without_a_daemon(told: &mut Words) {
    let calls: &[&[&str]] = &[
        &["statsu"],
        &["stop"],
        &["ls"],
        &["nothing-like-it"],
        &["help", "runn"],
        &["run"],
        &["run", "--detahc", "--", "true"],
        &["logs", "x", "--folow"],
        &["kill", "x", "--signal", "TREM"],
        &["kill", "x", "--signal", "99"],
        &["down", "--keep", "--kill"],
        &["new", "claud"],
        &["new", "echo", "--permissions", "most"],
        &["new", "echo", "/no/such/folder"],
        &["rules", "add"],
        &["rules", "add", "--expires", "soon", "--", "true"],
        &["ps", "--instance", "../x"],
        &["ps", "--bogus", "--json"],
        &["as", "nothing"],
        &["link", "/proc"],
        &["config", "init", "--more"],
        &["ps"],
        &["ps", "--instance", "lab"],
        &["restart", "--instance", "lab"],
        &["status"],
        &["sessions"],
        &["down"],
        &["run", "--", "true"],
        &["new", "echo", "-m", "hello"],
        &["send", "x", "hello"],
        &["attach", "x"],
        &["approvals", "--list"],
        &["audit", "--verify"],
        &["logs", "--daemon"],
    ];
    calls.iter().for_each(|call| told.says(call));
}

/// What `doctor` says where there is no program to be found; without what it says of the machine itself, whose sentences are
/// in the list of the source.
fn doctor(told: &mut Words) {
    let steady = ["settings", "output", "callers", "daemon", "audit", "git", "claude", "codex", "gemini", "opencode"];
    let mut command = Command::new(OSTLER);
    told.home.prepare(&mut command);
    let output = command.env("PATH", told.home.path("")).arg("doctor").output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let rows = shown.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|name| steady.contains(&name)));
    let rows: String = rows.map(|line| line.to_owned() + "\n").collect();
    let rows = told.plain(&rows, &[]);
    let _ = write!(told.text, "\n$ ostler doctor   (without what differs from machine to machine)\n{rows}");
}

fn settings(told: &mut Words) {
    let file = told.home.path("config.toml");
    std::fs::write(&file, "[journal]\nkeep_fro = \"1h\"\ntotal_max = \"lots\"\nkeep_for = \"long\"\n[sesions]\n")
        .unwrap();
    told.says(&["config", "check"]);
    told.says(&["up"]);
    std::fs::remove_file(&file).unwrap();
    told.says(&["config", "init"]);
    told.says(&["config", "init"]);
    let text = std::fs::read_to_string(&file).unwrap();
    let _ = write!(told.text, "\nThe file that `config init` wrote:\n{}", told.plain(&text, &[]));
    std::fs::remove_file(&file).unwrap();
}

/// Full screens.
fn screens(told: &mut Words) {
    // Where nothing was before.
    let fresh = Words { home: Home::new(), text: String::new() };
    let shown = crate::words_screens::all(&fresh.home);
    let marks = fresh.marks();
    for (what, text) in shown {
        let _ = write!(told.text, "\nThe screen of: {what}\n{}", fresh.plain(&text, &marks));
    }
    fresh.home.ok(&["down", "--kill"]);
}

/// The demo, without the text that it reads out, which is broken off at another word each time.
fn demo(told: &mut Words) {
    let shown = told.home.ok(&["demo"]);
    let (head, rest) = shown.split_once("live:\n").unwrap();
    let (live, after) = rest.split_once("\nLost:").unwrap();
    let live: Vec<&str> =
        live.lines().filter(|line| line.starts_with("kill -9") || line.starts_with("back after")).collect();
    let shown = format!("{head}live:\n(…)\n{}\n\nLost:{after}", live.join("\n"));
    let hashes = |word: &str| {
        word.trim_end_matches(',').len() >= 12 && word.chars().all(|c| c.is_ascii_hexdigit() || c == ',' || c == '…')
    };
    let shown: String =
        shown.split_inclusive([' ', '\n']).map(|word| if hashes(word.trim_end()) { "HASH " } else { word }).collect();
    let shown = told.plain(&shown, &[]);
    let _ = write!(told.text, "\n$ ostler demo\n{shown}");
    told.says(&["demo", "--remove"]);
    told.says(&["demo", "--remove"]);
}

/// What a daemon refuses, does not find, and says of what it runs.
fn with_a_daemon(told: &mut Words) {
    let up = told.home.ok(&["up"]);
    let names = ["claude ", "codex ", "gemini ", "opencode "];
    let up: String = up
        .lines()
        .filter(|line| !names.iter().any(|name| line.contains(name)))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let up = told.plain(&up, &[]);
    let _ = write!(told.text, "\n$ ostler up   (without the agents that are here)\n{up}");
    told.says(&["up"]);
    told.says(&["status"]);
    told.says(&["status", "--connect"]);
    told.home.start("build", "sleep 1000");
    told.home.start("over", "echo out; exit 3");
    wait_for("the end of `over`", || !told.home.process("over")["exit"].is_null());
    told.home.ok(&["new", "echo", "--name", "talk"]);
    told.home.ok(&["send", "talk", "ASK for it", "--no-wait"]);
    wait_for("a request", || told.home.json(&["approvals", "--list"])[0]["id"].is_string());
    let request = told.home.json(&["approvals", "--list"])[0]["id"].as_str().unwrap().to_owned();
    let calls: &[&[&str]] = &[
        &["up", "--drop-in"],
        &["ps", "--instance", "lab"],
        &["logs", "nothing"],
        &["logs", "p"],
        &["logs", "talk"],
        &["logs", "build", "--from", "9"],
        &["logs", "build", "--screen"],
        &["tui", "talk"],
        &["start", "build"],
        &["start", "talk"],
        &["start", "nothing"],
        &["wait", "over"],
        &["watch", "nothing"],
        &["watch", "build"],
        &["kill", "nothing"],
        &["kill", "over"],
        &["attach", "talk"],
        &["attach", "over"],
        &["run", "--", "no-such-program"],
        &["run", "--cwd", "/no/such/folder", "--", "true"],
        &["run", "-e", "=x", "--", "true"],
        &["new", "nobody-knows-it"],
        &["new", "echo", "-m", " "],
        &["new", "echo", "--mode", "loud"],
        &["new", "echo", "--worktree"],
        &["send", "nothing", "hello"],
        &["send", "talk", " "],
        &["send", "talk", "x", "--image", "/etc/hostname"],
        &["send", "talk", "x", "--file", "/etc"],
        &["send", "talk", "and this", "--no-wait"],
        &["set", "talk"],
        &["set", "talk", "--name", "talk"],
        &["set", "talk", "--permissions", "edits"],
        &["forget", "build"],
        &["forget", "talk"],
        &["forget", "nothing"],
        &["approvals"],
        &["approvals", "--json"],
        &["approvals", "--list"],
        &["approve", "nothing"],
        &["approve", &request],
        &["deny", "nothing"],
        &["deny", &request],
        &["rules"],
        &["rules", "revoke", "nothing"],
        &["rules", "add", "--", "no-such-program"],
        &["export", "nothing"],
        &["export", "talk", "--md", "--json"],
        &["export", "talk", "-o", "/no/such/folder/x"],
        &["interrupt", "nothing"],
        &["close", "nothing"],
        &["prune"],
        &["uninstall"],
        &["down"],
        &["ps", "-a"],
        &["sessions"],
        &["interrupt", "talk", "--clear-queue"],
        &["close", "talk"],
        &["send", "talk", "hello"],
        &["forget", "over"],
        &["forget", "talk"],
        &["kill", "build"],
        &["audit", "--after", "9000"],
    ];
    calls.iter().for_each(|call| told.says(call));
    told.home.ok(&["down", "--kill"]);
}

/// Lines with a word that is ours alone. What a setting is called is not a word of ours.
fn slips(text: &str) -> Vec<&str> {
    let words = |line: &str| {
        line.to_lowercase().split(|c: char| !c.is_alphanumeric() && c != '-').map(str::to_owned).collect::<Vec<_>>()
    };
    let slips = |line: &&str| {
        let of_settings = ["[doors]", "doors."].iter().any(|name| line.contains(name));
        // What a placeholder is called, and the file it stands in, nobody reads.
        let line = if line.ends_with(".rs") { "" } else { line };
        let line = line.replace("{keeper}", "");
        words(&line).iter().any(|word| OURS.contains(&word.as_str()) && !of_settings) || line.contains("can not")
    };
    text.lines().filter(slips).collect()
}

#[test]
fn every_string_of_help_and_errors_is_in_one_file_and_in_plain_words() {
    let mut told = Words { home: Home::new(), text: String::new() };
    help(&mut told);
    without_a_daemon(&mut told);
    doctor(&mut told);
    settings(&mut told);
    with_a_daemon(&mut told);
    screens(&mut told);
    demo(&mut told);
    told.text.push_str("\nEvery other sentence of the source, by file; ⏎ is a new line.\n");
    told.text.push_str(&crate::words_source::all());
    assert_eq!(slips(&told.text), [""; 0], "words for ARCHITECTURE.md only");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("words", told.text);
    });
}

#[test]
fn a_word_of_ours_does_not_slip_through() {
    assert_eq!(
        slips("opens the door\na doorbell\nthe agent can not\nOSTLER_X doors.codecast = true\nits Keeper"),
        ["opens the door", "the agent can not", "its Keeper"]
    );
}
