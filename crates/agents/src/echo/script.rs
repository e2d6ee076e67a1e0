//! What a turn of the echo agent consists of: the words it obeys, then the prompt said back.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::program::{Stage, Stop};
use crate::event::{
    Answer, Ask, Asked, Can, EndReason, ErrorKind, Event, PlanEntry, PlanStatus, Question, QuestionOption, ToolKind,
    Usage,
};
use crate::setup::Block;

/// 200 ms between slow pieces: long enough to interrupt, short enough to watch.
const SLOW: Duration = Duration::from_millis(200);
/// An hour and a half of slow pieces is enough for any trial.
const MAX_SLOW: u32 = 30_000;

/// Plays a turn; what ends it.
pub(super) fn play<W: Write>(stage: &mut Stage<W>, blocks: &[Block]) -> Result<Event, Stop> {
    let text = said(blocks);
    for word in text.split_whitespace() {
        match word {
            "THINK" => think(stage)?,
            "TOOL" => tool(stage, "look around")?,
            "PLAN" => plan(stage)?,
            "QUESTION" => question(stage)?,
            "ASK" => ask(stage)?,
            "FAIL" => return fail(stage),
            slow => {
                if let Some(n) = slow.strip_prefix("SLOW:").and_then(|n| n.parse::<u32>().ok()) {
                    count(stage, n.min(MAX_SLOW))?;
                }
            }
        }
    }
    for piece in text.split_inclusive(char::is_whitespace) {
        stage.pause(Duration::ZERO)?;
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

fn call<W: Write>(stage: &mut Stage<W>, id: &str, what: &str) -> Result<(), Stop> {
    let (name, title) = ("pretend".to_owned(), format!("pretend to {what}"));
    let input = json!({ "what": what });
    Ok(stage.say(&Event::ToolCall { id: id.to_owned(), name, title, input, kind: ToolKind::Execute, parent: None })?)
}

fn result<W: Write>(stage: &mut Stage<W>, id: &str, output: String, is_error: bool) -> Result<(), Stop> {
    Ok(stage.say(&Event::ToolResult { id: id.to_owned(), output, is_error })?)
}

fn tool<W: Write>(stage: &mut Stage<W>, what: &str) -> Result<(), Stop> {
    let id = format!("tool-{}", stage.number());
    call(stage, &id, what)?;
    stage.say(&Event::ToolUpdate { id: id.clone(), output_delta: "pretending…".to_owned() })?;
    result(stage, &id, format!("pretended to {what}"), false)
}

fn ask<W: Write>(stage: &mut Stage<W>) -> Result<(), Stop> {
    let number = stage.number();
    let (request, id) = (format!("ask-{number}"), format!("tool-{number}"));
    call(stage, &id, "write a file")?;
    stage.say(&Event::Asked(Asked {
        request: request.clone(),
        ask: Ask::Permission,
        tool: "pretend".to_owned(),
        title: "pretend to write a file".to_owned(),
        input: json!({ "what": "write a file" }),
        tool_call: Some(id.clone()),
        reason: None,
        can: Can { session: true, always: true, change: true, message: true },
        grants: Vec::new(),
        questions: Vec::new(),
    }))?;
    match stage.answer(&request)? {
        Answer::Deny { message, interrupt } => {
            result(stage, &id, format!("denied: {message}"), true)?;
            if interrupt { Err(Stop::Interrupted) } else { Ok(()) }
        }
        Answer::Changed { input } => result(stage, &id, format!("pretended with {input}"), false),
        Answer::Once | Answer::Session | Answer::Always | Answer::Answers { .. } => {
            result(stage, &id, "pretended to write a file".to_owned(), false)
        }
    }
}

fn question<W: Write>(stage: &mut Stage<W>) -> Result<(), Stop> {
    let request = format!("ask-{}", stage.number());
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
    let question = Question {
        id: "colour".to_owned(),
        header: "Colour".to_owned(),
        question: "Which colour?".to_owned(),
        options: vec![option("red"), option("blue")],
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
        Answer::Answers { answers } => {
            let chosen: Vec<String> = answers.into_values().flatten().collect();
            format!("You chose {}.", chosen.join(", "))
        }
        Answer::Deny { interrupt: true, .. } => return Err(Stop::Interrupted),
        _ => "You chose nothing.".to_owned(),
    };
    Ok(stage.say(&Event::Text { text })?)
}

fn fail<W: Write>(stage: &mut Stage<W>) -> Result<Event, Stop> {
    let message = "I was told to fail".to_owned();
    stage.say(&Event::Error { message: message.clone(), fatal: false, kind: ErrorKind::Agent })?;
    Ok(Event::TurnEnded { reason: EndReason::Failed, message: Some(message) })
}
