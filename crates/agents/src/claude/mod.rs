//! Claude Code, kept running: JSON lines both ways and the control protocol for permissions.
//!
//! `all` needs no bypass flag (which the CLI refuses to root): every permission request is answered with yes here, and
//! recorded as [`Event::Granted`]. Questions always go to people.

mod control;
pub(crate) mod launch;
pub(crate) mod lines;
mod offers;
pub mod said;

use ostler_story::{Block, Decision, Event, Json};
use serde_json::json;

use crate::adapter::{Adapter, AnswerError, Lined, PromptError};
use crate::asks::Asks;
use crate::json;
use crate::lines::MAX_LINE;
use crate::model;
use crate::setup::{Launch, Setup, Unsupported};

pub(crate) use lines::{Lines, not_json};

/// The adapter.
#[derive(Debug)]
pub struct Claude {
    setup: Setup,
    told: Lines,
    asks: Asks<control::Pending>,
    /// Prompts sent.
    prompts: u64,
    /// Control requests sent: numbers the next one.
    controls: u64,
    /// Whether it was asked, and whether it has said, which model it runs.
    model: Asked,
}

/// A question of ours that must be answered before the first prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    NotYet,
    Waiting,
    Known,
}

/// The request that asks for the model.
const WHICH_MODEL: &str = "ostler-model";

impl Claude {
    pub(crate) fn new(setup: &Setup) -> Result<Self, Unsupported> {
        // Whoever asked for no model takes what comes.
        let model = if setup.model.is_some() { Asked::NotYet } else { Asked::Known };
        let (told, asks) = (Lines::kept(setup), Asks::default());
        Ok(Claude { setup: setup.clone(), told, asks, prompts: 0, controls: 0, model })
    }

    /// The answer to [`WHICH_MODEL`]. A version that has no such answer says it with its first turn.
    fn runs(&mut self, line: &Json) -> Lined {
        self.model = Asked::Known;
        let told = json::text(line, &["response", "response", "applied", "model"]);
        let events = told.and_then(|told| model::differs(&self.setup, told)).into_iter().collect();
        Lined { events, reply: Vec::new() }
    }

    fn running(&self) -> bool {
        self.told.in_turn || self.prompts > self.told.results
    }
}

impl Adapter for Claude {
    fn launch(&self) -> Launch {
        launch::stream(&self.setup)
    }

    fn opening(&mut self) -> Vec<u8> {
        if self.model != Asked::NotYet {
            return Vec::new();
        }
        self.model = Asked::Waiting;
        let request = json!({ "subtype": "get_settings" });
        json::line(&json!({ "type": "control_request", "request_id": WHICH_MODEL, "request": request }))
    }

    fn can_prompt(&self) -> bool {
        self.model == Asked::Known && !self.running()
    }

    fn prompt(&mut self, blocks: &[Block]) -> Result<Vec<u8>, PromptError> {
        if !self.can_prompt() {
            return Err(PromptError::NotNow);
        }
        let line = json::line(&json!({ "type": "user", "message": { "role": "user", "content": content(blocks) } }));
        check(blocks, line.len())?;
        self.prompts += 1;
        Ok(line)
    }

    fn answer(&mut self, request: &str, answer: &Decision) -> Result<Vec<u8>, AnswerError> {
        let pending = self.asks.get(request).ok_or_else(|| AnswerError::NoSuchRequest(request.to_owned()))?;
        let line = control::answer(request, pending, answer);
        self.asks.answered(request);
        Ok(line)
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        if !self.running() {
            return None;
        }
        self.controls += 1;
        let id = format!("ostler-{}", self.controls);
        Some(json::line(&json!({ "type": "control_request", "request_id": id, "request": { "subtype": "interrupt" } })))
    }

    fn sent(&mut self, line: &[u8]) {
        let Some(line) = json::object(line) else { return };
        match json::text(&line, &["type"]) {
            Some("user") => self.prompts += 1,
            Some("control_request") if json::text(&line, &["request_id"]) == Some(WHICH_MODEL) => {
                self.model = Asked::Waiting;
            }
            Some("control_request") => self.controls += 1,
            Some("control_response") => {
                if let Some(id) = json::text(&line, &["response", "request_id"]) {
                    self.asks.answered(id);
                }
            }
            _ => {}
        }
    }

    fn line(&mut self, line: &[u8]) -> Lined {
        if line.len() > MAX_LINE {
            return self.long_line(line.len() as u64);
        }
        let Some(line) = json::object(line) else { return not_json(line) };
        match json::text(&line, &["type"]) {
            Some("control_request") => control::asked(&line, self.setup.autonomy, &mut self.asks),
            Some("control_cancel_request") => control::withdrawn(&line, &mut self.asks),
            Some("control_response") if json::text(&line, &["response", "request_id"]) == Some(WHICH_MODEL) => {
                self.runs(&line)
            }
            Some("control_response") => control::acknowledged(&line),
            _ => Lined { events: self.told.line(&line), reply: Vec::new() },
        }
    }

    fn ended(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.asks.withdraw_all().into_iter().map(|request| Event::Unasked { request }).collect();
        let running = self.running();
        self.told.ended(self.prompts, running, &mut events);
        events
    }
}

/// Refuses what is empty, or longer than a line may be.
pub(crate) fn check(blocks: &[Block], bytes: usize) -> Result<(), PromptError> {
    let blank = |block: &Block| matches!(block, Block::Text { text } if text.trim().is_empty());
    if blocks.iter().all(blank) {
        return Err(PromptError::Empty);
    }
    if bytes > MAX_LINE {
        return Err(PromptError::TooLong(bytes));
    }
    Ok(())
}

fn content(blocks: &[Block]) -> Vec<Json> {
    let block = |block: &Block| match block {
        Block::Text { text } => json!({ "type": "text", "text": text }),
        Block::Image { mime, data } => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": mime, "data": data } })
        }
        Block::File { path } => json!({ "type": "text", "text": format!("@{path}") }),
    };
    blocks.iter().map(block).collect()
}
