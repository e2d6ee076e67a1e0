//! The transcript of a session while it happens. Words of an answer are shown as they come; of the whole block that follows
//! them only what was not heard yet, so that nothing is read twice.

use ostler_api::Timestamp;
use ostler_story::{
    Ask, Asked, Block, Decision, Diff, EndReason, Ended, ErrorKind, Event, Exit, Fact, Heard, LimitState, Mark, Offers,
    Piece, PlanStatus, Prompt, ToolCall, ToolKind, Voice, Why, words,
};

use super::login::{self, is_about_login};
use super::usage::{limit_words, usage_words};
use crate::output::{Paint, Screen, by_name, terminal_width, visible, visible_lines};
use crate::request::{Row, wrap};

/// Lines of a tool's result: enough to see what came of it; all of it is in `ostler export`.
const RESULT_LINES: usize = 6;
/// A line of a result, a title: about two rows of a terminal.
const LINE_MAX: usize = 160;
/// Lines of a change.
const CHANGE_LINES: usize = 40;
/// The last words of a process that failed.
const STDERR_LINES: usize = 4;

/// A transcript that grows.
pub(crate) struct Live<'a> {
    screen: &'a Screen,
    /// Whose words the output stands in the middle of.
    speaking: Option<Voice>,
    /// The prompt that was shown last, while nothing followed it.
    latest: Option<u64>,
    /// The first prompt that was shown.
    first: Option<u64>,
    /// The output stands at the beginning of a line.
    at_line_start: bool,
    model: Option<String>,
    /// Nobody is logged in, as the agent said in this turn.
    no_login: bool,
    /// Requests are put to the person below, whole.
    asks_below: bool,
}

impl<'a> Live<'a> {
    pub(crate) fn new(screen: &'a Screen) -> Self {
        let (at_line_start, no_login, asks_below) = (true, false, false);
        Self { screen, speaking: None, latest: None, first: None, at_line_start, model: None, no_login, asks_below }
    }

    /// For a terminal where requests are put to the person too: of a question only its title stands here then.
    pub(crate) fn asking_below(self, asks_below: bool) -> Self {
        Self { asks_below, ..self }
    }

    /// What to show for these, one after the other.
    pub(crate) fn take<'p>(&mut self, pieces: impl IntoIterator<Item = &'p Piece>) -> String {
        let mut out = String::new();
        pieces.into_iter().for_each(|piece| self.piece(piece, &mut out));
        out
    }

    /// What is missing for the output to end with a whole line.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end_line(&mut out);
        out
    }

    fn piece(&mut self, piece: &Piece, out: &mut String) {
        if matches!(
            piece,
            Piece::Words { .. } | Piece::Whole { .. } | Piece::Trouble { .. } | Piece::Tool(_) | Piece::Said(_)
        ) {
            self.latest = None;
        }
        match piece {
            Piece::Accepted(prompt) => self.prompt(prompt, out),
            Piece::Dropped { number, why, .. } => {
                self.line(Paint::Warn, &format!("! prompt {number} dropped: {}", visible(why)), out);
            }
            Piece::Begun { number, .. } => {
                self.speaking = None;
                if self.latest != Some(*number) {
                    // Where one comes in late there is nothing above.
                    let above = if self.first.is_some_and(|first| first <= *number) { ", from above" } else { "" };
                    self.line(Paint::Dim, &format!("\n› prompt {number}{above}"), out);
                }
            }
            Piece::Words { voice, text } => self.speak(*voice, text, out),
            Piece::Whole { voice, text, heard } => {
                match heard {
                    Heard::First(length) if *length > 0 => self.speak(*voice, heard.rest(text), out),
                    Heard::Last => {}
                    Heard::First(_) | Heard::Otherwise => {
                        self.end_line(out);
                        self.words(*voice, text, out);
                    }
                }
                self.speaking = None;
                self.end_line(out);
            }
            Piece::Tool(call) => self.call(call, out),
            Piece::ToolEnded { output, is_error, diffs, .. } => {
                self.diffs(diffs, out);
                self.result(output, *is_error, out);
            }
            Piece::Asked { asked, .. } => self.ask(asked, out),
            Piece::Waits { approval, asked } => self.waits(approval, asked.as_deref(), out),
            Piece::Answered { approval, decision, by } => {
                let text = format!("  {approval} answered: {}, by {}", answer_words(decision), by_name(by));
                self.line(Paint::Good, &visible(&text), out);
            }
            Piece::TakenBack { over: false, .. } => self.line(Paint::Dim, "  the agent withdrew its request", out),
            Piece::Trouble { message, kind, .. } => self.trouble(message, *kind, out),
            Piece::Ended(ended) => self.ended(ended, out),
            Piece::Said(event) => self.event(event, out),
            Piece::Noted(fact) => self.fact(fact, out),
            // What was cut off was shown as it came.
            Piece::CutOff(_) | Piece::TakenBack { over: true, .. } | Piece::Process { .. } => {}
        }
    }

    fn event(&mut self, event: &Event, out: &mut String) {
        match event {
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
            Event::Granted { tool, .. } => {
                self.line(Paint::Dim, &format!("  allowed without asking: {}", short(tool)), out);
            }
            Event::Notice { text } => self.line(Paint::Dim, &format!("· {}", visible(text)), out),
            Event::Title { title } => self.line(Paint::Dim, &format!("· called {}", short(title)), out),
            Event::Limit(limit) if limit.state != LimitState::Far => {
                let resets = limit.resets.map(Timestamp::from_secs);
                let reached = limit.state == LimitState::Reached;
                let words = limit_words(&limit.name, limit.used_percent, resets, reached);
                self.line(Paint::Warn, &format!("! {words}"), out);
            }
            Event::Offers(offers) => self.offers(offers, out),
            Event::Started { model: Some(model), .. } if self.model.as_ref() != Some(model) => {
                self.line(Paint::Dim, &format!("· model {}", short(model)), out);
                self.model = Some(model.clone());
            }
            _ => {}
        }
    }

    fn fact(&mut self, fact: &Fact, out: &mut String) {
        match fact {
            Fact::Interrupt { end_process, .. } => {
                let text = if *end_process { "· ending its process" } else { "· interrupting" };
                self.line(Paint::Warn, text, out);
            }
            Fact::Exited { exit, stderr, .. } => self.exited(*exit, stderr, out),
            Fact::Held {} => self.line(
                Paint::Warn,
                "── the machine was restarted; go on with `ostler start`, or send something",
                out,
            ),
            Fact::Screen { .. } => self.line(Paint::Dim, "── open on the agent's own screen", out),
            Fact::ScreenEnded { .. } => self.line(Paint::Dim, "── the agent's own screen has ended", out),
            Fact::Closed {} => self.line(Paint::Dim, "── session closed", out),
            _ => {}
        }
    }

    /// The commands that a person may type, and what somebody has to do something about.
    fn offers(&mut self, offers: &Offers, out: &mut String) {
        if let Some(commands) = offers.commands.as_ref().filter(|commands| !commands.is_empty()) {
            let names: Vec<String> = commands.iter().map(|command| format!("/{}", command.name)).collect();
            self.line(Paint::Dim, &format!("· commands: {}", short(&names.join(" "))), out);
        }
        for server in offers.mcp_servers.iter().flatten().filter(|server| server.is_missing()) {
            let line = format!("! MCP server {}: {}", short(&server.name), short(&server.status));
            self.line(Paint::Warn, &line, out);
        }
    }

    fn trouble(&mut self, message: &str, kind: ErrorKind, out: &mut String) {
        self.no_login |= is_about_login(Some(kind), message);
        let mut mark = "!";
        for line in message.trim_end().lines() {
            let line = format!("{} {}", std::mem::replace(&mut mark, " "), visible_lines(line));
            self.line(Paint::Bad, &line, out);
        }
    }

    /// More words of a voice, on a line of its own where another spoke before.
    fn speak(&mut self, voice: Voice, text: &str, out: &mut String) {
        if self.speaking.replace(voice) != Some(voice) {
            self.end_line(out);
        }
        self.words(voice, text, out);
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

    fn prompt(&mut self, prompt: &Prompt, out: &mut String) {
        self.latest = Some(prompt.number);
        self.first = self.first.or(self.latest);
        let head = format!("\n› prompt {}{}", prompt.number, through(&prompt.door));
        self.line(Paint::Dim, &head, out);
        for block in &prompt.blocks {
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

    fn call(&mut self, call: &ToolCall, out: &mut String) {
        self.speaking = None;
        let title = if call.title.is_empty() { &call.name } else { &call.title };
        let indent = if call.parent.is_some() { "  " } else { "" };
        let line = format!("{indent}● {}  [{}]", short(title), kind_word(call.kind));
        self.line(Paint::Head, &line, out);
        self.diffs(&call.diffs, out);
    }

    fn diffs(&mut self, diffs: &[Diff], out: &mut String) {
        for diff in diffs {
            self.line(Paint::Dim, &format!("  {}", visible(&diff.place())), out);
            let lines = diff.lines();
            for (mark, line) in lines.iter().take(CHANGE_LINES) {
                self.line(paint_of(*mark), &format!("  {}{}", mark.sign(), cut(&visible_lines(line))), out);
            }
            self.more(lines.len().saturating_sub(CHANGE_LINES), out);
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

    /// What is asked, as the request itself is drawn: it is read before anybody decides.
    fn ask(&mut self, asked: &Asked, out: &mut String) {
        let what = if asked.ask == Ask::Question { "the agent asks" } else { "waiting for approval" };
        let mut rows = vec![Row::ours(Paint::Warn, format!("? {what}: {}", told(&asked.title)))];
        if let Some(reason) = &asked.reason {
            rows.push(Row::ours(Paint::Dim, format!("  because: {}", told(reason))));
        }
        let questions = if self.asks_below { &[] } else { asked.questions.as_slice() };
        for question in questions {
            let id = words::before(&question.id, ": ");
            rows.push(Row::ours(Paint::Plain, format!("  {}: {}", cut(&id), told(&question.question))));
            for option in &question.options {
                let about = Some(&option.description).filter(|text| !text.is_empty());
                let about = about.map_or(String::new(), |text| format!(": {}", told(text)));
                let label = words::before(&option.label, ": ");
                rows.push(Row::ours(Paint::Plain, format!("    - {}{about}", cut(&label))));
            }
        }
        self.rows(&rows, out);
    }

    /// Rows, broken by us and not by the terminal, where there is one.
    fn rows(&mut self, rows: &[Row], out: &mut String) {
        for row in wrap(rows, terminal_width().unwrap_or(usize::MAX)) {
            self.line(row.paint, &row.text, out);
        }
    }

    /// The id under which the request can be answered has come.
    fn waits(&mut self, approval: &str, asked: Option<&Asked>, out: &mut String) {
        let id = words::quoted(approval);
        let text = match asked.and_then(|asked| asked.questions.first()) {
            Some(question) => {
                let answer = match question.options.first() {
                    Some(option) => words::quoted(&format!("{}={}", question.id, option.label)),
                    None => format!("{}=ANSWER", words::quoted(&question.id)),
                };
                format!("  answer: ostler approve {id} --answer {answer}   or: ostler approvals")
            }
            None => format!("  decide: ostler approve {id}   or: ostler deny {id}"),
        };
        self.rows(&[Row::ours(Paint::Warn, text)], out);
    }

    fn exited(&mut self, exit: Exit, stderr: &str, out: &mut String) {
        let how = match exit {
            Exit::Code(0) => return,
            Exit::Code(code) => format!("exit {code}"),
            Exit::Signal(signal) => format!("signal {signal}"),
            Exit::Unknown => "exit code unknown".to_owned(),
        };
        self.line(Paint::Dim, &format!("· the agent's process ended ({how})"), out);
        let lines: Vec<&str> = stderr.trim_end().lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(STDERR_LINES)) {
            self.line(Paint::Dim, &format!("    {}", cut(&visible_lines(line))), out);
        }
    }

    fn ended(&mut self, ended: &Ended, out: &mut String) {
        let (word, paint) = match ended.reason {
            EndReason::Completed => ("done", Paint::Dim),
            EndReason::Interrupted => ("interrupted", Paint::Warn),
            EndReason::Failed => ("failed", Paint::Bad),
            EndReason::Refused => ("the model refused", Paint::Bad),
            EndReason::MaxTokens => ("cut off at the model's limit", Paint::Warn),
            EndReason::MaxSteps => ("stopped after too many steps", Paint::Warn),
        };
        self.speaking = None;
        let usage = usage_words(&ended.usage);
        let usage = if usage.is_empty() { usage } else { format!(" ({usage})") };
        let message = match &ended.why {
            Some(Why::Told(message) | Why::Exited { told: Some(message), .. }) => message.as_str(),
            Some(Why::Exited { told: None, .. }) | None => "",
        };
        let no_login = ended.reason == EndReason::Failed && is_about_login(None, message);
        let no_login = std::mem::take(&mut self.no_login) || no_login;
        // Its reason may be the error that was shown last.
        let message = if ended.trouble.as_deref() == Some(message) { "" } else { message.trim() };
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
pub(super) fn answer_words(answer: &Decision) -> String {
    match answer {
        Decision::Once => "yes".to_owned(),
        Decision::Session => "yes, in this session".to_owned(),
        Decision::Always => "yes, always".to_owned(),
        Decision::Deny { message, .. } if message.is_empty() => "no".to_owned(),
        Decision::Deny { message, .. } => format!("no: {message}"),
        Decision::Changed { .. } => "yes, changed".to_owned(),
        Decision::Answers { answers } => answers.values().flatten().map(String::as_str).collect::<Vec<_>>().join(", "),
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

/// The colour of a line of a change.
pub(crate) fn paint_of(mark: Mark) -> Paint {
    match mark {
        Mark::Added => Paint::Good,
        Mark::Removed => Paint::Bad,
        Mark::Same => Paint::Dim,
    }
}

/// One safe line of a text.
fn short(text: &str) -> String {
    cut(&visible(text.trim()))
}

/// Words of a request: quoted where they could pose as more.
fn told(text: &str) -> String {
    cut(&words::value(text.trim()))
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
