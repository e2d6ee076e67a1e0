//! The Agent Client Protocol: gemini, opencode, and any command that speaks it.
//!
//! Only prompts and permissions are offered to the agent: it reads, writes and runs by itself, and what it asks of its
//! client beyond that is refused at once. A loaded conversation is told again by the agent; that is no news and is left out.

mod launch;
mod modes;
mod opening;
mod permission;
mod updates;

pub(crate) use launch::opencode_config;

use serde_json::json;

use crate::adapter::{Adapter, AnswerError, Lined, PromptError};
use crate::asks::{Asks, Fate};
use crate::blocks::Blocks;
use crate::claude::check;
use crate::event::{Answer, EndReason, ErrorKind, Event, Json, Usage};
use crate::json;
use crate::lines::MAX_LINE;
use crate::rpc::{METHOD_NOT_FOUND, Message, RpcError, Style};
use crate::setup::{Block, Launch, Setup, Unsupported};

/// The adapter.
#[derive(Debug)]
pub struct Acp {
    setup: Setup,
    /// How far the conversation is opened.
    opening: opening::Opening,
    /// Prompts sent, and prompts answered: the highest number of each.
    prompts: u64,
    answered: u64,
    asks: Asks<permission::Pending>,
    blocks: Blocks,
    tools: updates::Tools,
}

impl Acp {
    pub(crate) fn new(setup: &Setup) -> Result<Self, Unsupported> {
        launch::check(setup)?;
        Ok(Acp {
            setup: setup.clone(),
            opening: opening::Opening::default(),
            prompts: 0,
            answered: 0,
            asks: Asks::default(),
            blocks: Blocks::default(),
            tools: updates::Tools::default(),
        })
    }

    fn running(&self) -> bool {
        self.prompts > self.answered
    }

    fn response(&mut self, id: &str, result: Result<Json, RpcError>) -> Lined {
        match id.parse::<u64>() {
            Ok(number) if number >= opening::FIRST_PROMPT => {
                self.answered = self.answered.max(number - opening::FIRST_PROMPT + 1);
                events(self.turn_ended(result))
            }
            Ok(number) => self.opening.response(number, result, &self.setup),
            Err(_) => Lined::default(),
        }
    }

    fn turn_ended(&mut self, result: Result<Json, RpcError>) -> Vec<Event> {
        let mut events = self.close();
        let (reason, message) = match result {
            Err(error) if error.code == CANCELLED => (EndReason::Interrupted, None),
            Err(error) if error.code == opening::AUTH_REQUIRED => {
                events.push(Event::Error { message: error.text(), fatal: true, kind: ErrorKind::Login });
                (EndReason::Failed, Some(error.text()))
            }
            Err(error) => (EndReason::Failed, Some(error.text())),
            Ok(result) => {
                events.extend(usage(&result));
                match json::text(&result, &["stopReason"]) {
                    Some("cancelled") => (EndReason::Interrupted, None),
                    Some("refusal") => (EndReason::Refused, None),
                    Some("max_tokens") => (EndReason::MaxTokens, None),
                    Some("max_turn_requests") => (EndReason::MaxSteps, None),
                    _ => (EndReason::Completed, None),
                }
            }
        };
        events.push(Event::TurnEnded { reason, message });
        events
    }

    /// What is open is over: the block being spoken, requests, tools.
    fn close(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.blocks.close(&mut events);
        self.tools.clear();
        events.extend(self.asks.withdraw_all().into_iter().map(|request| Event::Unasked { request }));
        events
    }

    fn request(&mut self, id: &str, method: &str, params: &Json) -> Lined {
        if method == "session/request_permission" {
            let mut events = Vec::new();
            self.blocks.close(&mut events);
            return permission::asked(id, params, &self.setup, &mut self.tools, &mut self.asks, events);
        }
        let reply = match self.asks.owed(id) {
            Fate::Answered => Vec::new(),
            _ => Style::Marked.refusal(id, METHOD_NOT_FOUND, "not offered by this client"),
        };
        Lined { events: vec![Event::Unknown { kind: method.to_owned() }], reply }
    }

    fn notification(&mut self, method: &str, params: &Json) -> Vec<Event> {
        let mut events = Vec::new();
        match method {
            "session/update" if self.opening.is_replay() => {}
            "session/update" => {
                let update = params.get("update").unwrap_or(&Json::Null);
                updates::update(update, &mut self.blocks, &mut self.tools, &mut events);
            }
            other if other.starts_with('_') => {}
            other => events.push(Event::Unknown { kind: other.to_owned() }),
        }
        events
    }
}

/// JSON-RPC's number for a request that was cancelled, which some agents answer a prompt with.
const CANCELLED: i64 = -32800;

impl Adapter for Acp {
    fn launch(&self) -> Launch {
        launch::launch(&self.setup)
    }

    fn opening(&mut self) -> Vec<u8> {
        self.opening.begin()
    }

    fn can_prompt(&self) -> bool {
        self.opening.ready().is_some() && !self.running()
    }

    fn prompt(&mut self, blocks: &[Block]) -> Result<Vec<u8>, PromptError> {
        let Some(session) = self.opening.ready().filter(|_| !self.running()) else { return Err(PromptError::NotNow) };
        if !self.opening.images && blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
            return Err(self.setup.cannot("take pictures").into());
        }
        let params = json!({ "sessionId": session, "prompt": content(blocks) });
        let line = Style::Marked.request(opening::FIRST_PROMPT + self.prompts, "session/prompt", &params);
        check(blocks, line.len())?;
        self.prompts += 1;
        Ok(line)
    }

    fn answer(&mut self, request: &str, answer: &Answer) -> Result<Vec<u8>, AnswerError> {
        let pending = self.asks.get(request).ok_or_else(|| AnswerError::NoSuchRequest(request.to_owned()))?;
        let result = permission::answer(&self.setup, pending, answer)?;
        self.asks.answered(request);
        let mut bytes = Style::Marked.result(request, &result);
        if matches!(answer, Answer::Deny { interrupt: true, .. }) {
            bytes.extend(self.interrupt().unwrap_or_default());
        }
        Ok(bytes)
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        let session = self.opening.session().filter(|_| self.running())?.to_owned();
        let mut bytes = Style::Marked.notification("session/cancel", &json!({ "sessionId": session }));
        // The protocol wants every open request answered with "cancelled".
        for id in self.asks.ids() {
            self.asks.voided(&id);
            bytes.extend(Style::Marked.result(&id, &permission::cancelled()));
        }
        Some(bytes)
    }

    fn sent(&mut self, line: &[u8]) {
        match Message::read(line) {
            Some(Message::Request { id, .. }) => match id.parse::<u64>() {
                Ok(number) if number >= opening::FIRST_PROMPT => {
                    self.prompts = self.prompts.max(number - opening::FIRST_PROMPT + 1);
                }
                Ok(number) => self.opening.sent(number),
                Err(_) => {}
            },
            Some(Message::Response { id, result: Ok(result) }) if result == permission::cancelled() => {
                self.asks.voided(&id);
            }
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
            Some(Message::Request { id, method, params }) => self.request(&id, &method, &params),
            Some(Message::Notification { method, params }) => events(self.notification(&method, &params)),
            None if line.iter().all(u8::is_ascii_whitespace) => Lined::default(),
            None => events(vec![Event::Unknown { kind: "not a message".to_owned() }]),
        }
    }

    fn ended(&mut self) -> Vec<Event> {
        let mut events = self.close();
        if self.running() {
            events.push(Event::turn_ended(EndReason::Interrupted));
        }
        self.answered = self.answered.max(self.prompts);
        events
    }
}

fn content(blocks: &[Block]) -> Vec<Json> {
    let block = |block: &Block| match block {
        Block::Text { text } => json!({ "type": "text", "text": text }),
        Block::Image { mime, data } => json!({ "type": "image", "mimeType": mime, "data": data }),
        Block::File { path } => {
            let name = path.rsplit('/').next().unwrap_or(path);
            json!({ "type": "resource_link", "uri": format!("file://{path}"), "name": name })
        }
    };
    blocks.iter().map(block).collect()
}

fn usage(result: &Json) -> Option<Event> {
    if let Some(used) = json::at(result, &["_meta", "quota", "token_count"]) {
        // gemini's place for it.
        let count = |name| json::number(used, &[name]);
        let (input_tokens, output_tokens) = (count("input_tokens"), count("output_tokens"));
        return Some(Event::Usage(Usage { input_tokens, output_tokens, ..Usage::default() }));
    }
    let used = result.get("usage").filter(|usage| usage.is_object())?;
    Some(Event::Usage(Usage {
        input_tokens: json::number(used, &["inputTokens"]),
        output_tokens: json::number(used, &["outputTokens"]),
        cached_tokens: json::number(used, &["cachedReadTokens"]),
        ..Usage::default()
    }))
}

fn events(events: Vec<Event>) -> Lined {
    Lined { events, reply: Vec::new() }
}
