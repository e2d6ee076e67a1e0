//! One process for each prompt: the prompt on stdin, then the end of stdin. For CLIs without a better way.
//!
//! Nothing can be asked in this way. `ask` therefore is whatever the CLI does when it may not ask: it refuses, or looks
//! and changes nothing.

mod codex;
pub(crate) mod gemini;
mod launch;
pub(crate) mod opencode;

use ostler_story::{Agent, Block, Decision, EndReason, Event, Json};

use crate::adapter::{Adapter, AnswerError, Lined, PromptError};
use crate::claude::{Lines, check, not_json};
use crate::json;
use crate::lines::MAX_LINE;
use crate::model;
use crate::setup::{Launch, Setup, Unsupported};

/// The adapter.
#[derive(Debug)]
pub struct Oneshot {
    setup: Setup,
    output: Output,
    prompted: bool,
    over: bool,
}

/// What each CLI writes.
#[derive(Debug)]
enum Output {
    Claude(Box<Lines>),
    Codex(codex::Lines),
    Gemini(gemini::Lines),
    Opencode(opencode::Lines),
}

impl Output {
    fn line(&mut self, line: &Json) -> Vec<Event> {
        match self {
            Output::Claude(told) => told.line(line),
            Output::Codex(told) => told.line(line),
            Output::Gemini(told) => told.line(line),
            Output::Opencode(told) => told.line(line),
        }
    }

    fn close(&mut self, events: &mut Vec<Event>) {
        match self {
            Output::Claude(_) | Output::Codex(_) => {}
            Output::Gemini(told) => told.blocks.close(events),
            Output::Opencode(told) => told.blocks.close(events),
        }
    }
}

impl Oneshot {
    pub(crate) fn new(setup: &Setup) -> Result<Self, Unsupported> {
        let output = match &setup.agent {
            Agent::Claude => Output::Claude(Box::new(Lines::once(setup))),
            Agent::Codex => Output::Codex(codex::Lines::default()),
            Agent::Gemini => Output::Gemini(gemini::Lines::default()),
            Agent::Opencode => Output::Opencode(opencode::Lines::default()),
            _ => return Err(setup.cannot("be run once for each prompt")),
        };
        launch::launch(setup)?;
        Ok(Oneshot { setup: setup.clone(), output, prompted: false, over: false })
    }
}

impl Adapter for Oneshot {
    fn launch(&self) -> Launch {
        launch::launch(&self.setup).unwrap_or_default()
    }

    fn opening(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn can_prompt(&self) -> bool {
        !self.prompted
    }

    fn prompt(&mut self, blocks: &[Block]) -> Result<Vec<u8>, PromptError> {
        if self.prompted {
            return Err(PromptError::NotNow);
        }
        let mut words = Vec::new();
        for block in blocks {
            match block {
                Block::Text { text } => words.push(text.clone()),
                Block::File { path } => words.push(format!("@{path}")),
                Block::Image { .. } => {
                    return Err(self.setup.cannot("take pictures when run once for each prompt").into());
                }
            }
        }
        let text = words.join("\n");
        check(blocks, text.len())?;
        self.prompted = true;
        Ok(text.into_bytes())
    }

    fn answer(&mut self, request: &str, _answer: &Decision) -> Result<Vec<u8>, AnswerError> {
        Err(AnswerError::NoSuchRequest(request.to_owned()))
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn sent(&mut self, _line: &[u8]) {
        self.prompted = true;
    }

    fn line(&mut self, line: &[u8]) -> Lined {
        if line.len() > MAX_LINE {
            return self.long_line(line.len() as u64);
        }
        let Some(line) = json::object(line) else { return not_json(line) };
        let mut events = self.output.line(&line);
        if !matches!(self.output, Output::Claude(_)) {
            // Claude's own fold has looked already.
            let told = events.iter().find_map(|event| match event {
                Event::Started { model, .. } => model.as_deref(),
                _ => None,
            });
            let differs = told.and_then(|told| model::differs(&self.setup, told));
            let failure = differs.as_ref().and_then(Event::failure);
            events.extend(differs.into_iter().chain(failure));
        }
        let over = &mut self.over;
        // One prompt, one end: what a CLI says after it is no second one.
        events.retain(|event| !matches!(event, Event::TurnEnded { .. }) || !std::mem::replace(over, true));
        Lined { events, reply: Vec::new() }
    }

    fn ended(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.output.close(&mut events);
        if self.prompted && !std::mem::replace(&mut self.over, true) {
            events.push(Event::turn_ended(EndReason::Interrupted));
        }
        events
    }
}
