//! Where a session stands: the sum of its journal, and nothing else.
//! A pure fold: the same records in the same order always give the same state, whoever reads them.

use std::borrow::Cow;
use std::collections::VecDeque;

use ostler_story::{
    Asked, Block, Created, Decision, Drive, EndReason, ErrorKind, Event, Fact, Intent, Lifetime, Limit, Said, Settings,
};
use serde::{Deserialize, Serialize};

use super::spent::Meter;

/// Keys of prompts that are known again: more than a client that lost its answer sends again.
const KEYS: usize = 1024;
/// An error's words are for a list: the whole is in the journal.
const WHY_MAX: usize = 500;
/// Answers that may be on their way to an agent at once: more than one that waits for them asks.
const GIVEN: usize = 64;

/// Limits of use that are remembered: agents have two or three.
const LIMITS: usize = 16;

/// Why a turn is over, or has not begun.
pub(super) const REBOOTED: &str = "ended by a restart of the machine";

/// Where a session stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing runs.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for somebody's answer.
    Waiting,
    /// The last turn was stopped, or its agent is gone.
    Interrupted,
    /// The last turn failed.
    Failed,
    /// It takes no more prompts.
    Closed,
}

/// A prompt that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) blocks: Vec<Block>,
}

/// The turn that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) prompt: Queued,
    /// The record at which it began.
    #[serde(default)]
    pub(super) began: u64,
    /// The process that has the prompt, and the bytes.
    pub(super) sent: Option<(u32, Intent)>,
    /// Somebody wants it to stop; `true`: by ending its process.
    pub(super) interrupt: Option<bool>,
    /// The agent said that it is over; its process may not be.
    pub(super) ended: bool,
}

/// An agent's process that is not known to be over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Living {
    pub(super) source: u32,
    pub(super) drive: Drive,
    pub(super) resume: Option<String>,
    pub(super) settings: Settings,
    /// It can not go on, by its own words.
    #[serde(default)]
    pub(super) broken: bool,
    /// The settings have changed since it was started.
    #[serde(default)]
    pub(super) stale: bool,
    /// When it was given its last prompt, in clock ticks since boot; nothing if it never had one.
    #[serde(default)]
    pub(super) prompted: Option<u64>,
    /// How far its stderr was told.
    #[serde(default)]
    pub(super) stderr: u64,
}

/// A request of the agent that it still waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Open {
    pub(super) source: u32,
    /// Where the line that asked ended, and which of its events it was: never the same twice.
    pub(super) asked_at: (u64, usize),
    pub(super) asked: Asked,
    /// The inbox's id, once it has it.
    pub(super) approval: Option<String>,
}

/// An answer that was handed over lately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) source: u32,
    pub(super) request: String,
    pub(super) approval: String,
    pub(super) answer: Decision,
    pub(super) intent: Intent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) created: Created,
    pub(super) created_ms: u64,
    pub(super) activity_ms: u64,
    pub(super) settings: Settings,
    pub(super) reported_model: Option<String>,
    /// What the agent calls the conversation.
    #[serde(default)]
    pub(super) title: Option<String>,
    /// The limits of use that it told of, one of each name.
    #[serde(default)]
    pub(super) limits: Vec<Limit>,
    pub(super) prompts: u64,
    /// Newest last: a key, its prompt, and the record that accepted it.
    pub(super) keys: VecDeque<(String, u64, u64)>,
    pub(super) queue: VecDeque<Queued>,
    pub(super) turn: Option<Turn>,
    /// Processes that were ever begun.
    pub(super) sources: u32,
    pub(super) living: Option<Living>,
    pub(super) asks: Vec<Open>,
    /// Newest last: a daemon that died may not have come to writing them.
    pub(super) given: VecDeque<Given>,
    /// How the last turn ended.
    pub(super) outcome: Option<(EndReason, Option<String>)>,
    /// The last turn broke off although nobody wanted it to stop.
    #[serde(default)]
    pub(super) broke_off: bool,
    /// Whether somebody stopped that turn.
    #[serde(default)]
    pub(super) stopped: bool,
    /// Whether it failed because nobody is logged in.
    #[serde(default)]
    pub(super) logged_out: bool,
    /// A conversation that the agent did not know any more.
    pub(super) lost: Option<String>,
    pub(super) closed: bool,
    /// The machine was restarted, and nobody has said anything since.
    #[serde(default)]
    pub(super) held: bool,
    /// Screens of the agent's own that were ever opened, and the one that has the conversation.
    #[serde(default)]
    pub(super) screens: u32,
    #[serde(default)]
    pub(super) screen: Option<u32>,
    /// What was used.
    pub(super) meter: Meter,
}

impl State {
    /// The state after the first record of a journal.
    pub(super) fn begin(created: Created, time_ms: u64) -> Self {
        Self {
            settings: created.settings.clone(),
            created,
            created_ms: time_ms,
            activity_ms: time_ms,
            reported_model: None,
            title: None,
            limits: Vec::new(),
            prompts: 0,
            keys: VecDeque::new(),
            queue: VecDeque::new(),
            turn: None,
            sources: 0,
            living: None,
            asks: Vec::new(),
            given: VecDeque::new(),
            outcome: None,
            broke_off: false,
            stopped: false,
            logged_out: false,
            lost: None,
            closed: false,
            held: false,
            screens: 0,
            screen: None,
            meter: Meter::default(),
        }
    }

    /// In one word.
    pub(super) fn status(&self) -> Status {
        match (&self.turn, &self.outcome) {
            _ if self.closed => Status::Closed,
            _ if self.is_held() => Status::Interrupted,
            (Some(_), _) if !self.asks.is_empty() => Status::Waiting,
            (Some(_), _) => Status::Running,
            (None, Some((EndReason::Interrupted, _))) => Status::Interrupted,
            (None, Some((EndReason::Failed, _))) => Status::Failed,
            (None, _) => Status::Idle,
        }
    }

    /// Why the last turn failed, or stopped by itself.
    pub(super) fn why(&self) -> Option<String> {
        if self.is_held() {
            return Some(REBOOTED.to_owned());
        }
        let told = matches!(self.status(), Status::Failed | Status::Interrupted);
        self.outcome.as_ref().filter(|_| told).and_then(|(_, why)| why.clone())
    }

    /// Whether a prompt would have to wait.
    pub(super) fn is_busy(&self) -> bool {
        self.turn.is_some() || !self.queue.is_empty()
    }

    /// Whether a thread has something to do for it.
    pub(super) fn has_work(&self) -> bool {
        (self.is_busy() && !self.held) || self.living.is_some()
    }

    /// Whether something waits for a person because the machine was restarted.
    pub(super) fn is_held(&self) -> bool {
        self.held && self.is_busy() && self.living.is_none()
    }

    /// Bytes that wait in the queue.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queue.iter().map(|queued| size(&queued.blocks)).sum()
    }

    /// Adds a record.
    pub(super) fn take(&mut self, record: u64, source: u32, src_end: u64, time_ms: u64, said: &[Said]) {
        // A number that was used is never given again, even where the record that gave it is damaged.
        self.sources = self.sources.max(source);
        for (index, one) in said.iter().enumerate() {
            match one {
                Said::Fact(fact) => self.fact(record, fact),
                Said::Event(event) => self.event(source, (src_end, index), event),
            }
        }
        self.activity_ms = self.activity_ms.max(time_ms);
    }

    fn fact(&mut self, record: u64, fact: &Fact) {
        match fact {
            Fact::Created(_) => {}
            Fact::Approval { request, source, approval } => {
                let mut asks = self.asks.iter_mut();
                if let Some(open) = asks.find(|open| open.asked.request == *request && open.source == *source) {
                    open.approval = Some(approval.clone());
                }
            }
            Fact::Answered { request, source, approval, decision, intent, .. } => {
                self.asks.retain(|open| open.asked.request != *request || open.source != *source);
                let (request, approval, answer) = (request.clone(), approval.clone(), decision.clone());
                self.given.push_back(Given { source: *source, request, approval, answer, intent: *intent });
                self.given.drain(..self.given.len().saturating_sub(GIVEN));
            }
            Fact::Prompt { number, key, blocks, .. } => {
                self.held = false;
                self.prompts = self.prompts.max(*number);
                self.queue.push_back(Queued { number: *number, blocks: blocks.clone() });
                if let Some(key) = key {
                    self.keys.push_back((key.clone(), *number, record));
                    self.keys.drain(..self.keys.len().saturating_sub(KEYS));
                }
            }
            Fact::Reworded { number, text } => {
                if let Some(queued) = self.queue.iter_mut().find(|queued| queued.number == *number) {
                    queued.blocks = Block::reworded(std::mem::take(&mut queued.blocks), text.clone());
                }
            }
            Fact::Dropped { number, .. } => self.queue.retain(|queued| queued.number != *number),
            Fact::Turn { number } => self.begin_turn(record, *number),
            Fact::Process { source, drive, resume, settings } => {
                self.sources = self.sources.max(*source);
                let (resume, settings) = (resume.clone(), settings.clone());
                let (broken, stale, prompted, stderr) = (false, false, None, 0);
                self.living =
                    Some(Living { source: *source, drive: *drive, resume, settings, broken, stale, prompted, stderr });
            }
            Fact::Sent { number, source, intent, ticks } => {
                // It waits no more, even where the record that began its turn is damaged: nothing is said to an agent twice.
                self.begin_turn(record, *number);
                self.sources = self.sources.max(*source);
                if let Some(living) = self.living.as_mut().filter(|living| living.source == *source) {
                    // A record that does not say when: nothing is known to have begun since.
                    living.prompted = Some(ticks.unwrap_or(u64::MAX));
                }
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.prompt.number == *number) {
                    turn.sent = Some((*source, *intent));
                }
            }
            Fact::Interrupt { number, end_process } => {
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.prompt.number == *number) {
                    turn.interrupt = Some(*end_process || turn.interrupt == Some(true));
                }
            }
            Fact::Changed { settings } => {
                let before = std::mem::replace(&mut self.settings, settings.clone());
                if before.model != settings.model {
                    // Nobody has said yet what runs from now on.
                    self.reported_model = None;
                }
                let named = Settings { name: settings.name.clone(), ..before };
                if let Some(living) = self.living.as_mut().filter(|_| named != *settings) {
                    living.stale = true;
                }
            }
            Fact::Stderr { source, to, .. } => {
                if let Some(living) = self.living.as_mut().filter(|living| living.source == *source) {
                    living.stderr = living.stderr.max(*to);
                }
            }
            Fact::Exited { source, .. } => {
                self.asks.retain(|open| open.source != *source);
                self.given.clear();
                if self.living.as_ref().is_some_and(|living| living.source == *source) {
                    self.living = None;
                }
                if self.turn.as_ref().is_some_and(|turn| turn.ended) {
                    self.turn = None;
                }
            }
            Fact::Said { event } => self.event(0, (0, 0), event),
            Fact::Held {} => self.held = true,
            Fact::Released {} => self.held = false,
            Fact::Screen { number } => {
                self.screens = self.screens.max(*number);
                self.screen = Some(*number);
            }
            Fact::ScreenEnded { number, .. } => self.screen = self.screen.filter(|open| open != number),
            Fact::Closed {} => self.closed = true,
        }
    }

    /// The turn of a prompt that waits begins.
    fn begin_turn(&mut self, record: u64, number: u64) {
        self.prompts = self.prompts.max(number);
        if let Some(at) = self.queue.iter().position(|queued| queued.number == number)
            && let Some(prompt) = self.queue.remove(at)
        {
            self.turn = Some(Turn { prompt, began: record, sent: None, interrupt: None, ended: false });
            self.outcome = None;
            (self.stopped, self.logged_out) = (false, false);
            self.meter.begin();
        }
    }

    fn event(&mut self, source: u32, asked_at: (u64, usize), event: &Event) {
        match event {
            Event::Started { agent_session, model } => {
                if let Some(id) = agent_session {
                    self.settings.agent_session = Some(id.clone());
                }
                if model.is_some() {
                    self.reported_model.clone_from(model);
                }
            }
            Event::Asked(asked) => {
                self.asks.retain(|open| open.source != source || open.asked.request != asked.request);
                self.asks.push(Open { source, asked_at, asked: asked.clone(), approval: None });
            }
            Event::Unasked { request } => {
                self.asks.retain(|open| open.source != source || open.asked.request != *request);
            }
            Event::Usage(usage) => self.meter.take(usage),
            Event::Title { title } => self.title = Some(title.chars().take(WHY_MAX).collect()),
            Event::Limit(limit) => {
                self.limits.retain(|known| known.name != limit.name);
                if self.limits.len() < LIMITS {
                    self.limits.push(limit.clone());
                }
            }
            Event::TurnEnded { reason, message } => self.turn_ended(*reason, message.clone()),
            Event::Error { message, fatal, kind } => {
                if *fatal && let Some(living) = self.living.as_mut().filter(|living| living.source == source) {
                    living.broken = true;
                }
                if *kind == ErrorKind::Resume {
                    self.lost = self.settings.agent_session.take();
                }
                self.logged_out |= *kind == ErrorKind::Login;
                if *fatal || self.turn.is_some() {
                    let why = message.chars().take(WHY_MAX).collect();
                    self.outcome = Some((EndReason::Failed, Some(why)));
                }
            }
            _ => {}
        }
    }

    /// The events, with what the turn cost where the agent only counts on.
    pub(super) fn priced<'a>(&self, events: &'a [Event]) -> Cow<'a, [Event]> {
        let resumed = self.living.as_ref().is_some_and(|living| living.resume.is_some());
        self.meter.priced(events, resumed)
    }

    fn turn_ended(&mut self, reason: EndReason, message: Option<String>) {
        self.asks.clear();
        let stopped = self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_some());
        self.stopped = stopped;
        // What fails because somebody stopped it was stopped.
        let reason = if stopped && reason == EndReason::Failed { EndReason::Interrupted } else { reason };
        let message = message.or_else(|| self.outcome.take().and_then(|(_, why)| why));
        self.broke_off = reason == EndReason::Interrupted && !stopped && message.is_some();
        self.outcome = Some((reason, message));
        let lasts = self.lifetime() == Lifetime::Turn && self.living.is_some();
        match &mut self.turn {
            Some(turn) if lasts => turn.ended = true,
            turn => *turn = None,
        }
    }

    /// How long the living process lives, or the next one will.
    pub(super) fn lifetime(&self) -> Lifetime {
        match &self.living {
            Some(Living { drive: Drive::Oneshot, .. }) => Lifetime::Turn,
            Some(living) => living.settings.lifetime,
            None => self.settings.lifetime,
        }
    }
}

/// The bytes of a prompt.
pub(super) fn size(blocks: &[Block]) -> usize {
    let of = |block: &Block| match block {
        Block::Text { text } => text.len(),
        Block::Image { mime, data } => mime.len() + data.len(),
        Block::File { path } => path.len(),
    };
    blocks.iter().map(of).sum()
}
