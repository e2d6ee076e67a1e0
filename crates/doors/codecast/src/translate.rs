//! What a session's journal says, in the words of this protocol.
//!
//! The pieces of its story, each in this protocol's words: the same records always give the same events. Where the protocol
//! wants an agent's own line beside them, it is passed on as it is: nobody here knows what stands in it.

mod ending;

use ostler_engine::session::EventHead;
use ostler_story::{Agent, Ask, Asked, Event as AgentEvent, Piece, Said, Story, Voice, said};
use serde_json::{Value, json};

use crate::event::{Event, LINE_MAX, Raw};
use ending::ending;

/// Of a tool's output, so much is shown.
const OUTPUT_MAX: usize = 4000;
/// Words that are remembered to be recognised.
const WORDS_MAX: usize = 4096;

/// An agent's own bytes between two offsets.
pub(crate) type RawBytes<'a> = &'a dyn Fn(u32, u64, u64) -> Option<Vec<u8>>;
/// The agent's line that a record is about, read only when it is passed on.
type Line<'a> = Option<&'a dyn Fn() -> Option<Raw>>;

/// A session's story in the words of this protocol.
#[derive(Debug)]
pub(crate) struct Translator {
    agent: Agent,
    story: Story,
    /// The agent's id of the conversation.
    session_id: Option<String>,
    /// The turn's end was told. What is said after it, before the next begins, is for nobody's stream.
    over: bool,
    /// Claude's own call with its questions was shown.
    questions_shown: bool,
    /// The last words of the agent, if they were few.
    words: String,
    /// The agent's process and how much of its output was told.
    source: Option<(u32, u64)>,
}

impl Translator {
    pub(crate) fn new(agent: Agent, session_id: Option<String>) -> Self {
        let (story, words) = (Story::default(), String::new());
        Self { agent, story, session_id, over: false, questions_shown: false, words, source: None }
    }

    /// The events of the next record.
    pub(crate) fn record(&mut self, head: EventHead, payload: &[u8], raw: RawBytes<'_>) -> Vec<Event> {
        let mut out = Vec::new();
        let said = said(head.source, payload);
        if head.source == 0 {
            said.into_iter().for_each(|one| self.take(one, false, None, &mut out));
            return out;
        }
        let from = self.source.filter(|(source, _)| *source == head.source).map(|(_, end)| end);
        self.source = Some((head.source, head.src_end));
        // What an adapter says at the end of the output belongs to no line.
        let at_end = head.src_end == u64::MAX;
        let line = || {
            let from = from.filter(|from| !at_end && head.src_end.saturating_sub(*from) <= RAW_MAX)?;
            Raw::read(&raw(head.source, from, head.src_end)?)
        };
        let ends = said.iter().any(|one| matches!(one, Said::Event(AgentEvent::TurnEnded { .. })));
        for one in said {
            match one {
                Said::Event(AgentEvent::Started { agent_session, .. }) if ends => {
                    self.session_id = agent_session.or(self.session_id.take());
                }
                one => self.take(one, at_end, Some(&line), &mut out),
            }
        }
        if self.agent == Agent::Claude { tools_first(out) } else { out }
    }

    fn take(&mut self, said: Said, at_end: bool, line: Line<'_>, out: &mut Vec<Event>) {
        for piece in self.story.take(said, at_end) {
            match piece {
                Piece::Begun { .. } => {
                    (self.over, self.questions_shown) = (false, false);
                    self.words.clear();
                }
                Piece::Process { source, after } => {
                    self.source = Some((source, 0));
                    out.extend(after.filter(|_| !self.over).map(Event::notice));
                }
                piece if !self.over => self.piece(piece, line, out),
                _ => {}
            }
        }
    }

    fn piece(&mut self, piece: Piece, line: Line<'_>, out: &mut Vec<Event>) {
        match piece {
            Piece::Words { voice: Voice::Answer, text } => out.push(Event::Partial { content: text }),
            Piece::Whole { voice: Voice::Answer, text, .. } => {
                self.words.clear();
                self.words.push_str(if text.len() <= WORDS_MAX { text.trim() } else { "" });
                out.push(Event::Text { content: text });
            }
            Piece::Tool(call) => {
                self.questions_shown |= call.name == "AskUserQuestion";
                let input = Some(call.input).filter(|input| !input.is_null());
                let tool = tool_name(&self.agent, &call.name).to_owned();
                out.push(Event::ToolUse { tool, input, message: None, raw: None });
            }
            Piece::ToolEnded { name, output, .. } if self.agent != Agent::Claude => {
                let tool = name.map_or("tool".to_owned(), |name| tool_name(&self.agent, &name).to_owned());
                let message = Some(output.chars().take(OUTPUT_MAX).collect());
                out.push(Event::ToolUse { tool, input: None, message, raw: None });
            }
            Piece::Asked { asked, announced } => self.asked(*asked, announced, out),
            Piece::Waits { approval, asked: Some(asked) } if asked.ask == Ask::Permission => {
                let title = asked.title;
                let content = format!("Waiting for permission: {title}\nDecide with `ostler approve {approval}`.");
                out.push(Event::Text { content });
            }
            // Why the turn ends, if it does, is told with its end.
            Piece::Trouble { message, ends: false, .. } => out.push(Event::notice(message)),
            Piece::Ended(ended) => {
                self.over = true;
                let told = |words: &str| !self.words.is_empty() && self.words == words.trim();
                out.push(ending(&self.agent, *ended, told, self.session_id.as_deref(), line));
            }
            Piece::Said(event) => self.event(event, line, out),
            _ => {}
        }
    }

    fn event(&mut self, event: AgentEvent, line: Line<'_>, out: &mut Vec<Event>) {
        match event {
            AgentEvent::Started { agent_session, model } => {
                self.session_id = agent_session.or(self.session_id.take());
                out.push(Event::System {
                    subtype: "init".to_owned(),
                    session_id: self.session_id.clone(),
                    model,
                    message: None,
                    raw: line.and_then(|line| line()),
                });
            }
            // Of claude alone, clients know the names of tools as they are called, and lines about its system.
            AgentEvent::ToolPending { name, .. } if self.agent == Agent::Claude => {
                out.push(Event::ToolUse { tool: name, input: None, message: None, raw: None });
            }
            AgentEvent::Status { kind } if self.agent == Agent::Claude => out.push(self.system(kind, line)),
            AgentEvent::Unknown { kind } if self.agent == Agent::Claude => {
                out.extend(kind.strip_prefix("system/").map(|kind| self.system(kind.to_owned(), line)));
            }
            AgentEvent::ToolUpdate { name: Some(tool), output_delta, .. } => {
                let raw = line.and_then(|line| line());
                out.push(Event::ToolUse { tool, input: None, message: Some(output_delta), raw });
            }
            AgentEvent::Notice { text } => out.push(Event::notice(text)),
            _ => {}
        }
    }

    fn system(&self, subtype: String, line: Line<'_>) -> Event {
        let raw = line.and_then(|line| line());
        Event::System { subtype, session_id: self.session_id.clone(), model: None, message: None, raw }
    }

    fn asked(&mut self, asked: Asked, announced: bool, out: &mut Vec<Event>) {
        let Asked { ask, tool, input, questions, .. } = asked;
        match ask {
            // Claude's own call has shown them already.
            Ask::Question if std::mem::take(&mut self.questions_shown) => {}
            Ask::Question => {
                let input = if questions.is_empty() { input } else { json!({ "questions": shown(&questions) }) };
                let tool = "AskUserQuestion".to_owned();
                out.push(Event::ToolUse { tool, input: Some(input), message: None, raw: None });
            }
            Ask::Permission if announced => {}
            Ask::Permission => {
                let tool = tool_name(&self.agent, &tool).to_owned();
                out.push(Event::ToolUse { tool, input: Some(input), message: None, raw: None });
            }
        }
    }
}

/// Questions as heads show them.
fn shown(questions: &[ostler_story::Question]) -> Vec<Value> {
    let option =
        |option: &ostler_story::QuestionOption| json!({ "label": option.label, "description": option.description });
    let question = |question: &ostler_story::Question| {
        json!({
            "question": question.question,
            "header": question.header,
            "options": question.options.iter().map(option).collect::<Vec<_>>(),
            "multiSelect": question.several,
        })
    };
    questions.iter().map(question).collect()
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
