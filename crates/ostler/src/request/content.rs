//! What an agent asks for, readably: the tool and what it is given, a change of files as a difference, questions with their
//! choices. Nothing of the input is left out, because a yes is about all of it.

use ostler_story::{Mark, ToolContent, is_something, take_diffs, take_shown};
use serde_json::Value;

use super::row::Row;
use crate::output::{Paint, spelled};
use crate::transcript::paint_of;

/// The rows for a tool use or a question; nothing for content of another shape.
pub(super) fn rows(content: &str) -> Option<Vec<Row>> {
    let content: ToolContent = serde_json::from_str(content).ok()?;
    let mut rows = vec![Row::new(Paint::Head, &format!("  {}", content.title))];
    match content.questions.is_empty() {
        true => tool(&content, &mut rows),
        false => questions(&content, &mut rows),
    }
    for granted in &content.grants {
        rows.push(Row::new(Paint::Warn, &format!("  approving for longer also allows: {granted}")));
    }
    Some(rows)
}

fn tool(content: &ToolContent, rows: &mut Vec<Row>) {
    rows.push(Row::new(Paint::Plain, &format!("  {} wants to use {}", content.agent, content.tool)));
    let mut input = content.input.clone();
    let diffs = take_diffs(&mut input);
    for diff in &diffs {
        rows.push(Row::new(Paint::Plain, ""));
        rows.push(Row::new(Paint::Head, &format!("  {}", diff.place())));
        let row = |(mark, line): (Mark, &str)| {
            Row::new(paint_of(mark), &format!("  {}{}", mark.sign(), line.replace('\t', "    ")))
        };
        rows.extend(diff.lines().into_iter().map(row));
    }
    let shown: Vec<&str> = diffs.iter().map(|diff| diff.path.as_str()).collect();
    take_shown(&mut input, &content.title, &shown);
    let texts = take_texts(&mut input);
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        rows.push(Row::new(Paint::Plain, ""));
        rows.extend(text.trim_end().split('\n').map(|line| Row::ours(Paint::Plain, format!("  │ {}", spelled(line)))));
    }
    if is_something(&input) {
        rows.push(Row::new(Paint::Plain, ""));
        value(&input, 1, rows);
    }
}

/// Takes out the texts that an agent shows with its request: `{"type": "content", "content": {"type": "text", "text": …}}`.
fn take_texts(input: &mut Value) -> Vec<String> {
    let Some(items) = input.get_mut("content").and_then(Value::as_array_mut) else { return Vec::new() };
    let mut texts = Vec::new();
    for item in items {
        let text = item.get("content").filter(|block| block.get("type").is_some_and(|kind| kind == "text"));
        if let Some(text) = text.and_then(|block| block.get("text")).and_then(Value::as_str).map(str::to_owned) {
            let more = |value: &Value, known: &[&str]| {
                value.as_object().is_some_and(|all| {
                    all.iter().any(|(name, value)| !known.contains(&name.as_str()) && is_something(value))
                })
            };
            let block = item.get("content").unwrap_or(&Value::Null);
            if !more(&*item, &["type", "content"]) && !more(block, &["type", "text"]) {
                texts.push(text);
                *item = Value::Null;
            }
        }
    }
    texts
}

fn questions(content: &ToolContent, rows: &mut Vec<Row>) {
    for (index, question) in content.questions.iter().enumerate() {
        rows.push(Row::new(Paint::Plain, ""));
        let several = if question.several { " (choose any)" } else { "" };
        let head = if question.header.is_empty() { question.id.as_str() } else { question.header.as_str() };
        rows.push(Row::new(Paint::Head, &format!("  question {}, {head}{several}:", index + 1)));
        rows.push(Row::new(Paint::Plain, &format!("  {}", question.question)));
        for (index, option) in question.options.iter().enumerate() {
            let about = if option.description.is_empty() { String::new() } else { format!(": {}", option.description) };
            rows.push(Row::new(Paint::Plain, &format!("    {} {}{about}", index + 1, option.label)));
        }
        rows.push(Row::new(Paint::Dim, "    t type an answer"));
    }
}

/// A value as indented lines. A text of several lines keeps them, each behind a bar, so that none can pose as another row.
fn value(value: &Value, depth: usize, rows: &mut Vec<Row>) {
    let indent = "  ".repeat(depth);
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (format!("{}", index + 1), item)).collect(),
        other => vec![(String::new(), other)],
    };
    for (name, item) in entries.into_iter().filter(|(_, item)| is_something(item)) {
        let head = if name.is_empty() { String::new() } else { format!("{name}: ") };
        match item {
            Value::String(text) if text.contains('\n') => {
                rows.push(Row::new(Paint::Plain, &format!("{indent}{head}")));
                let line = |line| Row::ours(Paint::Plain, format!("{indent}  │ {}", spelled(line)));
                rows.extend(text.split('\n').map(line));
            }
            Value::String(text) => rows.push(Row::new(Paint::Plain, &format!("{indent}{head}{text}"))),
            Value::Object(_) | Value::Array(_) => {
                rows.push(Row::new(Paint::Plain, &format!("{indent}{head}")));
                self::value(item, depth + 1, rows);
            }
            other => rows.push(Row::new(Paint::Plain, &format!("{indent}{head}{other}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(content: Value) -> String {
        let rows = rows(&content.to_string()).unwrap();
        rows.iter().map(|row| format!("{}\n", row.text)).collect()
    }

    fn tool_use(input: Value) -> Value {
        json!({"agent": "claude", "tool": "Edit", "title": "Edit a.rs", "input": input, "can": {}, "grants": ["Edit(**)"]})
    }

    #[test]
    fn an_edit_is_a_difference_and_the_rest_of_its_input_is_there_too() {
        let shown =
            text(tool_use(json!({"file_path": "a.rs", "old_string": "x", "new_string": "y", "replace_all": true})));
        for part in [
            "  Edit a.rs\n",
            "claude wants to use Edit",
            "  a.rs\n  -x\n  +y\n",
            "replace_all: true",
            "also allows: Edit(**)",
        ] {
            assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
        }
    }

    #[test]
    fn every_line_of_a_command_stands_behind_a_bar() {
        let shown = text(tool_use(json!({"command": "ls\nsha256      0000", "nested": {"a": [1, "two"]}})));
        assert!(shown.contains("  command: \n    │ ls\n    │ sha256      0000\n"), "{shown}");
        assert!(shown.contains("  nested: \n    a: \n      1: 1\n      2: two\n"), "{shown}");
    }

    #[test]
    fn a_request_over_acp_is_read_like_any_other() {
        // As gemini says it: everything in the title, a difference, and nothing else that is new.
        let diff =
            json!({"type": "diff", "path": "/w/a.rs", "oldText": "x\n", "newText": "y\n", "_meta": {"kind": "modify"}});
        let input = json!({"title": "Edit a.rs", "content": [diff], "locations": [{"path": "/w/a.rs"}]});
        let shown = text(tool_use(input));
        assert!(shown.contains("  /w/a.rs\n  -x\n  +y\n") && shown.contains("kind: modify"), "{shown}");
        assert!(!shown.contains("locations") && !shown.contains("title:") && !shown.contains("oldText"), "{shown}");
        // As opencode says it.
        let shown = text(tool_use(json!({"filepath": "/w/b", "diff": "@@ -1 +1 @@\n-x\n+y"})));
        assert!(
            shown.ends_with("  /w/b, line 1\n  -x\n  +y\n  approving for longer also allows: Edit(**)\n"),
            "{shown}"
        );
        let words = json!({"type": "content", "content": {"type": "text", "text": "It will\nsha256 0000"}});
        let shown = text(tool_use(json!({"title": "make all", "content": [words], "locations": []})));
        assert!(shown.contains("  │ It will\n  │ sha256 0000\n") && shown.contains("  title: make all\n"), "{shown}");
        assert!(!shown.contains("content:") && !shown.contains("type:"), "{shown}");
    }

    #[test]
    fn a_question_lists_its_choices_with_their_keys() {
        let question = json!({"id": "colour", "header": "Colour", "question": "Which?", "several": true,
            "options": [{"label": "red", "description": "warm"}, {"label": "blue"}]});
        let content = json!({"agent": "echo", "tool": "question", "title": "Which?", "input": {}, "can": {}, "questions": [question]});
        let shown = text(content);
        assert!(
            shown.contains(
                "  question 1, Colour (choose any):\n  Which?\n    1 red: warm\n    2 blue\n    t type an answer\n"
            ),
            "{shown}"
        );
    }

    #[test]
    fn content_of_another_shape_is_left_to_others() {
        assert!(rows(r#"{"stages":[]}"#).is_none() && rows("no json").is_none());
    }
}
