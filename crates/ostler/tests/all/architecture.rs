//! The code map of ARCHITECTURE.md is true: a crate uses only those above it, and who puts a session into words for a person
//! knows the words and nothing of who keeps them.

use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The folders of the code map's table, from the top.
fn rows() -> Vec<String> {
    let text = std::fs::read_to_string(crates().join("../ARCHITECTURE.md")).unwrap();
    let map = text.split("## Code map").nth(1).unwrap().split("\n## ").next().unwrap();
    let folder = |line: &str| line.strip_prefix("| `")?.split('`').next().map(str::to_owned);
    map.lines().filter_map(folder).filter(|folder| !folder.starts_with("../")).collect()
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.is_dir() {
            true => sources(&entry, found),
            false if entry.extension().is_some_and(|kind| kind == "rs") => found.push(entry),
            false => {}
        }
    }
}

fn manifest(folder: &str) -> toml::Table {
    let path = crates().join(folder).join("Cargo.toml");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).parse().unwrap()
}

#[test]
fn a_crate_uses_only_those_above_it_in_the_code_map() {
    let rows = rows();
    let name = |folder: &String| manifest(folder)["package"]["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = rows.iter().map(name).collect();
    for (place, folder) in rows.iter().enumerate() {
        let manifest = manifest(folder);
        let used = manifest["dependencies"].as_table().into_iter().flatten().map(|(name, _)| name);
        for used in used.filter(|name| name.starts_with("ostler-")) {
            let above = names.iter().position(|name| name == used).is_some_and(|used| used < place);
            assert!(above, "{folder} uses {used}, which is not above it in ARCHITECTURE.md");
        }
    }
}

#[test]
fn every_crate_is_in_the_code_map() {
    let rows = rows();
    for parent in ["", "doors/"] {
        for entry in std::fs::read_dir(crates().join(parent)).unwrap().flatten() {
            let folder = format!("{parent}{}", entry.file_name().to_string_lossy());
            let is_crate = entry.path().join("Cargo.toml").exists();
            assert!(!is_crate || rows.contains(&folder), "{folder} is not in ARCHITECTURE.md");
        }
    }
}

#[test]
fn a_session_is_put_into_words_without_the_engine_or_a_door() {
    let mut files = 0;
    for entry in std::fs::read_dir(crates().join("ostler/src/transcript")).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        for name in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| name.starts_with("ostler_")) {
            assert!(["ostler_api", "ostler_story"].contains(&name), "{}: {name}", entry.path().display());
        }
        files += 1;
    }
    assert!(files > 3);
}

/// Where the command line knows the engine, and why: it talks to a daemon through `api`. This list only gets shorter.
const LINKS: [(&str, &str); 12] = [
    ("config/mod.rs", "settings are read into what the daemon is given"),
    ("config/notify.rs", "settings are read into what the daemon is given"),
    ("output/error.rs", "a full disk is told in the same words with and without a daemon"),
    ("output/mod.rs", "who decided is called the same everywhere"),
    ("verbs/agents_here.rs", "where no daemon runs, agents are looked for as one would"),
    ("verbs/approvals/unlock.rs", "what proves a password is made here and checked there"),
    ("verbs/audit/mod.rs", "the record is read also where no daemon runs"),
    ("verbs/audit/verify.rs", "the record is verified without trusting a daemon"),
    ("verbs/audit/words.rs", "the record has the engine's words"),
    ("verbs/connect.rs", "the kernel is asked whether who listens is the daemon"),
    ("verbs/helper.rs", "short programs have one runner"),
    ("verbs/uninstall/trees.rs", "what is ours is found where no daemon runs"),
];

#[test]
fn the_command_line_knows_the_engine_only_where_a_reason_is_given() {
    let source = crates().join("ostler/src");
    let mut files = Vec::new();
    for folder in ["config", "output", "request", "transcript", "verbs"] {
        sources(&source.join(folder), &mut files);
    }
    let knows = |file: &&PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let own = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = own.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.into_iter().any(|line| ["ostler_engine::", "ostler_door_native::"].iter().any(|name| line.contains(name)))
    };
    let name = |file: &PathBuf| file.strip_prefix(&source).unwrap().display().to_string();
    let mut found: Vec<String> = files.iter().filter(knows).map(name).filter(|name| !name.contains("tests")).collect();
    found.sort();
    assert_eq!(found, LINKS.map(|(file, _)| file.to_owned()), "a verb asks the daemon through `api`");
}

/// What is done in one place, and who may do it otherwise: a program that is not the daemon, a file that stays open, one of any
/// length, a folder.
const ONCE: [(&str, &str, &[&str]); 5] = [
    (
        "Command::new(",
        "engine/src/brief/here.rs",
        &[
            // The approved command, by its runner.
            "stages/src/launch.rs",
            "stages/src/sudo.rs",
            // A keeper, or a daemon.
            "keeper/src/client/launch.rs",
            "ostler/src/names/claustrum/serve.rs",
            "ostler/src/verbs/background.rs",
            // A person's own terminal is lent: to ostler itself, to sudo, to an editor.
            "ostler/src/verbs/demo/mod.rs",
            "ostler/src/verbs/now/outside.rs",
            "ostler/src/verbs/approvals/unlock.rs",
            "ostler/src/verbs/diff/comment.rs",
            // A program that is not the daemon and knows no engine.
            "doors/mcp/src/terminal.rs",
            "doors/mcp/src/tunnel.rs",
        ],
    ),
    // Others read it, or are clients.
    (
        "\"jsonrpc\"",
        "doors/rpc/src/jsonrpc/notification.rs",
        &[
            "doors/rpc/src/jsonrpc/head.rs",
            "doors/claustrum/src/envelope.rs",
            "agents/src/rpc.rs",
            "api/src/client/mod.rs",
            "ostler/src/names/claustrum/stop.rs",
        ],
    ),
    (
        "task::spawn_blocking(",
        "engine/src/may_wait.rs",
        &["doors/mcp/src/tools/mod.rs", "doors/mcp/src/tools/pending.rs"],
    ),
    ("runtime.spawn_blocking(", "engine/src/may_wait.rs", &[]),
    (
        "fs::rename(",
        "workspace/src/replace.rs",
        &["journal/src/roll.rs", "ostler/src/verbs/export.rs", "ostler/src/names/claustrum/install/stock.rs"],
    ),
];

#[test]
fn what_has_one_helper_is_done_in_no_other_way() {
    let mut files = Vec::new();
    sources(&crates(), &mut files);
    for (call, home, others) in ONCE {
        let own = |text: &str| text.split("#[cfg(test)]").next().unwrap_or_default().contains(call);
        let users = files.iter().filter(|file| own(&std::fs::read_to_string(file).unwrap()));
        let users = users.map(|file| file.strip_prefix(crates()).unwrap().display().to_string());
        let users: Vec<String> = users.filter(|name| name.contains("/src/") && !name.contains("tests")).collect();
        assert!(users.iter().any(|user| user == home), "{call} is not in {home}");
        let strangers: Vec<&String> =
            users.iter().filter(|user| *user != home && !others.contains(&user.as_str())).collect();
        assert!(strangers.is_empty(), "{call} is for {home}: {strangers:?}");
        let gone: Vec<_> = others.iter().filter(|other| !users.iter().any(|user| user == *other)).collect();
        assert!(gone.is_empty(), "{call} is no longer in {gone:?}");
    }
}
