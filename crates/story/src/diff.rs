//! Changes of files as data: what was there, what is there instead, and where.
//!
//! A tool's input says it in the words of its agent; [`take_diffs`] knows them all. What becomes a [`Diff`] is taken out of the
//! input, so that whoever shows both has shown all of it.

use serde::{Deserialize, Serialize};

use crate::Json;

/// A change of one file, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diff {
    /// The file.
    pub path: String,
    /// What is replaced. Nothing: the file is new, or only its new content is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// What comes instead. Nothing: the file is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// The line at which it begins, from 1, where the agent tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It comes.
    Added,
    /// It goes.
    Removed,
    /// It stays.
    Same,
}

impl Mark {
    /// What stands before the line.
    pub const fn sign(self) -> char {
        match self {
            Self::Added => '+',
            Self::Removed => '-',
            Self::Same => ' ',
        }
    }
}

/// Lines of both texts that are compared one by one: nobody reads more, and to compare them takes longer than anybody waits.
const COMPARED_MAX: usize = 4096;
/// Changes of one call, and their bytes: the rest is in the input.
const DIFFS_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;

impl Diff {
    /// The changes that a tool's input makes.
    pub fn all_in(input: &Json) -> Vec<Self> {
        Self::bounded(take_diffs(&mut input.clone()))
    }

    /// As many of them as an event has room for: all, or none.
    pub fn bounded(diffs: Vec<Self>) -> Vec<Self> {
        let bytes = |diff: &Self| [&diff.old, &diff.new].into_iter().flatten().map(String::len).sum::<usize>();
        let fits = diffs.len() <= DIFFS_MAX && diffs.iter().map(bytes).sum::<usize>() <= BYTES_MAX;
        if fits { diffs } else { Vec::new() }
    }

    /// The file, and the line where it is known.
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}, line {line}", self.path),
            None => self.path.clone(),
        }
    }

    /// Both texts line by line: what stays, what goes, what comes.
    pub fn lines(&self) -> Vec<(Mark, &str)> {
        let (old, new) = (lines_of(&self.old), lines_of(&self.new));
        if old.len() + new.len() > COMPARED_MAX {
            return marked(Mark::Removed, &old).chain(marked(Mark::Added, &new)).collect();
        }
        let mut out = Vec::new();
        for step in similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new) {
            let old = old.get(step.old_range()).unwrap_or_default();
            match step.tag() {
                similar::DiffTag::Equal => out.extend(marked(Mark::Same, old)),
                _ => {
                    out.extend(marked(Mark::Removed, old));
                    out.extend(marked(Mark::Added, new.get(step.new_range()).unwrap_or_default()));
                }
            }
        }
        out
    }
}

fn lines_of(text: &Option<String>) -> Vec<&str> {
    text.as_deref().unwrap_or_default().lines().collect()
}

fn marked<'a>(mark: Mark, lines: &[&'a str]) -> impl Iterator<Item = (Mark, &'a str)> {
    lines.iter().map(move |line| (mark, *line))
}

const PATHS: &[&str] = &["file_path", "filePath", "filepath", "path", "notebook_path"];
const OLD: &[&str] = &["old_string", "oldString", "oldText", "old_str"];
const NEW: &[&str] = &["new_string", "newString", "newText", "new_str", "new_source", "content"];
/// Members that hold several changes.
const SEVERAL: &[&str] = &["edits", "changes", "content"];

type Members = serde_json::Map<String, Json>;

/// Takes every change out of a tool's input.
pub fn take_diffs(input: &mut Json) -> Vec<Diff> {
    let mut found = Vec::new();
    take(input, None, &mut found);
    found
}

/// The file that a tool's input names.
pub(crate) fn path_in(input: &Json) -> Option<&str> {
    PATHS.iter().find_map(|name| input.get(*name))?.as_str()
}

fn take(input: &mut Json, around: Option<&str>, found: &mut Vec<Diff>) {
    let own = path_in(input).map(str::to_owned);
    let Some(members) = input.as_object_mut() else { return };
    let path = own.as_deref().or(around);
    for name in SEVERAL {
        let Some(list) = members.get_mut(*name).and_then(Json::as_array_mut) else { continue };
        for part in list.iter_mut() {
            take(part, path, found);
        }
    }
    let Some(path) = path.map(str::to_owned) else { return };
    if let Some(diff) = take_text(members, &["diff"]) {
        return match (is_of_kind(members, "add"), is_of_kind(members, "delete")) {
            _ if diff.lines().any(|line| line.starts_with("@@")) => unified(&path, &diff, found),
            (true, _) => found.push(Diff { path, old: None, new: Some(diff), line: None }),
            (_, true) => found.push(Diff { path, old: Some(diff), new: None, line: None }),
            _ => unified(&path, &diff, found),
        };
    }
    let Some(new) = take_text(members, NEW) else { return };
    found.push(Diff { path, old: take_text(members, OLD), new: Some(new), line: None });
}

fn take_text(members: &mut Members, names: &[&str]) -> Option<String> {
    let name = names.iter().find(|name| members.get(**name).is_some_and(Json::is_string))?;
    match members.remove(*name) {
        Some(Json::String(text)) => Some(text),
        _ => None,
    }
}

/// `add` and `delete` come with the file's content instead of a difference.
fn is_of_kind(members: &Members, wanted: &str) -> bool {
    let kind = members.get("kind");
    kind.and_then(|kind| kind.as_str().or_else(|| kind.get("type")?.as_str())) == Some(wanted)
}

/// A difference as `diff -u` writes it: one change for each place.
fn unified(path: &str, diff: &str, found: &mut Vec<Diff>) {
    let named = ["--- ", "+++ ", "diff ", "index ", "Index: ", "====="];
    let (mut old, mut new, mut line, mut within) = (String::new(), String::new(), None, false);
    let mut close = |old: &mut String, new: &mut String, line: &mut Option<u64>| {
        if !old.is_empty() || !new.is_empty() {
            let (old, new) = (Some(std::mem::take(old)), Some(std::mem::take(new)));
            found.push(Diff { path: path.to_owned(), old, new, line: line.take() });
        }
    };
    for one in diff.split_inclusive('\n') {
        match one.chars().next() {
            _ if one.starts_with("@@") => {
                close(&mut old, &mut new, &mut line);
                let begins = one.split('+').nth(1).and_then(|rest| rest.split([',', ' ']).next());
                (line, within) = (begins.and_then(|begins| begins.parse().ok()), true);
            }
            _ if !within && named.iter().any(|name| one.starts_with(name)) => {}
            Some('+') => new.push_str(one.get(1..).unwrap_or_default()),
            Some('-') => old.push_str(one.get(1..).unwrap_or_default()),
            Some('\\') => {}
            _ => {
                let stays = one.strip_prefix(' ').unwrap_or(one);
                old.push_str(stays);
                new.push_str(stays);
            }
        }
    }
    close(&mut old, &mut new, &mut line);
}

/// Takes out of a tool's input what is shown beside it: its title, and the paths of files whose changes are.
pub fn take_shown(input: &mut Json, title: &str, paths: &[&str]) {
    let is_shown = |value: &Json| value.as_str().is_some_and(|text| text == title || paths.contains(&text));
    match input {
        Json::Object(members) => {
            // `path` beside other things says what those are about.
            members.retain(|name, value| {
                !(is_shown(&*value) && (name == "title" || name.to_lowercase().contains("path")))
            });
            members.values_mut().for_each(|value| take_shown(value, title, paths));
            if members.get("type").is_some_and(|kind| kind == "diff")
                && members.values().filter(|value| is_something(value)).count() == 1
            {
                members.clear();
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| take_shown(item, title, paths)),
        _ => {}
    }
}

/// Whether a value says anything.
pub fn is_something(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Object(members) => members.values().any(is_something),
        Json::Array(items) => items.iter().any(is_something),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(diffs: &[Diff]) -> String {
        let line = |(mark, line): (Mark, &str)| format!("{}{line}\n", mark.sign());
        let diff =
            |diff: &Diff| format!("{}:\n{}", diff.place(), diff.lines().into_iter().map(line).collect::<String>());
        diffs.iter().map(diff).collect()
    }

    #[test]
    fn an_edit_shows_what_goes_and_what_comes_between_what_stays() {
        let mut input = json!({"file_path": "/a.rs", "old_string": "one\ntwo\nthree\nfour\nfive",
            "new_string": "one\n2\nthree\n4\nfive", "replace_all": true});
        assert_eq!(text(&take_diffs(&mut input)), "/a.rs:\n one\n-two\n+2\n three\n-four\n+4\n five\n");
        assert_eq!(input, json!({"file_path": "/a.rs", "replace_all": true}));
    }

    #[test]
    fn every_agents_way_to_say_it_is_understood() {
        let cases = [
            (json!({"file_path": "/w", "content": "a\nb"}), "/w:\n+a\n+b\n"),
            (
                json!({"file_path": "/m", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": ""}]}),
                "/m:\n-a\n+b\n/m:\n-c\n",
            ),
            (
                json!({"changes": [{"path": "/c", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-x\n+y\n z"}]}),
                "/c, line 1:\n-x\n+y\n z\n",
            ),
            (
                json!({"filepath": "/o", "diff": "Index: /o\n=====\n--- /o\n+++ /o\n@@ -3,2 +4,2 @@ fn\n a\n-b\n@@ -9 +9 @@\n+c\n\\ No newline at end of file"}),
                "/o, line 4:\n a\n-b\n/o, line 9:\n+c\n",
            ),
            (json!({"changes": [{"path": "/n", "kind": "add", "diff": "- a list"}]}), "/n:\n+- a list\n"),
            (json!({"changes": [{"path": "/n", "kind": "delete", "diff": "gone"}]}), "/n:\n-gone\n"),
            (
                json!({"title": "t", "content": [{"type": "diff", "path": "/d", "oldText": null, "newText": "q"}]}),
                "/d:\n+q\n",
            ),
        ];
        for (mut input, want) in cases {
            assert_eq!(text(&take_diffs(&mut input)), want);
        }
    }

    #[test]
    fn what_is_no_change_stays_where_it_is() {
        for input in [
            json!({"command": "ls"}),
            json!({"content": "x"}),
            json!(null),
            json!({"path": "/a"}),
            json!([{"path": 1}]),
        ] {
            let mut left = input.clone();
            assert!(take_diffs(&mut left).is_empty(), "{input}");
            assert_eq!(left, input);
        }
    }

    #[test]
    fn what_is_too_much_for_an_event_is_left_in_the_input() {
        assert!(Diff::all_in(&json!({"path": "/a", "content": "x".repeat(BYTES_MAX + 1)})).is_empty());
        let edit = json!({"old_string": "a", "new_string": "b"});
        assert!(Diff::all_in(&json!({"path": "/a", "edits": vec![edit; DIFFS_MAX + 1]})).is_empty());
        let long = Diff { path: "/a".into(), old: Some("a\n".repeat(COMPARED_MAX)), new: Some("b".into()), line: None };
        assert_eq!(long.lines().len(), COMPARED_MAX + 1);
    }
}
