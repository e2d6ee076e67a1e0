//! Doors tell a session in the words of their protocol, from its events. What an agent's own lines hold is read in this crate
//! and nowhere else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The code of a file, without its tests.
fn code(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split("#[cfg(test)]").next().unwrap().to_owned()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().unwrap().to_str().unwrap().ends_with("tests");
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") && !is_test => found.push(path),
            false => {}
        }
    }
}

/// What stands between `open` and the next quotation mark, wherever `open` stands.
fn after<'a>(code: &'a str, open: &'a str) -> impl Iterator<Item = &'a str> {
    code.split(open).skip(1).filter_map(|rest| rest.split('"').next())
}

/// The members that a door looks up in JSON.
fn looked_up(code: &str) -> BTreeSet<&str> {
    let ways = [".get(\"", ".get_mut(\"", ".pointer(\"/", ".remove(\"", ")[\"", "][\"", "value[\"", "line[\""];
    ways.into_iter().flat_map(|open| after(code, open)).collect()
}

/// The members that the adapters look up: alone, or as a path of several.
fn read_here() -> BTreeSet<String> {
    let (mut files, mut members) = (Vec::new(), BTreeSet::new());
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    for file in files {
        let code = code(&file);
        members.extend(after(&code, ".get(\"").map(str::to_owned));
        let paths = code.split("&[\"").skip(1).filter_map(|rest| rest.split(']').next());
        members.extend(paths.flat_map(|path| path.split('"').step_by(2)).map(str::to_owned));
    }
    members
}

/// Members that a door's own clients say, too: zeroclaw's answer to a form.
const CLIENTS_OWN: [&str; 1] = ["action"];

#[test]
fn no_door_reads_an_agents_own_json() {
    let members = read_here();
    for known in ["content_block", "parent_tool_use_id", "session_id", "sessionUpdate", "tokenUsage", "callID"] {
        assert!(members.contains(known), "{known} is read by an adapter");
    }
    let doors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors");
    let (mut files, mut raw) = (Vec::new(), Vec::new());
    for door in ["codecast", "zeroclaw", "cdev", "native"] {
        sources(&doors.join(door).join("src"), &mut files);
    }
    for file in &files {
        let code = code(file);
        let own = |name: &&str| members.contains(*name) && !CLIENTS_OWN.contains(name);
        let both: Vec<&str> = looked_up(&code).into_iter().filter(own).collect();
        assert!(both.is_empty(), "{} looks for {both:?}, as an agent would say it", file.display());
        if code.contains(".raw(") {
            raw.push(file.strip_prefix(&doors).unwrap().to_str().unwrap().to_owned());
        }
    }
    // Where an agent's lines are passed on as they are, and how that is done.
    raw.sort();
    assert_eq!(raw, ["cdev/src/events/session.rs", "codecast/src/reader.rs", "native/src/session.rs"]);
    let passed_on = code(&doors.join("codecast/src/translate.rs"));
    assert!(passed_on.contains("Raw::read(&raw(") && !passed_on.contains("serde_json::from"));
}
