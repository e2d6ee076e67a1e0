//! The Agent Client Protocol: gemini, opencode, and any command that speaks it.
//!
//! Only prompts and permissions are offered to the agent: it reads, writes and runs by itself, and what it asks of its
//! client beyond that is refused at once. A loaded conversation is told again by the agent; that is no news and is left out.
//!
//! The words are those of the protocol's own schema. Agents leave out what it demands and add what it does not know, so
//! messages are read member by member: an odd one costs itself and nothing else.

mod launch;
mod modes;
mod offers;
mod opening;
mod permission;
mod updates;

pub(crate) use launch::opencode_config;

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES as METHODS, CLIENT_METHOD_NAMES as OURS, CancelNotification, ContentBlock, ErrorCode,
    ImageContent, PromptRequest, RequestPermissionOutcome, ResourceLink, SessionId, StopReason,
};
use ostler_story::{Block, Decision, EndReason, ErrorKind, Event, Json, Offers, Usage};

use crate::adapter::{Adapter, AnswerError, Lined, PromptError};
use crate::asks::{Asks, Fate};
use crate::blocks::Blocks;
use crate::claude::check;
use crate::json;
use crate::lines::MAX_LINE;
use crate::rpc::{METHOD_NOT_FOUND, Message, RpcError, Style};
use crate::setup::{Launch, Setup, Unsupported};

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
    offers: Offers,
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
            offers: Offers::default(),
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
            Ok(number) => {
                let told = result.as_ref().map(offers::told).unwrap_or_default();
                let mut lined = self.opening.response(number, result, &self.setup);
                // Of one that must not go on nobody needs to know what it offers.
                if !lined.events.iter().any(|event| matches!(event, Event::Error { .. })) {
                    lined.events.extend(self.offers.news(told).map(Event::Offers));
                }
                lined
            }
            Err(_) => Lined::default(),
        }
    }

    fn turn_ended(&mut self, result: Result<Json, RpcError>) -> Vec<Event> {
        let mut events = self.close();
        let (reason, message) = match result {
            Err(error) => match code(&error) {
                ErrorCode::RequestCancelled => (EndReason::Interrupted, None),
                ErrorCode::AuthRequired => {
                    events.push(Event::Error { message: error.text(), fatal: true, kind: ErrorKind::Login });
                    (EndReason::Failed, Some(error.text()))
                }
                _ => (EndReason::Failed, Some(error.text())),
            },
            Ok(result) => {
                events.extend(usage(&result));
                let reason = match json::part(&result, "stopReason") {
                    Some(StopReason::Cancelled) => EndReason::Interrupted,
                    Some(StopReason::Refusal) => EndReason::Refused,
                    Some(StopReason::MaxTokens) => EndReason::MaxTokens,
                    Some(StopReason::MaxTurnRequests) => EndReason::MaxSteps,
                    _ => EndReason::Completed,
                };
                (reason, None)
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
        if method == OURS.session_request_permission {
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
        if method != OURS.session_update {
            let extension = method.starts_with('_');
            return if extension { events } else { vec![Event::Unknown { kind: method.to_owned() }] };
        }
        if let Some(update) = params.get("update").filter(|_| !self.opening.is_replay()) {
            let told = offers::update(update, &self.offers);
            events.extend(told.and_then(|told| self.offers.news(told)).map(Event::Offers));
            updates::update(update, &mut self.blocks, &mut self.tools, &mut events);
        }
        events
    }
}

/// The protocol's word for what went wrong.
fn code(error: &RpcError) -> ErrorCode {
    i32::try_from(error.code).map_or(ErrorCode::InternalError, ErrorCode::from)
}

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
        let params = PromptRequest::new(session.clone(), content(blocks));
        let line = Style::Marked.request(opening::FIRST_PROMPT + self.prompts, METHODS.session_prompt, &params);
        check(blocks, line.len())?;
        self.prompts += 1;
        Ok(line)
    }

    fn answer(&mut self, request: &str, answer: &Decision) -> Result<Vec<u8>, AnswerError> {
        let pending = self.asks.get(request).ok_or_else(|| AnswerError::NoSuchRequest(request.to_owned()))?;
        let result = permission::answer(&self.setup, pending, answer)?;
        match result.outcome {
            // As `sent` would take it: it ends with the turn.
            RequestPermissionOutcome::Cancelled => self.asks.voided(request),
            _ => self.asks.answered(request),
        }
        let mut bytes = Style::Marked.result(request, &result);
        if matches!(answer, Decision::Deny { interrupt: true, .. }) {
            bytes.extend(self.interrupt().unwrap_or_default());
        }
        Ok(bytes)
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        let session: SessionId = self.opening.session().filter(|_| self.running())?.clone();
        let mut bytes = Style::Marked.notification(METHODS.session_cancel, &CancelNotification::new(session));
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
            Some(Message::Response { id, result }) => {
                match result.ok().and_then(|result| json::part(&result, "outcome")) {
                    Some(RequestPermissionOutcome::Cancelled) => self.asks.voided(&id),
                    _ => self.asks.answered(&id),
                }
            }
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

fn content(blocks: &[Block]) -> Vec<ContentBlock> {
    let block = |block: &Block| match block {
        Block::Text { text } => text.as_str().into(),
        Block::Image { mime, data } => ContentBlock::Image(ImageContent::new(data, mime)),
        Block::File { path } => {
            let name = path.rsplit('/').next().unwrap_or(path);
            ContentBlock::ResourceLink(ResourceLink::new(name, format!("file://{path}")))
        }
    };
    blocks.iter().map(block).collect()
}

/// What a turn used: a draft of the protocol has a place for it, and gemini one of its own.
fn usage(result: &Json) -> Option<Event> {
    if let Some(used) = json::at(result, &["_meta", "quota", "token_count"]) {
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
