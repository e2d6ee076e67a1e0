//! State folders of earlier versions: what was said in them is read as it was written.
//!
//! `fixtures/make.py` made each folder with the program of that version, and kept beside it what that program printed about it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use crate::cli_kit::Home;

/// One command of the program that made the folder.
#[derive(Deserialize)]
struct Saying {
    args: Vec<String>,
    code: i32,
    out: String,
    err: String,
}

fn fixture(version: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/state-{version}/{file}"))
}

/// A home with that state folder, in which nothing is too old to be kept.
pub(crate) fn home_of(version: &str) -> Home {
    let home = Home::new();
    std::fs::write(
        home.path("config.toml"),
        "[journal]\nkeep_for = \"99999d\"\n[sessions]\nkeep_closed = \"99999d\"\n",
    )
    .unwrap();
    let packed = std::fs::read(fixture(version, "state.tar.zst")).unwrap();
    let tar = home.path("state.tar");
    std::fs::write(&tar, zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(home.path("")).status().unwrap();
    assert!(unpacked.success());
    home
}

/// The rules that never expire: the others go with the years.
fn lasting(rules: &str) -> Vec<Value> {
    let rules: Vec<Value> = serde_json::from_str(rules).unwrap();
    rules.into_iter().filter(|rule| rule["expires"].is_null()).collect()
}

/// Each value of an output in JSON, whole or in lines.
fn values(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
}

/// Whether everything that was said is said; members that came later may be there too.
fn says_all_of(now: &Value, before: &Value) -> bool {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            before.iter().all(|(name, value)| now.get(name).is_some_and(|now| says_all_of(now, value)))
        }
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len() && now.iter().zip(before).all(|(now, before)| says_all_of(now, before))
        }
        (now, before) => now == before,
    }
}

/// Without what the daemon that was asked has added itself: that it began, and that nobody vouches for the rules.
fn before_this_daemon(audit: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = audit.lines().collect();
    lines.truncate(lines.len() - 2);
    lines
}

#[test]
fn what_an_earlier_version_wrote_is_told_as_it_told_it() {
    let home = home_of("0.1.0");
    home.ok(&["up"]);
    let sayings: Vec<Saying> = serde_json::from_slice(&std::fs::read(fixture("0.1.0", "said.json")).unwrap()).unwrap();
    assert!(sayings.len() > 10);
    for Saying { args, code, out, err } in sayings {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let now = home.command(&words).env("TZ", "UTC").env("NO_COLOR", "1").output().unwrap();
        let (told, trouble) = (String::from_utf8(now.stdout).unwrap(), String::from_utf8(now.stderr).unwrap());
        assert_eq!((now.status.code(), trouble), (Some(code), err), "{args:?}: {told}");
        match words.as_slice() {
            ["rules", ..] => assert_eq!(lasting(&told), lasting(&out)),
            ["audit", ..] => assert_eq!(before_this_daemon(&told), before_this_daemon(&out)),
            _ if args.iter().any(|arg| arg == "--json") => {
                let (told, out) = (values(&told), values(&out));
                assert!(told.len() == out.len(), "{args:?}");
                let pairs = told.iter().zip(&out);
                pairs.for_each(|(told, out)| assert!(says_all_of(told, out), "{args:?}: {told}\n{out}"));
            }
            _ => assert_eq!(told, out, "{args:?}"),
        }
    }
    assert!(home.ok(&["audit", "--verify"]).starts_with("ok "));
}

#[test]
fn a_session_of_a_newer_version_is_refused_by_name_and_left_alone() {
    let home = Home::up();
    let session = home.json(&["new", "echo", "--name", "newer"])["id"].as_str().unwrap().to_owned();
    home.ok(&["down", "--kill"]);
    let folder = home.path("state/instances/main/sessions").join(&session);
    let events = folder.join("events");
    let said = std::fs::read_to_string(&events).unwrap();
    assert!(said.contains(r#""version":1,"#), "{said}");
    let newer = said.replace(r#""version":1,"#, r#""version":9,"#);
    std::fs::write(&events, &newer).unwrap();
    let _ = std::fs::remove_file(folder.join("snapshot.json"));
    home.ok(&["up"]);
    assert!(!home.ok(&["sessions", "--all"]).contains("newer"));
    let log = home.ok(&["logs", "--daemon"]);
    let refused = format!("{session}: written by a newer ostler (version 9); this one reads up to 1");
    assert!(log.contains(&refused), "{log}");
    assert_eq!(std::fs::read_to_string(&events).unwrap(), newer);
    assert!(!folder.join("snapshot.json").exists());
}
