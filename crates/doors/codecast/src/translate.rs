//! What a session's journal says, in the words of this protocol.
//!
//! A fold over the records of a turn: the same records always give the same events. Where the protocol wants what the
//! engine's vocabulary leaves out (a line of claude's own, whole), the agent's raw line is looked at.

mod line;
mod turn;

use std::collections::HashMap;

use ostler_engine::session::{Agent, Ask, Asked, EndReason, ErrorKind, Event as Heard, EventHead, Fact, Said, said};
use serde_json::{Value, json};

use crate::event::{Event, LINE_MAX};
use line::Line;
use turn::Turn;

/// Tools and requests that are remembered within a turn: more than a client could make sense of.
const KNOWN_MAX: usize = 1024;
/// Nobody who reads along has asked for it.
const INTERRUPTED: &str = "the turn was interrupted before its answer was whole";
/// Of a tool's output, so much is shown.
const OUTPUT_MAX: usize = 4000;

/// An agent's own bytes between two offsets.
pub(crate) type RawBytes<'a> = &'a dyn Fn(u32, u64, u64) -> Option<Vec<u8>>;

/// The fold.
#[derive(Debug)]
pub(crate) struct Translator {
    agent: Agent,
    /// The agent's id of the conversation.
    session_id: Option<String>,
    turn: Turn,
    /// Names of tools by their call.
    tools: HashMap<String, String>,
    /// Requests that wait, and their titles.
    asks: HashMap<String, String>,
    /// The agent's process and how much of its output was told.
    source: Option<(u32, u64)>,
}

impl Translator {
    pub(crate) fn new(agent: Agent, session_id: Option<String>) -> Self {
        let (tools, asks) = (HashMap::new(), HashMap::new());
        Self { agent, session_id, turn: Turn::default(), tools, asks, source: None }
    }

    /// The events of the next record.
    pub(crate) fn record(&mut self, head: EventHead, payload: &[u8], raw: RawBytes<'_>) -> Vec<Event> {
        let mut out = Vec::new();
        if head.source == 0 {
            for one in said(0, payload) {
                if let Said::Fact(fact) = one {
                    self.unless_over(&mut out, |this, out| this.fact(fact, out));
                }
            }
            return out;
        }
        let from = self.source.filter(|(source, _)| *source == head.source).map(|(_, end)| end);
        self.source = Some((head.source, head.src_end));
        // What an adapter says at the end of the output belongs to no line.
        let at_end = head.src_end == u64::MAX;
        let line = Line::new(from.filter(|_| !at_end).map(|from| (head.source, from, head.src_end)), raw);
        let heard: Vec<Heard> = said(head.source, payload)
            .into_iter()
            .filter_map(|one| match one {
                Said::Event(event) => Some(event),
                Said::Fact(_) => None,
            })
            .collect();
        if heard.is_empty() && self.agent == Agent::Claude && !self.turn.is_over() {
            out.extend(line.overlooked());
        }
        let ends = heard.iter().any(|event| matches!(event, Heard::TurnEnded { .. }));
        for event in heard {
            match event {
                Heard::Started { agent_session, .. } if ends => {
                    self.session_id = agent_session.or(self.session_id.take())
                }
                // The end of the process says it in the words that clients know.
                Heard::TurnEnded { .. } if at_end => {}
                event => self.unless_over(&mut out, |this, out| this.event(event, Some(&line), out)),
            }
        }
        if self.agent == Agent::Claude { tools_first(out) } else { out }
    }

    /// What is said after a turn's end, before the next begins, is for nobody's stream.
    fn unless_over(&mut self, out: &mut Vec<Event>, tell: impl FnOnce(&mut Self, &mut Vec<Event>)) {
        let (over, told) = (self.turn.is_over(), out.len());
        tell(self, out);
        if over && self.turn.is_over() {
            out.truncate(told);
        }
    }

    fn fact(&mut self, fact: Fact, out: &mut Vec<Event>) {
        match fact {
            Fact::Turn { .. } => {
                self.turn = Turn::begun();
                self.tools.clear();
                self.asks.clear();
            }
            Fact::Process { source, .. } => {
                self.source = Some((source, 0));
                // The turn goes on with another process: what was wrong with the one before was not its end.
                out.extend(self.turn.trouble.take().map(Event::notice));
            }
            Fact::Sent { .. } => self.turn.sent = true,
            Fact::Approval { request, approval, .. } => {
                if let Some(title) = self.asks.get(&request) {
                    let content = format!("Waiting for permission: {title}\nDecide with `ostler approve {approval}`.");
                    out.push(Event::Text { content });
                }
            }
            Fact::Answered { request, .. } => drop(self.asks.remove(&request)),
            Fact::Interrupt { .. } | Fact::Closed {} => self.turn.stopping = true,
            Fact::Exited { code, signal, stderr, .. } => {
                out.extend(self.turn.exited(&self.agent, code, signal, &stderr))
            }
            Fact::Said { event } => match event {
                // The engine's own words about a turn that fails are the reason.
                Heard::Error { message, .. } => self.turn.trouble = Some(message),
                event => self.event(event, None, out),
            },
            _ => {}
        }
    }

    fn event(&mut self, event: Heard, line: Option<&Line<'_>>, out: &mut Vec<Event>) {
        match event {
            Heard::Started { agent_session, model } => {
                self.session_id = agent_session.or(self.session_id.take());
                out.push(Event::System {
                    subtype: "init".to_owned(),
                    session_id: self.session_id.clone(),
                    model,
                    message: None,
                    raw: line.and_then(Line::raw),
                });
            }
            Heard::TextDelta { text } => out.push(Event::Partial { content: text }),
            Heard::Text { text } => {
                self.turn.spoke(&text);
                out.push(Event::Text { content: text });
            }
            Heard::ToolCall { id, name, input, .. } => {
                self.turn.asks |= name == "AskUserQuestion";
                remember(&mut self.tools, id, tool_name(&self.agent, &name).to_owned());
                let input = Some(input).filter(|input| !input.is_null());
                let tool = tool_name(&self.agent, &name).to_owned();
                out.push(Event::ToolUse { tool, input, message: None, raw: None });
            }
            Heard::ToolUpdate { .. } => out.extend(line.and_then(Line::progress)),
            Heard::ToolResult { id, output, .. } if self.agent != Agent::Claude => {
                let tool = self.tools.get(&id).cloned().unwrap_or_else(|| "tool".to_owned());
                let message = Some(output.chars().take(OUTPUT_MAX).collect());
                out.push(Event::ToolUse { tool, input: None, message, raw: None });
            }
            Heard::Asked(asked) => self.asked(asked, out),
            Heard::Unasked { request } => drop(self.asks.remove(&request)),
            // Why the turn ends, if it does: that is told with its end.
            Heard::Error { message, fatal, kind } => match kind {
                ErrorKind::Resume | ErrorKind::Login | ErrorKind::Setup => self.turn.trouble = Some(message),
                ErrorKind::Agent if fatal => self.turn.trouble = Some(message),
                ErrorKind::Agent | ErrorKind::Line => out.push(Event::notice(message)),
            },
            Heard::Notice { text } => out.push(Event::notice(text)),
            Heard::Unknown { kind } if kind.starts_with("system/") => out.extend(line.and_then(Line::overlooked)),
            Heard::TurnEnded { reason, message } => self.turn_ended(reason, message, line, out),
            _ => {}
        }
    }

    fn turn_ended(
        &mut self,
        reason: EndReason,
        message: Option<String>,
        line: Option<&Line<'_>>,
        out: &mut Vec<Event>,
    ) {
        let unhappy = matches!(reason, EndReason::Failed | EndReason::Interrupted);
        let result = |told: &Self| {
            let line = line.filter(|line| !unhappy || line.is_result())?;
            let session_id = line.session_id().or_else(|| told.session_id.clone());
            Some(Event::Result { session_id, raw: line.raw() })
        };
        let why = message.or_else(|| self.turn.trouble.take());
        let end = match (reason, why) {
            _ if self.turn.stopping && unhappy => Event::Interrupted,
            (EndReason::Interrupted, why) => Event::error(why.unwrap_or_else(|| INTERRUPTED.to_owned())),
            // What the agent has just said itself is not said again.
            (EndReason::Failed, Some(why)) if self.turn.has_said(&why) => {
                result(self).unwrap_or(Event::Error { message: why })
            }
            (EndReason::Failed, why) => Event::error(why.unwrap_or_else(|| "the turn failed".to_owned())),
            _ => result(self).unwrap_or_else(|| Event::Result { session_id: self.session_id.clone(), raw: None }),
        };
        out.extend(self.turn.end(end));
    }

    fn asked(&mut self, asked: Asked, out: &mut Vec<Event>) {
        let Asked { request, ask, tool, title, input, tool_call, questions, .. } = asked;
        match ask {
            // Claude's own call has shown them already.
            Ask::Question if std::mem::take(&mut self.turn.asks) => {}
            Ask::Question => {
                let input = if questions.is_empty() { input } else { json!({ "questions": shown(&questions) }) };
                let tool = "AskUserQuestion".to_owned();
                out.push(Event::ToolUse { tool, input: Some(input), message: None, raw: None });
            }
            Ask::Permission => {
                if !tool_call.is_some_and(|call| self.tools.contains_key(&call)) {
                    let tool = tool_name(&self.agent, &tool).to_owned();
                    out.push(Event::ToolUse { tool, input: Some(input), message: None, raw: None });
                }
                remember(&mut self.asks, request, title);
            }
        }
    }
}

/// Questions as heads show them.
fn shown(questions: &[ostler_engine::session::Question]) -> Vec<Value> {
    let option = |option: &ostler_engine::session::QuestionOption| json!({ "label": option.label, "description": option.description });
    let question = |question: &ostler_engine::session::Question| {
        json!({
            "question": question.question,
            "header": question.header,
            "options": question.options.iter().map(option).collect::<Vec<_>>(),
            "multiSelect": question.several,
        })
    };
    questions.iter().map(question).collect()
}

fn remember(names: &mut HashMap<String, String>, key: String, value: String) {
    if names.len() < KNOWN_MAX {
        names.insert(key, value);
    }
}

/// Gemini's tools by the names that clients of this protocol know.
fn tool_name<'a>(agent: &Agent, name: &'a str) -> &'a str {
    match name {
        "run_shell_command" if *agent == Agent::Gemini => "bash",
        "write_file" | "replace" if *agent == Agent::Gemini => "edit",
        "read_file" if *agent == Agent::Gemini => "read",
        name => name,
    }
}

/// A message of claude's is shown as its tools, then its words as one. What ends a turn stays behind both.
fn tools_first(mut events: Vec<Event>) -> Vec<Event> {
    let end = events.pop_if(|last| last.is_terminal());
    let texts = events.iter().filter(|event| matches!(event, Event::Text { .. })).count();
    let tools = events.iter().any(|event| matches!(event, Event::ToolUse { .. }));
    if texts == 0 || (texts == 1 && !tools) {
        events.extend(end);
        return events;
    }
    let mut words = String::new();
    let mut others: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        match event {
            Event::Text { content } => words.push_str(&content),
            other => others.push(other),
        }
    }
    others.push(Event::Text { content: words });
    others.extend(end);
    others
}

/// Lines that are longer are not passed on, so they need not be read.
const RAW_MAX: u64 = LINE_MAX as u64;

#[cfg(test)]
mod tests;
