//! A session as a Markdown document: whole blocks, every result in full, nothing shortened. Pieces appear only where the whole
//! never came.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ostler_api::{SessionInfo, Timestamp};
use ostler_story::{
    Block, Diff, EndReason, Ended, Event, Fact, Piece, PlanStatus, Prompt, Story, ToolCall, Voice, Why,
};

use super::live::{answer_words, kind_word};
use super::usage::{spent_words, usage_words};
use crate::output::{by_name, visible, visible_lines};

/// A document that grows.
#[derive(Default)]
pub(crate) struct Markdown {
    /// When prompts were accepted whose turn has not come.
    accepted: BTreeMap<u64, Timestamp>,
}

impl Markdown {
    /// What stands at the top.
    pub(crate) fn head(info: &SessionInfo) -> String {
        let title = info.name.as_deref().or(info.title.as_deref()).unwrap_or(&info.id);
        let mut rows = vec![
            ("session", info.id.clone()),
            ("agent", info.agent.clone()),
            ("workspace", info.workspace.clone()),
            ("permissions", info.autonomy.as_str().to_owned()),
            ("begun", info.created.to_string()),
        ];
        rows.extend(info.name.as_ref().and(info.title.clone()).map(|title| ("called by the agent", title)));
        rows.extend(match (&info.reported_model, &info.model) {
            (Some(told), _) => Some(("model", told.clone())),
            (None, Some(wanted)) => Some(("model that was asked for", wanted.clone())),
            (None, None) => None,
        });
        rows.extend(info.usage.as_ref().map(spent_words).filter(|text| !text.is_empty()).map(|text| ("used", text)));
        rows.extend(info.agent_session.clone().map(|id| ("the agent's own id", id)));
        let table: String =
            rows.iter().map(|(name, value)| format!("| {name} | {} |\n", visible(value).replace('|', "\\|"))).collect();
        format!("# {}\n\n| | |\n|---|---|\n{table}", visible(title))
    }

    /// What to add for these, which came at this time.
    pub(crate) fn take(&mut self, pieces: &[Piece], time: Timestamp) -> String {
        let mut out = String::new();
        pieces.iter().for_each(|piece| self.piece(piece, time, &mut out));
        out
    }

    /// What never became whole, and what nobody has answered yet.
    pub(crate) fn finish(&mut self, story: &mut Story) -> String {
        let mut out = String::new();
        if let Some(words) = story.cut_off() {
            not_whole(&words, "so far", &mut out);
        }
        for prompt in story.waiting() {
            self.prompted(&prompt, &mut out);
            paragraph(&mut out, "*queued*");
        }
        out
    }

    fn piece(&mut self, piece: &Piece, time: Timestamp, out: &mut String) {
        match piece {
            Piece::Accepted(prompt) => drop(self.accepted.insert(prompt.number, time)),
            Piece::Begun { prompt: Some(prompt), .. } => self.prompted(prompt, out),
            Piece::Begun { number, prompt: None } => paragraph(out, &format!("## Prompt {number}\n\n*no longer kept*")),
            Piece::Dropped { number, why, prompt } => {
                if let Some(prompt) = prompt {
                    self.prompted(prompt, out);
                }
                paragraph(out, &format!("*prompt {number} was dropped: {}*", visible(why)));
            }
            Piece::Whole { voice: Voice::Answer, text, .. } => paragraph(out, &visible_lines(text)),
            Piece::Whole { voice: Voice::Thought, text, .. } => paragraph(out, &quoted(text)),
            Piece::CutOff(words) => not_whole(words, "cut off", out),
            Piece::Tool(call) => tool_call(call, out),
            Piece::ToolEnded { output, is_error, diffs, .. } => {
                changes(diffs, out);
                if *is_error {
                    paragraph(out, "failed:");
                }
                fenced(out, "", output);
            }
            Piece::Asked { asked, .. } => {
                paragraph(out, &format!("**asked:** {}", visible(&asked.title)));
                for question in &asked.questions {
                    let labels: Vec<String> = question.options.iter().map(|option| visible(&option.label)).collect();
                    paragraph(out, &format!("- {} ({})", visible(&question.question), labels.join(" / ")));
                }
            }
            Piece::Answered { decision, by, .. } => {
                paragraph(
                    out,
                    &format!("**answered by {}:** {}", visible(&by_name(by)), visible(&answer_words(decision))),
                );
            }
            Piece::TakenBack { over: false, .. } => paragraph(out, "*the request was withdrawn*"),
            Piece::Trouble { message, .. } => paragraph(out, &format!("**error:** {}", visible(message))),
            Piece::Ended(ended) => self.ended(ended, out),
            Piece::Said(event) => self.event(event, out),
            Piece::Noted(Fact::Held {}) => paragraph(out, "*the machine was restarted*"),
            Piece::Noted(Fact::Screen { .. }) => {
                paragraph(out, "*the conversation went on on the agent's own screen*");
            }
            Piece::Noted(Fact::Closed {}) => paragraph(out, "*the session was closed*"),
            _ => {}
        }
    }

    fn event(&mut self, event: &Event, out: &mut String) {
        match event {
            Event::Plan { entries } => {
                let line = |entry: &ostler_story::PlanEntry| {
                    let mark = if entry.status == PlanStatus::Done { 'x' } else { ' ' };
                    format!("- [{mark}] {}", visible(&entry.text))
                };
                paragraph(out, &entries.iter().map(line).collect::<Vec<_>>().join("\n"));
            }
            Event::Granted { tool, .. } => {
                paragraph(out, &format!("*{} was allowed without asking*", visible(tool)));
            }
            Event::Notice { text } => paragraph(out, &format!("*{}*", visible(text))),
            _ => {}
        }
    }

    fn ended(&mut self, ended: &Ended, out: &mut String) {
        let used = usage_words(&ended.usage);
        if !used.is_empty() {
            paragraph(out, &format!("*{used}*"));
        }
        let message = match &ended.why {
            Some(Why::Told(message) | Why::Exited { told: Some(message), .. }) => format!(": {}", visible(message)),
            Some(Why::Exited { told: None, .. }) | None => String::new(),
        };
        if ended.reason != EndReason::Completed || !message.is_empty() {
            paragraph(out, &format!("*the turn ended: {}{message}*", end_word(ended.reason)));
        }
    }

    fn prompted(&mut self, prompt: &Prompt, out: &mut String) {
        let time = self.accepted.remove(&prompt.number).map_or(String::new(), |time| format!("\n\n*{time}*"));
        paragraph(out, &format!("## Prompt {}{time}", prompt.number));
        for block in &prompt.blocks {
            match block {
                Block::Text { text } => paragraph(out, &quoted(text)),
                Block::Image { mime, .. } => paragraph(out, &format!("> [picture, {}]", visible(mime))),
                Block::File { path } => paragraph(out, &format!("> [file {}]", visible(path))),
            }
        }
    }
}

/// Words that are not, or not yet, a whole block.
fn not_whole(words: &str, why: &str, out: &mut String) {
    paragraph(out, &format!("{}\n\n*({why})*", visible_lines(words)));
}

fn paragraph(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\n{}\n", text.trim_end());
}

fn quoted(text: &str) -> String {
    visible_lines(text.trim_end()).lines().map(|line| format!("> {line}\n")).collect()
}

/// A fence longer than any that the text holds.
fn fenced(out: &mut String, language: &str, text: &str) {
    let text = visible_lines(text.trim_end());
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    paragraph(out, &format!("{fence}{language}\n{text}\n{fence}"));
}

fn tool_call(call: &ToolCall, out: &mut String) {
    let title = if call.title.is_empty() { &call.name } else { &call.title };
    paragraph(out, &format!("**{}** ({})", visible(title), kind_word(call.kind)));
    changes(&call.diffs, out);
    if call.diffs.is_empty() && !call.input.is_null() {
        fenced(out, "json", &serde_json::to_string_pretty(&call.input).unwrap_or_default());
    }
}

fn changes(diffs: &[Diff], out: &mut String) {
    for diff in diffs {
        let lines: String = diff.lines().iter().map(|(mark, line)| format!("{}{line}\n", mark.sign())).collect();
        fenced(out, "diff", &format!("{}\n{lines}", diff.place()));
    }
}

fn end_word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Completed => "completed",
        EndReason::Interrupted => "interrupted",
        EndReason::Failed => "failed",
        EndReason::Refused => "refused by the model",
        EndReason::MaxTokens => "cut off at the model's limit",
        EndReason::MaxSteps => "too many steps",
    }
}

#[cfg(test)]
mod tests {
    use ostler_story::Said;
    use serde_json::{Value, json};

    use super::*;

    fn document(events: &[Value]) -> String {
        let (mut markdown, mut story) = (Markdown::default(), Story::default());
        let pieces: Vec<Piece> =
            events.iter().filter_map(Said::read).flat_map(|said| story.take(said, false)).collect();
        let mut text = markdown.take(&pieces, Timestamp::from_micros(0));
        text.push_str(&markdown.finish(&mut story));
        text
    }

    #[test]
    fn a_turn_reads_as_prompt_and_answer() {
        let text = document(&[
            json!({"type": "prompt", "number": 1, "blocks": [{"type": "text", "text": "do\nit"}]}),
            json!({"type": "turn", "number": 1}),
            json!({"type": "text_delta", "text": "do"}),
            json!({"type": "text", "text": "done"}),
            json!({"type": "usage", "input_tokens": 1, "output_tokens": 2}),
            json!({"type": "turn_ended", "reason": "completed"}),
        ]);
        assert_eq!(
            text,
            "\n## Prompt 1\n\n*1970-01-01T00:00:00.000000Z*\n\n> do\n> it\n\ndone\n\n*1 token in, 2 out*\n"
        );
    }

    #[test]
    fn a_prompt_in_mid_answer_doubles_nothing_and_stands_where_its_turn_begins() {
        let prompt = |number: u64| json!({"type": "prompt", "number": number, "blocks": []});
        let text = document(&[
            prompt(1),
            json!({"type": "turn", "number": 1}),
            json!({"type": "text_delta", "text": "first ha"}),
            prompt(2),
            prompt(3),
            json!({"type": "notice", "text": "slow"}),
            json!({"type": "text_delta", "text": "lf"}),
            json!({"type": "text", "text": "first half"}),
            json!({"type": "turn_ended", "reason": "completed"}),
            json!({"type": "turn", "number": 2}),
            json!({"type": "text", "text": "second"}),
            json!({"type": "turn_ended", "reason": "completed"}),
        ]);
        let order = ["## Prompt 1", "*slow*", "first half", "## Prompt 2", "second", "## Prompt 3", "*queued*"];
        let places: Vec<_> = order.iter().map(|part| text.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(!text.contains("cut off") && text.matches("first ha").count() == 1, "{text}");
    }

    #[test]
    fn pieces_appear_only_where_the_whole_never_came() {
        let pieces = json!({"type": "text_delta", "text": "half"});
        let ended = json!({"type": "turn_ended", "reason": "interrupted"});
        assert_eq!(document(&[pieces, ended]), "\nhalf\n\n*(cut off)*\n\n*the turn ended: interrupted*\n");
    }

    #[test]
    fn a_result_cannot_leave_its_fence_and_nothing_in_it_acts() {
        let result =
            json!({"type": "tool_result", "id": "t", "output": "a\n````\n# not a title \u{1b}[2J", "is_error": false});
        assert_eq!(document(&[result]), "\n`````\na\n````\n# not a title ^[[2J\n`````\n");
    }

    #[test]
    fn an_edit_is_a_difference_and_any_other_input_is_shown_whole() {
        let call = |kind: &str, input: Value| json!({"type": "tool_call", "id": "t", "name": "x", "title": "x", "kind": kind, "input": input});
        let edit = document(&[call("edit", json!({"path": "a", "old_str": "1", "new_str": "2"}))]);
        assert_eq!(edit, "\n**x** (edit)\n\n```diff\na\n-1\n+2\n```\n");
        assert!(document(&[call("execute", json!({"command": "ls"}))]).contains("\"command\": \"ls\""));
    }
}
