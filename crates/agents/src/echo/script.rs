//! What a turn of the echo agent consists of: the words it obeys, then the prompt said back. A word may say more after a
//! colon, with `_` for a space.

use std::io::Write;
use std::time::Duration;

use ostler_story::{
    Ask, Asked, Block, Can, Decision, EndReason, ErrorKind, Event, Limit, LimitState, McpServer, Offer, Offers,
    PlanEntry, PlanStatus, Question, QuestionOption, ToolCall, ToolKind, Usage,
};
use serde_json::{Value, json};

use super::files;
use super::program::{Stage, Stop};

/// 200 ms between slow pieces: long enough to interrupt, short enough to watch.
const SLOW: Duration = Duration::from_millis(200);
/// An hour and a half of slow pieces is enough for any trial.
const MAX_SLOW: u32 = 30_000;
/// The tool that changes files.
const WRITE: &str = "write";
/// 40 ms between the words of a file that is read out: as fast as one reads along.
const READING: Duration = Duration::from_millis(40);

/// Plays a turn; what ends it.
pub(super) fn play<W: Write>(stage: &mut Stage<W>, blocks: &[Block]) -> Result<Event, Stop> {
    let (mut text, mut pace) = (said(blocks), Duration::ZERO);
    for word in text.clone().split_whitespace() {
        let (verb, more) = word.split_once(':').unwrap_or((word, ""));
        match (verb, more) {
            ("THINK", "") => think(stage)?,
            ("TOOL", "") => tool(stage, "look around")?,
            ("PLAN", "") => plan(stage)?,
            ("QUESTION", "") => question(stage, "red,blue")?,
            ("QUESTION", choices) => question(stage, &choices.replace('_', " "))?,
            ("OFFER", "") => offer(stage)?,
            ("TITLE", title) => stage.say(&Event::Title { title: title.replace('_', " ") })?,
            ("LIMIT", percent) => limit(stage, percent)?,
            ("ASK", "") => ask(stage, "write a file")?,
            ("ASK", what) => ask(stage, &what.replace('_', " "))?,
            ("WRITE", file) if files::is_plain(file) => write(stage, file)?,
            ("READ", file) if files::is_plain(file) => match files::read(file) {
                Ok(read) => (text, pace) = (read, READING),
                Err(error) => return fail(stage, &format!("{file}: {error}")),
            },
            ("FAIL", "") => return fail(stage, "I was told to fail"),
            ("FAIL", why) => return fail(stage, &why.replace('_', " ")),
            ("SLOW", n) => {
                if let Ok(n) = n.parse::<u32>() {
                    count(stage, n.min(MAX_SLOW))?;
                }
            }
            _ => {}
        }
    }
    for piece in text.split_inclusive(char::is_whitespace) {
        stage.pause(pace)?;
        stage.say(&Event::TextDelta { text: piece.to_owned() })?;
    }
    let words = text.split_whitespace().count() as u64;
    stage.say(&Event::Text { text })?;
    stage.say(&Event::Usage(Usage { input_tokens: Some(words), output_tokens: Some(words), ..Usage::default() }))?;
    Ok(Event::turn_ended(EndReason::Completed))
}

fn said(blocks: &[Block]) -> String {
    let words = |block: &Block| match block {
        Block::Text { text } => text.clone(),
        Block::Image { mime, data } => format!("[a picture, {mime}, {} bytes of base64]", data.len()),
        Block::File { path } => format!("[the file {path}]"),
    };
    blocks.iter().map(words).collect::<Vec<_>>().join("\n")
}

fn count<W: Write>(stage: &mut Stage<W>, n: u32) -> Result<(), Stop> {
    let mut whole = String::new();
    for n in 1..=n {
        stage.pause(SLOW)?;
        let piece = format!("{n} ");
        whole.push_str(&piece);
        stage.say(&Event::TextDelta { text: piece })?;
    }
    Ok(stage.say(&Event::Text { text: whole })?)
}

fn think<W: Write>(stage: &mut Stage<W>) -> Result<(), Stop> {
    for piece in ["I am ", "not thinking; ", "I only echo."] {
        stage.say(&Event::ThoughtDelta { text: piece.to_owned() })?;
    }
    Ok(stage.say(&Event::Thought { text: "I am not thinking; I only echo.".to_owned() })?)
}

fn plan<W: Write>(stage: &mut Stage<W>) -> Result<(), Stop> {
    let entry = |text: &str, status| PlanEntry { text: text.to_owned(), status };
    let entries = vec![entry("read the prompt", PlanStatus::Done), entry("say it back", PlanStatus::Running)];
    Ok(stage.say(&Event::Plan { entries })?)
}

fn offer<W: Write>(stage: &mut Stage<W>) -> Result<(), Stop> {
    let commands = Some(vec![Offer::named("echo").about("says it back")]);
    let mcp_servers = Some(vec![McpServer { name: "mountains".to_owned(), status: "failed".to_owned() }]);
    Ok(stage.say(&Event::Offers(Offers { commands, mcp_servers, ..Offers::default() }))?)
}

fn limit<W: Write>(stage: &mut Stage<W>, percent: &str) -> Result<(), Stop> {
    let used_percent = percent.parse::<u8>().ok().map(f64::from);
    let state = match used_percent {
        Some(100.0..) => LimitState::Reached,
        Some(90.0..) => LimitState::Near,
        _ => LimitState::Far,
    };
    // The end of a century: it never passes in a test.
    Ok(stage.say(&Event::Limit(Limit {
        name: "patience".to_owned(),
        used_percent,
        resets: Some(4_102_444_800),
        state,
    }))?)
}

/// A tool that may be called.
struct Tool {
    name: &'static str,
    title: String,
    input: Value,
    kind: ToolKind,
    /// Whoever allows it may change its input.
    change: bool,
}

impl Tool {
    fn pretend(what: &str) -> Self {
        let (title, input) = (format!("pretend to {what}"), json!({ "what": what }));
        Self { name: "pretend", title, input, kind: ToolKind::Execute, change: true }
    }
}

/// What came of asking for a call.
enum Allowed {
    As(Option<Value>),
    No,
}

fn call<W: Write>(stage: &mut Stage<W>, id: &str, tool: &Tool) -> Result<(), Stop> {
    let call = ToolCall::new(id, tool.name, tool.kind, tool.input.clone()).titled(&tool.title);
    Ok(stage.say(&Event::ToolCall(call))?)
}

fn result<W: Write>(stage: &mut Stage<W>, id: &str, output: String, is_error: bool) -> Result<(), Stop> {
    Ok(stage.say(&Event::tool_result(id, output, is_error))?)
}

fn tool<W: Write>(stage: &mut Stage<W>, what: &str) -> Result<(), Stop> {
    let id = format!("tool-{}", stage.number());
    call(stage, &id, &Tool::pretend(what))?;
    stage.say(&Event::ToolUpdate { id: id.clone(), output_delta: "pretending…".to_owned(), name: None })?;
    result(stage, &id, format!("pretended to {what}"), false)
}

fn ask<W: Write>(stage: &mut Stage<W>, what: &str) -> Result<(), Stop> {
    let (id, allowed) = permission(stage, &Tool::pretend(what))?;
    match allowed {
        Allowed::No => Ok(()),
        Allowed::As(Some(input)) => result(stage, &id, format!("pretended with {input}"), false),
        Allowed::As(None) => result(stage, &id, format!("pretended to {what}"), false),
    }
}

/// Whether it is a file of the workspace that it would write to.
pub(super) fn is_edit(asked: &Asked) -> bool {
    let file = asked.input.get("file_path").and_then(Value::as_str);
    asked.tool == WRITE && file.is_some_and(files::is_plain)
}

/// Adds a line to a file of the workspace, when it may.
fn write<W: Write>(stage: &mut Stage<W>, file: &str) -> Result<(), Stop> {
    let line = format!("This line is the echo agent's, number {}.", stage.number());
    let input = json!({ "file_path": file, "old_string": "", "new_string": line });
    let tool = Tool { name: WRITE, title: format!("write {file}"), input, kind: ToolKind::Edit, change: false };
    let (id, allowed) = permission(stage, &tool)?;
    if matches!(allowed, Allowed::No) {
        return Ok(());
    }
    match files::add_line(file, &line) {
        Ok(()) => result(stage, &id, format!("wrote {file}"), false),
        Err(error) => result(stage, &id, format!("{file}: {error}"), true),
    }
}

/// Asks before a tool is called, and waits for the answer; a no is the call's result.
fn permission<W: Write>(stage: &mut Stage<W>, tool: &Tool) -> Result<(String, Allowed), Stop> {
    let number = stage.number();
    let (request, id) = (format!("ask-{number}"), format!("tool-{number}"));
    call(stage, &id, tool)?;
    stage.say(&Event::Asked(Asked {
        request: request.clone(),
        ask: Ask::Permission,
        tool: tool.name.to_owned(),
        title: tool.title.clone(),
        input: tool.input.clone(),
        tool_call: Some(id.clone()),
        reason: None,
        can: Can { session: true, always: true, change: tool.change, message: true },
        grants: Vec::new(),
        questions: Vec::new(),
    }))?;
    match stage.answer(&request)? {
        Decision::Deny { message, interrupt } => {
            let why = if message.is_empty() { String::new() } else { format!(": {message}") };
            result(stage, &id, format!("denied{why}"), true)?;
            if interrupt { Err(Stop::Interrupted) } else { Ok((id, Allowed::No)) }
        }
        Decision::Changed { input } => Ok((id, Allowed::As(Some(input)))),
        Decision::Once | Decision::Session | Decision::Always | Decision::Answers { .. } => Ok((id, Allowed::As(None))),
    }
}

fn question<W: Write>(stage: &mut Stage<W>, choices: &str) -> Result<(), Stop> {
    let request = format!("ask-{}", stage.number());
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
    let question = Question {
        id: "colour".to_owned(),
        header: "Colour".to_owned(),
        question: "Which colour?".to_owned(),
        options: choices.split(',').map(option).collect(),
        several: false,
    };
    stage.say(&Event::Asked(Asked {
        request: request.clone(),
        ask: Ask::Question,
        tool: "question".to_owned(),
        title: question.question.clone(),
        input: json!({ "questions": [&question] }),
        tool_call: None,
        reason: None,
        can: Can::default(),
        grants: Vec::new(),
        questions: vec![question],
    }))?;
    let text = match stage.answer(&request)? {
        Decision::Answers { answers } => {
            let chosen: Vec<String> = answers.into_values().flatten().collect();
            format!("You chose {}.", chosen.join(", "))
        }
        Decision::Deny { interrupt: true, .. } => return Err(Stop::Interrupted),
        _ => "You chose nothing.".to_owned(),
    };
    Ok(stage.say(&Event::Text { text })?)
}

fn fail<W: Write>(stage: &mut Stage<W>, why: &str) -> Result<Event, Stop> {
    stage.say(&Event::Error { message: why.to_owned(), fatal: false, kind: ErrorKind::Agent })?;
    Ok(Event::TurnEnded { reason: EndReason::Failed, message: Some(why.to_owned()) })
}
