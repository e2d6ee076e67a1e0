//! Codex through its app server: threads, turns, approvals.
//!
//! Request numbers of ours say what they were for (see [`id`]), so a response is understood without any memory of the
//! request.

mod approvals;
mod id;
mod items;
pub(crate) mod launch;
mod notes;

pub(crate) use approvals::inside;

use std::collections::BTreeMap;

use ostler_story::{Block, Decision, EndReason, ErrorKind, Event, Json, Limit, Offers, Usage};
use serde_json::json;

use crate::adapter::{Adapter, AnswerError, Lined, PromptError};
use crate::asks::Asks;
use crate::claude::check;
use crate::json;
use crate::lines::MAX_LINE;
use crate::model;
use crate::rpc::{Message, RpcError, Style};
use crate::setup::{Launch, Setup, Unsupported};

/// The adapter.
#[derive(Debug)]
pub struct Codex {
    setup: Setup,
    policy: launch::Policy,
    /// The highest numbers of our requests, by what they are for.
    sent: id::Sent,
    thread: Option<String>,
    /// The running turn.
    turn: Option<String>,
    /// Turns that ended, or that never began.
    over: u64,
    asks: Asks<approvals::Pending>,
    items: items::Items,
    /// What the running turn has used: codex tells it step by step.
    used: Usage,
    /// What it offers, and its limits as told last.
    offers: Offers,
    limits: BTreeMap<String, Limit>,
}

impl Codex {
    pub(crate) fn new(setup: &Setup) -> Result<Self, Unsupported> {
        Ok(Codex {
            setup: setup.clone(),
            policy: launch::Policy::of(setup)?,
            sent: id::Sent::default(),
            thread: None,
            turn: None,
            over: 0,
            asks: Asks::default(),
            items: items::Items::default(),
            used: Usage::default(),
            offers: Offers::default(),
            limits: BTreeMap::new(),
        })
    }

    fn running(&self) -> bool {
        self.turn.is_some() || self.sent.turns > self.over
    }

    fn response(&mut self, id: &str, result: Result<Json, RpcError>) -> Lined {
        let Some(what) = id.parse().ok().and_then(id::For::of) else { return Lined::default() };
        match (what, result) {
            (id::For::Initialize, Ok(_)) if !self.sent.thread => {
                let mut reply = Style::Bare.notification("initialized", &json!({}));
                reply.extend(launch::thread(&self.setup, &self.policy));
                self.sent.thread = true;
                Lined { events: Vec::new(), reply }
            }
            (id::For::Thread, Ok(result)) => {
                self.thread = json::text(&result, &["thread", "id"]).map(str::to_owned).or(self.setup.resume.clone());
                let model = json::text(&result, &["model"]).map(str::to_owned);
                let differs = model.as_deref().and_then(|told| model::differs(&self.setup, told));
                let started = Event::Started { agent_session: self.thread.clone(), model };
                events(std::iter::once(started).chain(differs).collect())
            }
            (id::For::Turn, Err(error)) => {
                self.over += 1;
                events(vec![Event::TurnEnded { reason: EndReason::Failed, message: Some(error.text()) }])
            }
            (id::For::Initialize, Err(error)) => fatal(error.text(), ErrorKind::Agent),
            (id::For::Thread, Err(error)) => {
                let kind = if self.setup.resume.is_some() { ErrorKind::Resume } else { ErrorKind::Agent };
                fatal(error.text(), kind)
            }
            (id::For::Steer | id::For::Interrupt, Err(error)) => events(vec![Event::trouble(error.text())]),
            _ => Lined::default(),
        }
    }

    /// Words of other threads (sub-agents) are not this conversation's.
    fn ours(&self, params: &Json) -> bool {
        match (json::text(params, &["threadId"]), &self.thread) {
            (Some(told), Some(own)) => told == own,
            _ => true,
        }
    }
}

impl Adapter for Codex {
    fn launch(&self) -> Launch {
        Launch { program: self.setup.program("codex"), args: vec!["app-server".to_owned()], ..Launch::default() }
    }

    fn opening(&mut self) -> Vec<u8> {
        if std::mem::replace(&mut self.sent.initialize, true) { Vec::new() } else { launch::initialize() }
    }

    fn can_prompt(&self) -> bool {
        self.thread.is_some() && !self.running()
    }

    fn prompt(&mut self, blocks: &[Block]) -> Result<Vec<u8>, PromptError> {
        let Some(thread) = self.thread.as_ref().filter(|_| !self.running()) else { return Err(PromptError::NotNow) };
        let line = launch::turn(self.sent.turns, thread, &self.policy, &input(blocks));
        check(blocks, line.len())?;
        self.sent.turns += 1;
        Ok(line)
    }

    fn steer(&mut self, blocks: &[Block]) -> Option<Vec<u8>> {
        let (thread, turn) = (self.thread.as_ref()?, self.turn.as_ref()?);
        let params = json!({ "threadId": thread, "expectedTurnId": turn, "input": input(blocks) });
        let line = Style::Bare.request(id::For::Steer.number(self.sent.steers), "turn/steer", &params);
        check(blocks, line.len()).ok()?;
        self.sent.steers += 1;
        Some(line)
    }

    fn answer(&mut self, request: &str, answer: &Decision) -> Result<Vec<u8>, AnswerError> {
        let pending = self.asks.get(request).ok_or_else(|| AnswerError::NoSuchRequest(request.to_owned()))?;
        let result = approvals::answer(&self.setup, pending, answer)?;
        let mut bytes = Style::Bare.result(request, &result);
        let stop = matches!(answer, Decision::Deny { interrupt: true, .. }) && !pending.cancels();
        self.asks.answered(request);
        if stop {
            bytes.extend(self.interrupt().unwrap_or_default());
        }
        Ok(bytes)
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        let (thread, turn) = (self.thread.as_ref()?, self.turn.as_ref()?);
        let params = json!({ "threadId": thread, "turnId": turn });
        let line = Style::Bare.request(id::For::Interrupt.number(self.sent.interrupts), "turn/interrupt", &params);
        self.sent.interrupts += 1;
        Some(line)
    }

    fn leaves_tools(&self) -> bool {
        true
    }

    fn sent(&mut self, line: &[u8]) {
        match Message::read(line) {
            Some(Message::Request { id, .. }) => self.sent.note(&id),
            Some(Message::Response { id, .. }) => self.asks.answered(&id),
            _ => {}
        }
    }

    fn line(&mut self, line: &[u8]) -> Lined {
        if line.len() > MAX_LINE {
            return self.long_line(line.len() as u64);
        }
        match Message::read(line) {
            Some(Message::Response { id, result }) => self.response(&id, result),
            Some(Message::Request { id, method, params }) => {
                approvals::asked(&id, &method, &params, &self.policy, &self.items, &mut self.asks)
            }
            Some(Message::Notification { method, params }) if self.ours(&params) => {
                events(self.notification(&method, &params))
            }
            Some(Message::Notification { .. }) => Lined::default(),
            None if line.iter().all(u8::is_ascii_whitespace) => Lined::default(),
            None => events(vec![Event::Unknown { kind: "not a message".to_owned() }]),
        }
    }

    fn ended(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.asks.withdraw_all().into_iter().map(|request| Event::Unasked { request }).collect();
        if self.running() {
            events.push(Event::turn_ended(EndReason::Interrupted));
        }
        self.turn = None;
        self.over = self.over.max(self.sent.turns);
        events
    }
}

fn input(blocks: &[Block]) -> Vec<Json> {
    let block = |block: &Block| match block {
        Block::Text { text } => json!({ "type": "text", "text": text }),
        Block::Image { mime, data } => json!({ "type": "image", "url": format!("data:{mime};base64,{data}") }),
        Block::File { path } => json!({ "type": "text", "text": format!("@{path}") }),
    };
    blocks.iter().map(block).collect()
}

fn events(events: Vec<Event>) -> Lined {
    Lined { events, reply: Vec::new() }
}

fn fatal(message: String, kind: ErrorKind) -> Lined {
    events(vec![Event::Error { message, fatal: true, kind }])
}
