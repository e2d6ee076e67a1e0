//! What an agent asks for, readably: the tool and what it is given, a change of files as a difference, questions with their
//! choices. Nothing of the input is left out, because a yes is about all of it.

use ostler_engine::session::ToolContent;
use serde_json::Value;

use super::row::Row;
use crate::output::{Paint, spelled};
use crate::transcript::{Mark, take_changes};

/// The rows for a tool use or a question; nothing for content of another shape.
pub(super) fn rows(content: &str) -> Option<Vec<Row>> {
    let content: ToolContent = serde_json::from_str(content).ok()?;
    let mut rows = vec![Row::new(Paint::Head, &format!("  {}", content.title))];
    match content.questions.is_empty() {
        true => tool(&content, &mut rows),
        false => questions(&content, &mut rows),
    }
    for granted in &content.grants {
        rows.push(Row::new(Paint::Warn, &format!("  a yes that lasts also covers: {granted}")));
    }
    Some(rows)
}

fn tool(content: &ToolContent, rows: &mut Vec<Row>) {
    rows.push(Row::new(Paint::Plain, &format!("  {} wants to use {}", content.agent, content.tool)));
    let mut input = content.input.clone();
    for change in take_changes(&mut input) {
        rows.push(Row::new(Paint::Plain, ""));
        rows.push(Row::new(Paint::Head, &format!("  {}", change.path)));
        for (mark, line) in &change.lines {
            let paint = match mark {
                Mark::Added => Paint::Good,
                Mark::Removed => Paint::Bad,
                Mark::Same | Mark::Place => Paint::Dim,
            };
            rows.push(Row::new(paint, &format!("  {}{}", mark.sign(), line.replace('\t', "    "))));
        }
    }
    if is_something(&input) {
        rows.push(Row::new(Paint::Plain, ""));
        value(&input, 1, rows);
    }
}

fn questions(content: &ToolContent, rows: &mut Vec<Row>) {
    for (index, question) in content.questions.iter().enumerate() {
        rows.push(Row::new(Paint::Plain, ""));
        let several = if question.several { " (several may be chosen)" } else { "" };
        let head = if question.header.is_empty() { question.id.as_str() } else { question.header.as_str() };
        rows.push(Row::new(Paint::Head, &format!("  question {}, {head}{several}:", index + 1)));
        rows.push(Row::new(Paint::Plain, &format!("  {}", question.question)));
        for (index, option) in question.options.iter().enumerate() {
            let about = if option.description.is_empty() { String::new() } else { format!(": {}", option.description) };
            rows.push(Row::new(Paint::Plain, &format!("    {} {}{about}", index + 1, option.label)));
        }
        rows.push(Row::new(Paint::Dim, "    t words of your own"));
    }
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(members) => members.values().any(is_something),
        Value::Array(items) => items.iter().any(is_something),
        _ => true,
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
    for (name, item) in entries {
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
            "also covers: Edit(**)",
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
    fn a_question_lists_its_choices_with_their_keys() {
        let question = json!({"id": "colour", "header": "Colour", "question": "Which?", "several": true,
            "options": [{"label": "red", "description": "warm"}, {"label": "blue"}]});
        let content = json!({"agent": "echo", "tool": "question", "title": "Which?", "input": {}, "can": {}, "questions": [question]});
        let shown = text(content);
        assert!(shown.contains("  question 1, Colour (several may be chosen):\n  Which?\n    1 red: warm\n    2 blue\n    t words of your own\n"), "{shown}");
    }

    #[test]
    fn content_of_another_shape_is_left_to_others() {
        assert!(rows(r#"{"stages":[]}"#).is_none() && rows("no json").is_none());
    }
}
