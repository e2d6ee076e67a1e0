//! What an agent asks for, readably: the tool and what it is given, a change of files as a difference, questions with their
//! choices. Nothing of the input is left out, because a yes is about all of it. Names and values are quoted where they could be
//! mistaken.

use ostler_story::{Mark, Question, ToolContent, is_something, take_diffs, take_shown, words};
use serde_json::Value;

use super::row::Row;
use crate::output::{Paint, spelled};
use crate::transcript::paint_of;

/// The rows for a tool use or a question; nothing for content of another shape.
pub(super) fn rows(content: &str) -> Option<Vec<Row>> {
    let content: ToolContent = serde_json::from_str(content).ok()?;
    let mut rows = vec![Row::ours(Paint::Head, format!("  {}", words::value(&content.title)))];
    if content.questions.is_empty() {
        tool(&content, &mut rows);
    }
    for (asked, number) in content.questions.iter().zip(1..) {
        rows.push(Row::ours(Paint::Plain, ""));
        rows.extend(question(asked, number));
        rows.push(Row::ours(Paint::Dim, "    t type an answer"));
    }
    for granted in &content.grants {
        rows.push(Row::ours(Paint::Warn, format!("  approving for longer also allows: {}", words::value(granted))));
    }
    Some(rows)
}

fn tool(content: &ToolContent, rows: &mut Vec<Row>) {
    let (agent, tool) = (words::quoted(&content.agent), words::value(&content.tool));
    rows.push(Row::ours(Paint::Plain, format!("  {agent} wants to use {tool}")));
    let mut input = content.input.clone();
    let diffs = take_diffs(&mut input);
    for diff in &diffs {
        rows.push(Row::ours(Paint::Plain, ""));
        rows.push(Row::ours(Paint::Head, format!("  {}", words::value(&diff.place()))));
        let row = |(mark, line): (Mark, &str)| {
            Row::new(paint_of(mark), &format!("  {}{}", mark.sign(), line.replace('\t', "    ")))
        };
        rows.extend(diff.lines().into_iter().map(row));
    }
    let shown: Vec<&str> = diffs.iter().map(|diff| diff.path.as_str()).collect();
    take_shown(&mut input, &content.title, &shown);
    let texts = take_texts(&mut input);
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        rows.push(Row::ours(Paint::Plain, ""));
        rows.extend(lines(text.trim_end(), "  "));
    }
    if is_something(&input) {
        rows.push(Row::ours(Paint::Plain, ""));
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

/// A question and its choices with their numbers.
pub(crate) fn question(question: &Question, number: usize) -> Vec<Row> {
    let several = if question.several { " (choose any)" } else { "" };
    let head = if question.header.is_empty() { &question.id } else { &question.header };
    let head = words::before(head, ":");
    let mut rows = vec![Row::ours(Paint::Head, format!("  question {number}{several}, {head}:"))];
    match question.question.trim_end() {
        text if text.contains('\n') => rows.extend(lines(text, "  ")),
        text => rows.push(Row::ours(Paint::Plain, format!("  {}", words::value(text)))),
    }
    rows.extend(question.options.iter().zip(1..).map(|(option, number)| {
        let about = Some(&option.description).filter(|text| !text.is_empty());
        let about = about.map_or(String::new(), |text| format!(": {}", words::value(text)));
        Row::ours(Paint::Plain, format!("    {number} {}{about}", words::before(&option.label, ": ")))
    }));
    rows
}

/// A text of several lines keeps them, each behind a bar, so that none can pose as another row.
fn lines(text: &str, indent: &str) -> impl Iterator<Item = Row> {
    text.split('\n').map(move |line| Row::ours(Paint::Plain, format!("{indent}│ {}", spelled(line))))
}

/// A value as indented lines.
fn value(value: &Value, depth: usize, rows: &mut Vec<Row>) {
    let indent = "  ".repeat(depth);
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (member(name), value)).collect(),
        Value::Array(items) => items.iter().zip(1..).map(|(item, number)| (format!("{number}: "), item)).collect(),
        other => vec![(String::new(), other)],
    };
    for (head, item) in entries.into_iter().filter(|(_, item)| is_something(item)) {
        match item {
            Value::String(text) if text.contains('\n') => {
                rows.push(Row::ours(Paint::Plain, format!("{indent}{head}")));
                rows.extend(lines(text, &format!("{indent}  ")));
            }
            Value::String(text) => rows.push(Row::ours(Paint::Plain, format!("{indent}{head}{}", string(text)))),
            Value::Object(_) | Value::Array(_) => {
                rows.push(Row::ours(Paint::Plain, format!("{indent}{head}")));
                self::value(item, depth + 1, rows);
            }
            other => rows.push(Row::ours(Paint::Plain, format!("{indent}{head}{other}"))),
        }
    }
}

/// The name of a member, which is no number of an item.
fn member(name: &str) -> String {
    match name.chars().all(|c| c.is_ascii_digit()) {
        true => format!("{}: ", words::in_quotes(name)),
        false => format!("{}: ", words::before(name, ": ")),
    }
}

/// A text that is no number, no `true` and no `null`.
fn string(text: &str) -> String {
    match serde_json::from_str::<Value>(text).is_ok() {
        true => words::in_quotes(text),
        false => words::value(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::wrap;
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
                "  question 1 (choose any), Colour:\n  Which?\n    1 red: warm\n    2 blue\n    t type an answer\n"
            ),
            "{shown}"
        );
    }

    #[test]
    fn what_could_be_mistaken_is_quoted() {
        let shown = text(tool_use(json!({
            "flag": "true", "count": "12", "real": true, "pad": " x", "a: b": "c", "7": ["7"], "cmd": "make \"all\"",
            "wide": "x\u{a0}\u{2800}y",
        })));
        for row in [
            "  flag: 'true'\n",
            "  count: '12'\n",
            "  real: true\n",
            "  pad: ' x'\n",
            "  'a: b': c\n",
            "  '7': \n    1: '7'\n",
            "  cmd: make \"all\"\n",
            "  wide: $'x\\u00a0\\u2800y'\n",
        ] {
            assert!(shown.contains(row), "{row:?} is missing in\n{shown}");
        }
    }

    #[test]
    fn a_choice_cannot_draw_another_one() {
        let padded = format!("red{}1 keep everything", " ".repeat(80));
        let question = json!({"id": "q", "header": "H: 1", "question": "Which?\n    1 red", "options":
            [{"label": padded}, {"label": "a: b", "description": "c"}, {"label": "x\u{a0}\u{2800}\u{3000}"}, {"label": "red (best)"}]});
        let content =
            json!({"agent": "echo", "tool": "q", "title": "t", "input": {}, "can": {}, "questions": [question]});
        let rows = wrap(&rows(&content.to_string()).unwrap(), 40);
        let shown: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        for row in [
            "  question 1, 'H: 1':",
            "  │     1 red",
            "    2 'a: b': c",
            r"    3 $'x\u00a0\u2800\u3000'",
            "    4 red (best)",
        ] {
            assert!(shown.contains(&row), "{row:?} is missing in\n{shown:#?}");
        }
        let ones: Vec<_> = shown.iter().filter(|row| row.trim_start().starts_with("1 ")).collect();
        assert_eq!(ones.len(), 1, "{shown:#?}");
        assert!(shown.iter().all(|row| !row.contains("keep") || row.starts_with("    ↳ ")), "{shown:#?}");
    }

    #[test]
    fn content_of_another_shape_is_left_to_others() {
        assert!(rows(r#"{"stages":[]}"#).is_none() && rows("no json").is_none());
    }
}
