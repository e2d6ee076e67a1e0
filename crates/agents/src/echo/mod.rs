//! The built-in agent: says back what it is told, and obeys a few words, so that everything around an agent can be tried
//! without a model.
//!
//! It is a program like any other, hosted and journaled. Its stdout is [`Event`]s, one on each line; its stdin is
//! [`Input`]s. Any program that speaks these lines can take its place.

mod files;
mod program;
mod script;

use ostler_story::{Ask, Autonomy, Block, Decision, EndReason, Event};
use serde::{Deserialize, Serialize};

use crate::adapter::{Adapter, AnswerError, Lined, PromptError};
use crate::asks::{Asks, Fate, TOO_MANY};
use crate::claude::{check, not_json};
use crate::lines::MAX_LINE;
use crate::setup::{Launch, Setup, Unsupported};

pub use program::{Program, run};

/// The hidden verb under which our own binary is this program.
pub const VERB: &str = "__echo";

/// A line of the program's stdin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Input {
    /// Begin a turn.
    Prompt {
        /// With this.
        blocks: Vec<Block>,
    },
    /// A request is answered.
    Answer {
        /// Which.
        request: String,
        /// How.
        decision: Decision,
    },
    /// Stop the turn.
    Interrupt,
}

impl Input {
    fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The adapter.
#[derive(Debug)]
pub struct Echo {
    setup: Setup,
    asks: Asks<()>,
    prompts: u64,
    over: u64,
}

impl Echo {
    pub(crate) fn new(setup: &Setup) -> Result<Self, Unsupported> {
        if setup.raw_mode.is_some() {
            return Err(setup.cannot("use a mode of its own: it has none"));
        }
        Ok(Echo { setup: setup.clone(), asks: Asks::default(), prompts: 0, over: 0 })
    }

    fn asked(&mut self, event: Event) -> Lined {
        let Event::Asked(asked) = event else { return Lined { events: vec![event], reply: Vec::new() } };
        let request = asked.request.clone();
        let granted = match self.setup.autonomy {
            Autonomy::All => true,
            Autonomy::Edits => script::is_edit(&asked),
            Autonomy::Ask | Autonomy::Plan => false,
        };
        if granted && asked.ask == Ask::Permission {
            let reply = match self.asks.owed(&request) {
                Fate::Answered => Vec::new(),
                _ => Input::Answer { request: request.clone(), decision: Decision::Once }.line(),
            };
            return Lined { events: vec![Event::Granted { request, tool: asked.tool, input: asked.input }], reply };
        }
        let reply = match self.asks.asked(&request, ()) {
            Fate::Full => {
                let decision = Decision::Deny { message: TOO_MANY.to_owned(), interrupt: false };
                Input::Answer { request, decision }.line()
            }
            Fate::Open | Fate::Answered => Vec::new(),
        };
        Lined { events: vec![Event::Asked(asked)], reply }
    }
}

impl Adapter for Echo {
    fn launch(&self) -> Launch {
        let session = self.setup.resume.as_ref().unwrap_or(&self.setup.new_session_id);
        let mut args = vec![VERB.to_owned(), "--session".to_owned(), session.clone()];
        if let Some(model) = &self.setup.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        Launch { program: self.setup.program("ostler"), args, ..Launch::default() }
    }

    fn opening(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn can_prompt(&self) -> bool {
        self.prompts <= self.over
    }

    fn prompt(&mut self, blocks: &[Block]) -> Result<Vec<u8>, PromptError> {
        if !self.can_prompt() {
            return Err(PromptError::NotNow);
        }
        let line = Input::Prompt { blocks: blocks.to_vec() }.line();
        check(blocks, line.len())?;
        self.prompts += 1;
        Ok(line)
    }

    fn answer(&mut self, request: &str, answer: &Decision) -> Result<Vec<u8>, AnswerError> {
        if self.asks.get(request).is_none() {
            return Err(AnswerError::NoSuchRequest(request.to_owned()));
        }
        self.asks.answered(request);
        Ok(Input::Answer { request: request.to_owned(), decision: answer.clone() }.line())
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        (!self.can_prompt()).then(|| Input::Interrupt.line())
    }

    fn sent(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(Input::Prompt { .. }) => self.prompts += 1,
            Ok(Input::Answer { request, .. }) => self.asks.answered(&request),
            Ok(Input::Interrupt) | Err(_) => {}
        }
    }

    fn line(&mut self, line: &[u8]) -> Lined {
        if line.len() > MAX_LINE {
            return self.long_line(line.len() as u64);
        }
        let Ok(event) = serde_json::from_slice::<Event>(line) else { return not_json(line) };
        match &event {
            Event::TurnEnded { .. } => self.over += 1,
            Event::Unasked { request } if !self.asks.withdrawn(request) => return Lined::default(),
            _ => {}
        }
        self.asked(event)
    }

    fn ended(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.asks.withdraw_all().into_iter().map(|request| Event::Unasked { request }).collect();
        if !self.can_prompt() {
            events.push(Event::turn_ended(EndReason::Interrupted));
        }
        self.over = self.over.max(self.prompts);
        events
    }
}
