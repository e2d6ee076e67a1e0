//! What the records of one session become: the one place where a session's story is put into this protocol's events. A record
//! gives the same events to everybody, in the same number, whoever reads it and whenever.

use std::collections::HashMap;

use ostler_api::Timestamp;
use ostler_engine::session::{ClaudeLine, EventHead, EventStep, claude_line};
use ostler_engine::{MayWait, Process, Session};
use ostler_story::{
    Agent, Ask, Asked, Block, EndReason, Ended, Event as Told, Exit, Fact, Lifetime, Message, Piece, Said, Stop, Story,
    Why, said,
};
use serde_json::{Value, json};

use super::{Event, line};
use crate::permission;

/// Records before the first one that are folded without being told: what a turn is about stands at its beginning.
const LOOK_BACK: u64 = 1024;
/// What stands at the end of the offsets of a process: its adapter said it when the output broke off.
const AT_END: u64 = u64::MAX;
const MILLION: u64 = 1_000_000;
/// As much of a prompt as an event repeats.
const PROMPT_MAX: usize = 16 * 1024;

pub(super) struct SessionEvents {
    pub(super) session: Session,
    agent: Agent,
    story: Story,
    /// The record that comes next.
    pub(super) next: u64,
    /// Where the last line of each process ended.
    ends: HashMap<u32, u64>,
    prompt: Option<String>,
    began: Option<Timestamp>,
    source: Option<u32>,
    /// Whether a process lives, and with it the turn: nothing where its beginning was not seen.
    living: Option<Lifetime>,
    /// How the turn ended whose process has not.
    ended: Option<Box<Ended>>,
    /// How the process ended whose turn has not.
    exit: Option<Exit>,
    /// Requests that wait for an answer.
    open: Vec<OpenRequest>,
    /// Bytes of a process that were read ahead: which, and from where.
    ahead: (u32, u64, Vec<u8>),
    /// Whose it is, as clients know it.
    pub(super) whose: Whose,
}

/// A request that was told, and the id that clients know it by.
struct OpenRequest {
    approval: String,
    id: String,
}

/// As much of the raw output as is read at once.
const READ_AHEAD: u64 = 256 * 1024;

/// What goes with every event of a session.
pub(super) struct Whose {
    session: Value,
    agent: Value,
    workspace: Value,
}

impl Whose {
    fn of(session: &Session) -> Self {
        let view = session.view();
        Self {
            session: crate::agent::id_of(&view).into(),
            agent: view.agent.name().into(),
            workspace: crate::place::id_of(&view.workspace).into(),
        }
    }

    pub(super) fn put(&self, event: &mut Event) {
        let payload = &mut event.payload;
        payload.entry("session_id").or_insert_with(|| self.session.clone());
        payload.entry("agent_type").or_insert_with(|| self.agent.clone());
        payload.entry("workspace_id").or_insert_with(|| self.workspace.clone());
    }
}

impl SessionEvents {
    /// The events of a session from this record on.
    pub(super) fn open(wait: &MayWait, session: Session, from: u64) -> std::io::Result<Self> {
        let view = session.view();
        let mut of_session = Self {
            agent: view.agent,
            ahead: (0, 0, Vec::new()),
            whose: Whose::of(&session),
            session,
            story: Story::default(),
            next: from.saturating_sub(LOOK_BACK).max(1),
            ends: HashMap::new(),
            prompt: None,
            began: None,
            source: None,
            living: None,
            ended: None,
            exit: None,
            open: Vec::new(),
        };
        let mut cursor = of_session.session.events(wait, of_session.next - 1)?;
        let mut payload = Vec::new();
        while cursor.position() + 1 < from {
            payload.clear();
            match cursor.next_blocking(&mut payload)? {
                EventStep::Event(head) => {
                    of_session.note_end(&head);
                    for said in said(head.source, &payload) {
                        of_session.fold(&head, said);
                    }
                }
                EventStep::Gap { .. } => {}
                EventStep::UpToDate | EventStep::WouldBlock => break,
            }
        }
        of_session.next = from;
        Ok(of_session)
    }

    /// What a record becomes.
    pub(super) fn take(&mut self, wait: &MayWait, head: &EventHead, payload: &[u8]) -> Vec<Event> {
        self.next = head.record + 1;
        let all = said(head.source, payload);
        let mut events = Vec::new();
        let line = self.line(wait, head);
        let spoken = line.as_deref().filter(|_| self.agent == Agent::Claude).and_then(claude_line);
        if let Some(line) = &line {
            let told = match &spoken {
                Some(said) => said.message.clone(),
                None if self.agent == Agent::Claude => None,
                None => Message::of_record(head.record, head.time_ns / MILLION, &all),
            };
            events.push(line::log(line, spoken.as_ref(), told.as_ref(), &self.whose.session));
            events.extend(told.as_ref().and_then(|message| line::message(message, spoken.as_ref())));
        }
        if all.iter().any(|said| matches!(said, Said::Event(Told::Started { .. }))) {
            self.whose = Whose::of(&self.session);
        }
        for said in all {
            events.extend(self.info(&said, spoken.as_ref()));
            events.extend(self.stderr(wait, &said));
            events.extend(self.fold(head, said));
        }
        events
    }

    fn note_end(&mut self, head: &EventHead) {
        if head.source > 0 && head.src_end != AT_END {
            self.ends.insert(head.source, head.src_end);
        }
    }

    /// The raw line behind a record, if there is one. One that is no longer kept is told as an empty one.
    fn line(&mut self, wait: &MayWait, head: &EventHead) -> Option<Vec<u8>> {
        let is_line = head.source > 0 && head.src_end != AT_END && head.src_end > 0;
        let before = self.ends.get(&head.source).copied();
        self.note_end(head);
        if !is_line {
            return None;
        }
        let ahead = before.and_then(|from| self.ahead(wait, head.source, from, head.src_end));
        Some(match ahead {
            Some(line) => line,
            None => self.session.line_at(wait, head.source, before, head.src_end).unwrap_or_default(),
        })
    }

    /// A line out of what was read ahead, which goes on from it where it must.
    fn ahead(&mut self, wait: &MayWait, source: u32, from: u64, end: u64) -> Option<Vec<u8>> {
        let holds = |(known, start, bytes): &(u32, u64, Vec<u8>)| {
            *known == source && *start <= from && end <= start + bytes.len() as u64
        };
        if !holds(&self.ahead) {
            let written = self.session.process(source)?.bounds().out_end;
            let to = (from + READ_AHEAD).min(written);
            self.ahead = (source, from, self.session.raw(wait, source, from, to)?);
        }
        let (_, start, bytes) = Some(&self.ahead).filter(|ahead| holds(ahead))?;
        let place = |at: u64| usize::try_from(at - start).ok();
        let line = bytes.get(place(from)?..place(end)?)?;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
    }

    /// `claude_session_info`: the conversation is open.
    fn info(&self, said: &Said, line: Option<&ClaudeLine>) -> Option<Event> {
        let Said::Event(Told::Started { agent_session: Some(id), model }) = said else { return None };
        let version = line.and_then(|line| line.version.clone());
        // What claude says is its own to say; of the others, clients know the session by our name for it.
        let session = if self.agent == Agent::Claude { id.clone().into() } else { self.whose.session.clone() };
        let info = json!({"session_id": session, "agent_session_id": id, "model": model, "version": version});
        Some(Event::new("claude_session_info", info))
    }

    fn stderr(&self, wait: &MayWait, said: &Said) -> Vec<Event> {
        let Said::Fact(Fact::Stderr { source, from, to }) = said else { return Vec::new() };
        let bytes = self.session.raw_stderr(wait, *source, *from, *to).unwrap_or_default();
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n');
        lines.map(|line| line::stderr(line.strip_suffix(b"\r").unwrap_or(line))).collect()
    }

    /// Takes one object of a record into the story, and tells what follows from it.
    fn fold(&mut self, head: &EventHead, said: Said) -> Vec<Event> {
        let mut events = Vec::new();
        let time = Timestamp::from_nanos(head.time_ns);
        let exited = match &said {
            Said::Fact(Fact::Exited { source, exit, stderr }) => Some((*source, *exit, stderr.clone())),
            _ => None,
        };
        match &said {
            Said::Fact(Fact::Process { source, settings, drive, .. }) => {
                let once = *drive == ostler_story::Drive::Oneshot;
                self.living = Some(if once { Lifetime::Turn } else { settings.lifetime });
                self.source = Some(*source);
            }
            Said::Fact(Fact::Sent { source, .. }) => {
                (self.source, self.ended, self.began) = (Some(*source), None, Some(time));
                self.open.clear();
                events.push(self.status("running"));
            }
            Said::Fact(Fact::Closed {}) => events.push(Event::new("session_stopped", json!({"reason": "closed"}))),
            _ => {}
        }
        for piece in self.story.take(said, head.src_end == AT_END) {
            self.piece(piece, &mut events);
        }
        if let Some((source, exit, stderr)) = exited {
            self.exited(source, exit, &stderr, &mut events);
        }
        events
    }

    fn piece(&mut self, piece: Piece, events: &mut Vec<Event>) {
        match piece {
            Piece::Begun { prompt, .. } => {
                self.prompt = prompt.map(|prompt| words(&prompt.blocks));
                (self.ended, self.exit) = (None, None);
            }
            Piece::Waits { approval, asked: Some(asked) } => {
                events.push(request(&approval, &asked));
                self.open.push(OpenRequest { id: permission::id_of(&approval, &asked), approval });
                events.push(self.status("waiting"));
            }
            Piece::Answered { approval, decision, by } => {
                let word = if decision.is_yes() { "allow" } else { "deny" };
                events.push(self.resolved(&approval, word, &by.to_string()));
                events.push(self.status(if self.open.is_empty() { "running" } else { "waiting" }));
            }
            Piece::TakenBack { approval: Some(approval), .. } => {
                events.push(self.resolved(&approval, "withdrawn", "agent"));
            }
            Piece::Ended(ended) => {
                self.open.clear();
                // Where a process lives for the turn, its end is the turn's.
                match self.living {
                    Some(Lifetime::Turn) => self.ended = Some(ended),
                    _ => {
                        let exit = self.exit.take();
                        events.push(self.over(&ended, exit, ""));
                    }
                }
            }
            _ => {}
        }
    }

    /// The process is gone, and with it the turn that it served.
    fn exited(&mut self, source: u32, exit: Exit, stderr: &str, events: &mut Vec<Event>) {
        let living = self.living.take();
        if let Some(ended) = self.ended.take() {
            events.push(self.over(&ended, Some(exit), stderr));
        } else if living.is_some() {
            self.exit = Some(exit);
        } else if self.source.is_none_or(|known| known == source) {
            // Its beginning was not seen, and so not how its turn ended.
            let state = if exit.code() == Some(0) { "idle" } else { "stopped" };
            let mut event = self.status(state);
            event.payload.insert("exit_code".into(), json!(exit.code()));
            events.push(event);
        }
    }

    fn over(&self, ended: &Ended, exit: Option<Exit>, stderr: &str) -> Event {
        let exit = exit.or(match &ended.why {
            Some(Why::Exited { exit, .. }) => Some(*exit),
            _ => None,
        });
        let stopped = ended.stopped == Some(Stop::Interrupted) || ended.stopped == Some(Stop::Closed);
        let code = exit.and_then(Exit::code);
        let state = match ended.reason {
            _ if stopped && ended.is_unhappy() => "stopped",
            // Nobody stopped it: it ended by itself, and told how.
            EndReason::Interrupted if exit.is_some_and(|exit| exit != Exit::Unknown) => "error",
            EndReason::Interrupted => "stopped",
            EndReason::Failed => "error",
            _ if code.is_some_and(|code| code != 0) => "error",
            _ => "idle",
        };
        let mut event = self.status(state);
        event.payload.insert("exit_code".into(), json!(code));
        let why = match (&ended.why, state) {
            (_, "idle" | "stopped") => None,
            (Some(Why::Told(words)), _) => Some(words.clone()),
            (Some(Why::Exited { told: Some(words), .. }), _) => Some(words.clone()),
            _ => ended.trouble.clone(),
        };
        let last = || Some(stderr.to_owned()).filter(|words| !words.is_empty());
        let said = why.or_else(last).or_else(|| code.map(|code| format!("exit code {code}")));
        event.payload.insert("error".into(), json!(said.filter(|_| state == "error")));
        event
    }

    fn status(&self, state: &str) -> Event {
        let process = self.source.and_then(|source| self.session.process(source));
        let started = self.began.map(|time| time.to_string());
        Event::new(
            "claude_status",
            json!({
                "state": state,
                "prompt": self.prompt,
                "pid": process.as_ref().map(Process::pid),
                "started_at": started,
                "error": Value::Null,
                "exit_code": Value::Null,
            }),
        )
    }

    /// A request is over: under the id that it was shown with, so that who shows it can take it away.
    fn resolved(&mut self, approval: &str, decision: &str, by: &str) -> Event {
        let place = self.open.iter().position(|open| open.approval == approval);
        let id = place.map_or_else(|| permission::own_id(approval), |place| self.open.remove(place).id);
        let ids = json!({"tool_use_id": id, "approval_id": approval, "decision": decision, "resolved_by": by});
        Event::new("claude_permission_resolved", ids)
    }
}

/// `claude_permission`, or `claude_waiting` for a question, whichever agent asks.
fn request(approval: &str, asked: &Asked) -> Event {
    let kind = if asked.ask == Ask::Question { "claude_waiting" } else { "claude_permission" };
    Event::new(
        kind,
        json!({
            "tool_use_id": permission::id_of(approval, asked),
            "approval_id": approval,
            "tool_name": permission::tool_of(asked),
            "input": permission::input_of(asked).to_string(),
            "description": permission::description(asked),
        }),
    )
}

/// The words of a prompt.
fn words(blocks: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    };
    let mut words = blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n");
    if words.len() > PROMPT_MAX {
        let end = (0..=PROMPT_MAX).rev().find(|at| words.is_char_boundary(*at)).unwrap_or(0);
        words.truncate(end);
    }
    words
}
