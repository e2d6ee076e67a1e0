//! The transcript of a session while it happens. Pieces of an answer are shown as they come; the whole block that follows
//! them is shown only where it differs, so that nothing is read twice.

use std::collections::VecDeque;

use ostler_agents::{Ask, Asked, Block, EndReason, Event, PlanStatus, ToolKind, Usage};
use serde_json::Value;

use super::changes::{Mark, take_changes};
use super::figures::usage_words;
use super::login::{self, is_about_login};
use super::said::{Fact, Said, word};
use crate::output::{Paint, Screen, by_name, visible, visible_lines};

/// Lines of a tool's result: enough to see what came of it; all of it is in `ostler export`.
const RESULT_LINES: usize = 6;
/// A line of a result, a title: about two rows of a terminal.
const LINE_MAX: usize = 160;
/// Lines of a change.
const CHANGE_LINES: usize = 40;
/// Requests that wait at once; agents ask one or two.
const ASKED_MAX: usize = 64;
/// The last words of a process that failed.
const STDERR_LINES: usize = 4;

/// What is being said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    Answer,
    Thought,
}

/// A transcript that grows.
pub(crate) struct Live<'a> {
    screen: &'a Screen,
    /// The block whose pieces are being shown. What others do meanwhile stands between its pieces and does not end it.
    open: Option<(Voice, String)>,
    /// No block and no turn has begun here yet: the first pieces may be the end of a block that began before.
    fresh: bool,
    /// The prompt that was shown last, while nothing followed it.
    latest: Option<u64>,
    /// The output stands at the beginning of a line.
    at_line_start: bool,
    usage: Usage,
    /// Requests whose id in the inbox is not known yet.
    asked: VecDeque<Asked>,
    model: Option<String>,
    /// The error that was shown last in this turn: its end may give it as the reason.
    error: Option<String>,
    /// Nobody is logged in, as the agent said in this turn.
    no_login: bool,
}

impl<'a> Live<'a> {
    pub(crate) fn new(screen: &'a Screen) -> Self {
        let (open, latest, usage, asked, model) = (None, None, Usage::default(), VecDeque::new(), None);
        Self {
            screen,
            open,
            fresh: true,
            latest,
            at_line_start: true,
            usage,
            asked,
            model,
            error: None,
            no_login: false,
        }
    }

    /// What to show for it.
    pub(crate) fn take(&mut self, said: &Said) -> String {
        let mut out = String::new();
        match said {
            Said::Event(event) => self.event(event, &mut out),
            Said::Fact(fact) => self.fact(fact, &mut out),
        }
        out
    }

    /// What is missing for the output to end with a whole line.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end_line(&mut out);
        out
    }

    fn event(&mut self, event: &Event, out: &mut String) {
        self.latest = None;
        match event {
            Event::TextDelta { text } => self.piece(Voice::Answer, text, out),
            Event::ThoughtDelta { text } => self.piece(Voice::Thought, text, out),
            Event::Text { text } => self.whole(Voice::Answer, text, out),
            Event::Thought { text } => self.whole(Voice::Thought, text, out),
            Event::ToolCall { title, name, kind, input, parent, .. } => {
                self.open = None;
                let title = if title.is_empty() { name } else { title };
                let indent = if parent.is_some() { "  " } else { "" };
                let line = format!("{indent}● {}  [{}]", short(title), kind_word(*kind));
                self.line(Paint::Head, &line, out);
                self.changes(input, out);
            }
            Event::ToolResult { output, is_error, .. } => self.result(output, *is_error, out),
            Event::Plan { entries } => {
                self.line(Paint::Head, "plan", out);
                for entry in entries {
                    let (mark, paint) = match entry.status {
                        PlanStatus::Pending => ('·', Paint::Dim),
                        PlanStatus::Running => ('▸', Paint::Plain),
                        PlanStatus::Done => ('✓', Paint::Good),
                    };
                    self.line(paint, &format!("  {mark} {}", short(&entry.text)), out);
                }
            }
            Event::Usage(usage) => self.usage.update(usage),
            Event::Asked(asked) => self.ask(asked, out),
            Event::Unasked { .. } => self.line(Paint::Dim, "  the agent withdrew its request", out),
            Event::Granted { tool, .. } => {
                self.line(Paint::Dim, &format!("  allowed without asking: {}", short(tool)), out);
            }
            Event::TurnEnded { reason, message } => self.turn_ended(*reason, message.as_deref(), out),
            Event::Error { message, kind, .. } => {
                self.error = Some(message.clone());
                self.no_login |= is_about_login(Some(*kind), message);
                let mut mark = "!";
                for line in message.trim_end().lines() {
                    self.line(
                        Paint::Bad,
                        &format!("{} {}", std::mem::replace(&mut mark, " "), visible_lines(line)),
                        out,
                    );
                }
            }
            Event::Notice { text } => self.line(Paint::Dim, &format!("· {}", visible(text)), out),
            Event::Started { model, .. } => {
                if model.is_some() && *model != self.model {
                    let text = format!("· model {}", short(model.as_deref().unwrap_or_default()));
                    self.line(Paint::Dim, &text, out);
                    self.model.clone_from(model);
                }
            }
            Event::ToolUpdate { .. } | Event::Unknown { .. } => {}
        }
    }

    fn fact(&mut self, fact: &Fact, out: &mut String) {
        match fact {
            Fact::Prompt { number, blocks, door } => self.prompt(*number, blocks, door, out),
            Fact::Dropped { number, why } => {
                let text = format!("! prompt {number} dropped: {}", visible(&word(why)));
                self.line(Paint::Warn, &text, out);
            }
            Fact::Approval { request, approval } => self.approval(request, approval, out),
            Fact::Answered { approval, decision, by, .. } => {
                let by = Some(word(by))
                    .filter(|by| !by.is_empty())
                    .map_or(String::new(), |by| format!(", by {}", by_name(&by)));
                let text = format!("  {approval} answered: {}{by}", answer_words(decision));
                self.line(Paint::Good, &visible(&text), out);
            }
            Fact::Interrupt { end_process } => {
                let text = if *end_process { "· ending its process" } else { "· interrupting" };
                self.line(Paint::Warn, text, out);
            }
            Fact::Exited { code, signal, stderr, .. } => self.exited(*code, *signal, stderr, out),
            Fact::Held {} => self.line(
                Paint::Warn,
                "── the machine was restarted; go on with `ostler start`, or send something",
                out,
            ),
            Fact::Screen { .. } => self.line(Paint::Dim, "── open on the agent's own screen", out),
            Fact::ScreenEnded { .. } => self.line(Paint::Dim, "── the agent's own screen has ended", out),
            Fact::Closed {} => self.line(Paint::Dim, "── session closed", out),
            Fact::Turn { number } => {
                (self.open, self.fresh, self.usage) = (None, false, Usage::default());
                if self.latest != Some(*number) {
                    self.line(Paint::Dim, &format!("\n› prompt {number}, from above"), out);
                }
            }
            Fact::Process { .. } => {}
        }
    }

    fn piece(&mut self, voice: Voice, text: &str, out: &mut String) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != voice) {
            self.end_line(out);
            self.open = Some((voice, String::new()));
        }
        self.words(voice, text, out);
        if let Some((_, shown)) = &mut self.open {
            shown.push_str(text);
        }
    }

    fn whole(&mut self, voice: Voice, text: &str, out: &mut String) {
        let shown = self.open.take_if(|(open, _)| *open == voice).map(|(_, shown)| shown);
        match shown {
            // Who came in the middle of the block saw its end.
            Some(shown) if text == shown || (self.fresh && text.ends_with(&shown)) => {}
            Some(shown) => match text.strip_prefix(shown.as_str()) {
                Some(rest) => self.words(voice, rest, out),
                None => {
                    self.end_line(out);
                    self.words(voice, text, out);
                }
            },
            None => {
                self.end_line(out);
                self.words(voice, text, out);
            }
        }
        self.fresh = false;
        self.end_line(out);
    }

    fn words(&mut self, voice: Voice, text: &str, out: &mut String) {
        let shown = visible_lines(text);
        if let Some(last) = shown.chars().next_back() {
            self.at_line_start = last == '\n';
        }
        match voice {
            Voice::Answer => out.push_str(&shown),
            Voice::Thought => out.push_str(&self.screen.paint(Paint::Dim, &shown)),
        }
    }

    fn end_line(&mut self, out: &mut String) {
        if !self.at_line_start {
            out.push('\n');
            self.at_line_start = true;
        }
    }

    /// A line of ours; its text is safe to show.
    fn line(&mut self, paint: Paint, text: &str, out: &mut String) {
        self.end_line(out);
        out.push_str(&self.screen.paint(paint, text));
        out.push('\n');
    }

    fn prompt(&mut self, number: u64, blocks: &[Block], door: &str, out: &mut String) {
        self.latest = Some(number);
        let head = format!("\n› prompt {number}{}", through(door));
        self.line(Paint::Dim, &head, out);
        for block in blocks {
            let text = match block {
                Block::Text { text } => visible_lines(text.trim_end()),
                Block::Image { mime, data } => format!("[picture, {}, {} bytes]", visible(mime), data.len() / 4 * 3),
                Block::File { path } => format!("[file {}]", visible(path)),
            };
            for line in text.lines() {
                self.line(Paint::Head, &format!("  {line}"), out);
            }
        }
        out.push('\n');
    }

    fn changes(&mut self, input: &Value, out: &mut String) {
        let mut input = input.clone();
        for change in take_changes(&mut input) {
            self.line(Paint::Dim, &format!("  {}", visible(&change.path)), out);
            for (mark, line) in change.lines.iter().take(CHANGE_LINES) {
                let paint = paint_of(*mark);
                self.line(paint, &format!("  {}{}", mark.sign(), cut(&visible_lines(line))), out);
            }
            self.more(change.lines.len().saturating_sub(CHANGE_LINES), out);
        }
    }

    fn result(&mut self, output: &str, is_error: bool, out: &mut String) {
        let paint = if is_error { Paint::Bad } else { Paint::Dim };
        let lines: Vec<&str> = output.trim_end().lines().collect();
        for (index, line) in lines.iter().take(RESULT_LINES).enumerate() {
            let mark = if index == 0 { "└" } else { " " };
            self.line(paint, &format!("  {mark} {}", cut(&visible_lines(line))), out);
        }
        self.more(lines.len().saturating_sub(RESULT_LINES), out);
    }

    fn more(&mut self, count: usize, out: &mut String) {
        match count {
            0 => {}
            1 => self.line(Paint::Dim, "    … 1 more line", out),
            count => self.line(Paint::Dim, &format!("    … {count} more lines"), out),
        }
    }

    fn ask(&mut self, asked: &Asked, out: &mut String) {
        let what = if asked.ask == Ask::Question { "the agent asks" } else { "waiting for approval" };
        self.line(Paint::Warn, &format!("? {what}: {}", short(&asked.title)), out);
        if let Some(reason) = &asked.reason {
            self.line(Paint::Dim, &format!("  because: {}", short(reason)), out);
        }
        for question in &asked.questions {
            self.line(Paint::Plain, &format!("  {}: {}", short(&question.id), short(&question.question)), out);
            for option in &question.options {
                let about = Some(&option.description).filter(|text| !text.is_empty());
                let about = about.map_or(String::new(), |text| format!(" ({})", short(text)));
                self.line(Paint::Plain, &format!("    - {}{about}", short(&option.label)), out);
            }
        }
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(asked.clone());
    }

    /// The id under which the request can be answered has come.
    fn approval(&mut self, request: &str, approval: &str, out: &mut String) {
        let index = self.asked.iter().position(|asked| asked.request == request);
        let asked = index.and_then(|index| self.asked.remove(index));
        let id = visible(approval);
        let text = match asked.as_ref().and_then(|asked| asked.questions.first()) {
            Some(question) => {
                let label = question.options.first().map_or("…", |option| option.label.as_str());
                let answer = format!("{}={label}", question.id).replace('\'', "'\\''");
                format!("  answer: ostler approve {id} --answer '{}'   or: ostler approvals", visible(&answer))
            }
            None => format!("  decide: ostler approve {id}   or: ostler deny {id}"),
        };
        self.line(Paint::Warn, &text, out);
    }

    fn exited(&mut self, code: Option<i32>, signal: Option<i32>, stderr: &str, out: &mut String) {
        let how = match (code, signal) {
            (Some(0), _) => return,
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "exit code unknown".to_owned(),
        };
        self.line(Paint::Dim, &format!("· the agent's process ended ({how})"), out);
        let lines: Vec<&str> = stderr.trim_end().lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(STDERR_LINES)) {
            self.line(Paint::Dim, &format!("    {}", cut(&visible_lines(line))), out);
        }
    }

    fn turn_ended(&mut self, reason: EndReason, message: Option<&str>, out: &mut String) {
        let (word, paint) = match reason {
            EndReason::Completed => ("done", Paint::Dim),
            EndReason::Interrupted => ("interrupted", Paint::Warn),
            EndReason::Failed => ("failed", Paint::Bad),
            EndReason::Refused => ("the model refused", Paint::Bad),
            EndReason::MaxTokens => ("cut off at the model's limit", Paint::Warn),
            EndReason::MaxSteps => ("stopped after too many steps", Paint::Warn),
        };
        (self.open, self.fresh) = (None, false);
        let usage = usage_words(&std::mem::take(&mut self.usage));
        let usage = if usage.is_empty() { usage } else { format!(" ({usage})") };
        let shown = self.error.take();
        let no_login = reason == EndReason::Failed && message.is_some_and(|text| is_about_login(None, text));
        let no_login = std::mem::take(&mut self.no_login) || no_login;
        let message = message.filter(|text| shown.as_deref() != Some(*text)).unwrap_or_default().trim();
        // An agent's last words may be several lines.
        let mut lines = message.lines();
        let first = lines.next().map_or(String::new(), |line| format!(": {}", visible(line)));
        self.line(paint, &format!("── {word}{usage}{first}"), out);
        lines.for_each(|line| self.line(Paint::Dim, &format!("     {}", visible_lines(line)), out));
        if no_login {
            self.line(Paint::Warn, login::RULE, out);
        }
    }
}

fn through(door: &str) -> String {
    if door.is_empty() || door == "native" { String::new() } else { format!(", through {}", visible(door)) }
}

/// What was answered, in a word or with the choices.
fn answer_words(answer: &Value) -> String {
    let chosen = answer.get("answers").and_then(Value::as_object).map(|answers| {
        let labels = answers.values().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        labels.collect::<Vec<_>>().join(", ")
    });
    match (chosen, word(answer).as_str()) {
        (Some(labels), _) => labels,
        (None, "once") => "yes".to_owned(),
        (None, "session") => "yes, in this session".to_owned(),
        (None, "always") => "yes, always".to_owned(),
        (None, "deny") => match answer.get("message").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            Some(message) => format!("no: {message}"),
            None => "no".to_owned(),
        },
        (None, other) => other.to_owned(),
    }
}

pub(super) fn kind_word(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::Other => "other",
    }
}

fn paint_of(mark: Mark) -> Paint {
    match mark {
        Mark::Added => Paint::Good,
        Mark::Removed => Paint::Bad,
        Mark::Same | Mark::Place => Paint::Dim,
    }
}

/// One safe line of a text.
fn short(text: &str) -> String {
    cut(&visible(text.trim()))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
