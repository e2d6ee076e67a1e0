//! What a tool's input would change in files, in the words of every agent that we drive, as lines with a mark. What is shown
//! as a change is taken out of the input, so that whoever shows the rest has shown all of it.

use serde_json::Value;

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Added,
    Removed,
    Same,
    /// Where in the file the next lines are.
    Place,
}

impl Mark {
    /// What stands before the line.
    pub(crate) const fn sign(self) -> char {
        match self {
            Self::Added => '+',
            Self::Removed => '-',
            Self::Same => ' ',
            Self::Place => '@',
        }
    }
}

/// One file's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) lines: Vec<(Mark, String)>,
}

const PATHS: &[&str] = &["file_path", "filePath", "filepath", "path", "notebook_path"];
const OLD: &[&str] = &["old_string", "oldString", "oldText", "old_str"];
const NEW: &[&str] = &["new_string", "newString", "newText", "new_str", "new_source", "content"];
/// Members that hold several changes.
const SEVERAL: &[&str] = &["edits", "changes", "content"];

/// Takes every change out of a tool's input.
pub(crate) fn take_changes(input: &mut Value) -> Vec<Change> {
    let mut found = Vec::new();
    take(input, None, &mut found);
    found
}

fn take(input: &mut Value, around: Option<&str>, found: &mut Vec<Change>) {
    let Some(members) = input.as_object_mut() else { return };
    let own = PATHS.iter().find_map(|name| members.get(*name)).and_then(Value::as_str).map(str::to_owned);
    let path = own.as_deref().or(around);
    for name in SEVERAL {
        let Some(list) = members.get_mut(*name).and_then(Value::as_array_mut) else { continue };
        for part in list.iter_mut() {
            take(part, path, found);
        }
    }
    let Some(path) = path.map(str::to_owned) else { return };
    let text = |members: &serde_json::Map<String, Value>, names: &[&'static str]| {
        names.iter().copied().find(|name| members.get(*name).is_some_and(Value::is_string))
    };
    if let Some(diff) = members.get("diff").and_then(Value::as_str) {
        let lines = unified(diff, kind(members));
        members.remove("diff");
        return found.push(Change { path, lines });
    }
    let Some(new) = text(members, NEW) else { return };
    let new = string(members.remove(new));
    let old = text(members, OLD).map(|name| string(members.remove(name))).unwrap_or_default();
    found.push(Change { path, lines: compare(&old, &new) });
}

fn string(value: Option<Value>) -> String {
    match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// `add` and `delete` come with the file's content instead of a difference.
fn kind(members: &serde_json::Map<String, Value>) -> Option<Mark> {
    let kind = members.get("kind")?;
    match kind.as_str().or_else(|| kind.get("type").and_then(Value::as_str))? {
        "add" => Some(Mark::Added),
        "delete" => Some(Mark::Removed),
        _ => None,
    }
}

fn unified(diff: &str, whole: Option<Mark>) -> Vec<(Mark, String)> {
    let has_places = diff.lines().any(|line| line.starts_with("@@"));
    if let (Some(mark), false) = (whole, has_places) {
        return diff.lines().map(|line| (mark, line.to_owned())).collect();
    }
    let mark = |line: &str| {
        let (mark, rest) = match line.chars().next() {
            Some('+') => (Mark::Added, line.get(1..)),
            Some('-') => (Mark::Removed, line.get(1..)),
            Some('@') => (Mark::Place, Some(line)),
            Some(' ') => (Mark::Same, line.get(1..)),
            _ => (Mark::Same, Some(line)),
        };
        (mark, rest.unwrap_or_default().to_owned())
    };
    diff.lines().map(mark).collect()
}

/// Both texts line by line: what they begin and end with alike stays, what lies between goes and comes.
fn compare(old: &str, new: &str) -> Vec<(Mark, String)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let same = |line: &&str| (Mark::Same, (*line).to_owned());
    let mut lines: Vec<(Mark, String)> = old.iter().take(head).map(same).collect();
    let gone = old_rest.iter().take(old_rest.len() - tail);
    lines.extend(gone.map(|line| (Mark::Removed, (*line).to_owned())));
    let come = new_rest.iter().take(new_rest.len() - tail);
    lines.extend(come.map(|line| (Mark::Added, (*line).to_owned())));
    lines.extend(old_rest.iter().skip(old_rest.len() - tail).map(same));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(changes: &[Change]) -> String {
        let line = |(mark, line): &(Mark, String)| format!("{}{line}\n", mark.sign());
        changes
            .iter()
            .map(|change| format!("{}:\n{}", change.path, change.lines.iter().map(line).collect::<String>()))
            .collect()
    }

    #[test]
    fn an_edit_shows_what_goes_and_what_comes_between_what_stays() {
        let mut input = json!({"file_path": "/a.rs", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree", "replace_all": true});
        assert_eq!(text(&take_changes(&mut input)), "/a.rs:\n one\n-two\n+2\n three\n");
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
                "/c:\n@@@ -1 +1 @@\n-x\n+y\n z\n",
            ),
            (json!({"changes": [{"path": "/n", "kind": "add", "diff": "- a list"}]}), "/n:\n+- a list\n"),
            (
                json!({"title": "t", "content": [{"type": "diff", "path": "/d", "oldText": null, "newText": "q"}]}),
                "/d:\n+q\n",
            ),
        ];
        for (mut input, want) in cases {
            assert_eq!(text(&take_changes(&mut input)), want);
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
            assert!(take_changes(&mut left).is_empty(), "{input}");
            assert_eq!(left, input);
        }
    }
}
