//! One connection's place in the feed, and the lines that are made of what follows it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use ostler_api::Timestamp;
use ostler_door_rpc::LineSource;
use ostler_engine::approval::AskKind;
use ostler_engine::feed::{Change, Filter, Kind, Opened, Position};
use ostler_engine::session::EventStep;
use ostler_engine::{EventCursor, MayWait, Subscription, Wake};
use serde_json::Value;

use super::gate::HELD_FOR;
use super::position::{At, Gap, before};
use super::session::SessionEvents;
use super::{Event, workspace};
use crate::connection::Connection;
use crate::{DoorState, notify};

/// Bytes that are made at once: a few writes of the socket.
const ENOUGH: usize = 128 * 1024;
/// Entries that are looked through at once: of what nobody wants, nothing is written.
const LOOK_THROUGH: usize = 4096;
/// Sessions whose story is remembered; another is read back when it is needed again.
const SESSIONS: usize = 32;

/// A place in the feed.
pub(crate) struct Follower {
    state: Arc<DoorState>,
    connection: Arc<Connection>,
    feed: Option<Reading>,
    wake: Option<Arc<dyn Wake>>,
    sessions: HashMap<String, SessionEvents>,
    /// Changes of the entry that is being told.
    changes: VecDeque<Change>,
    /// Events of the first record that were told before.
    skip: usize,
    /// The last that was told.
    at: At,
}

struct Reading {
    cursor: EventCursor,
    /// How much of its first entry was told.
    told: Option<(u64, u64)>,
    subscription: Option<Subscription>,
}

impl LineSource for Follower {
    fn has_more(&mut self) -> bool {
        let events = &self.connection.events;
        if self.feed.is_none() || events.wants_elsewhere() || events.has_notices() {
            return true;
        }
        if events.is_held() {
            return false;
        }
        let Some(reading) = &self.feed else { return true };
        // Before the look: what comes after it rings.
        if let Some(subscription) = &reading.subscription {
            subscription.arm();
        }
        let feed = reading.cursor.position() < reading.cursor.journal().bounds().last;
        feed || !self.changes.is_empty() || self.connection.transcripts.is_due()
    }

    fn read(&mut self, wait: &MayWait, lines: &mut Vec<u8>) -> io::Result<()> {
        if let Some(at) = self.connection.events.take_seek() {
            self.open(wait, Some(at), lines)?;
        } else if self.feed.is_none() {
            self.open(wait, None, lines)?;
        }
        for event in self.connection.events.take_notices() {
            self.push(event, Timestamp::now(), self.at, lines);
        }
        if self.connection.events.is_held() {
            return Ok(());
        }
        for (event, time) in self.connection.transcripts.read(wait, &self.state) {
            self.push(event, time, self.at, lines);
        }
        let mut looked = 0;
        while lines.len() < ENOUGH && looked < LOOK_THROUGH {
            looked += 1;
            match self.changes.pop_front() {
                Some(change) => self.tell(wait, change, lines)?,
                None if self.entry(lines)? => {}
                None => break,
            }
        }
        Ok(())
    }

    fn begin(&mut self, wake: Arc<dyn Wake>) -> Option<Subscription> {
        self.connection.events.begin(Arc::clone(&wake));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let wake = Arc::downgrade(&wake);
            runtime.spawn(async move {
                tokio::time::sleep(HELD_FOR).await;
                if let Some(wake) = wake.upgrade() {
                    wake.wake();
                }
            });
        }
        self.wake = Some(wake);
        None
    }
}

impl Follower {
    /// A follower of everything that comes from now on, until it is told where to go on.
    pub(crate) fn new(state: Arc<DoorState>, connection: Arc<Connection>) -> Self {
        Self {
            state,
            connection,
            feed: None,
            wake: None,
            sessions: HashMap::new(),
            changes: VecDeque::new(),
            skip: 0,
            at: At { record: Position::default(), told: None },
        }
    }

    fn open(&mut self, wait: &MayWait, at: Option<At>, lines: &mut Vec<u8>) -> io::Result<()> {
        let feed = self.state.engine.feed();
        let at = match at {
            Some(at) => at,
            None => At { record: feed.newest(wait)?, told: None },
        };
        let asked = feed.read_after(wait, at.record)?;
        let (opened, skip) = match (asked.gap, at.told) {
            (None, Some(_)) => {
                let (from, skip) = at.begin();
                (feed.read_after(wait, from)?, skip)
            }
            _ => (asked, 0),
        };
        let Opened { cursor, told, gap, first, .. } = opened;
        let subscription = self.wake.as_ref().map(|wake| cursor.journal().subscribe(Arc::clone(wake)));
        self.feed = Some(Reading { cursor, told, subscription });
        self.changes.clear();
        (self.skip, self.at) = (skip, at);
        if let Some(missing) = gap {
            self.gap(Gap::of(missing, before(first)), lines);
        }
        Ok(())
    }

    fn gap(&mut self, Gap { reason, oldest }: Gap, lines: &mut Vec<u8>) {
        let gap = Event::new("events_gap", serde_json::json!({ "reason": reason, "oldest": oldest }));
        self.push(gap, Timestamp::now(), self.at, lines);
    }

    /// Takes the next entry up; `false` if there is none.
    fn entry(&mut self, lines: &mut Vec<u8>) -> io::Result<bool> {
        let Some(reading) = &mut self.feed else { return Ok(false) };
        let mut payload = Vec::new();
        match reading.cursor.next_blocking(&mut payload)? {
            EventStep::Event(head) => {
                let workspace = self.state.settings.repo.clone();
                let filter = Filter { workspace, ..Filter::default() };
                self.changes.extend(self.state.engine.feed().changes(&head, &payload, reading.told, &filter));
                Ok(true)
            }
            EventStep::Gap { missing, first } => {
                self.gap(Gap::of(missing, before(first)), lines);
                Ok(true)
            }
            EventStep::UpToDate | EventStep::WouldBlock => Ok(false),
        }
    }

    fn tell(&mut self, wait: &MayWait, change: Change, lines: &mut Vec<u8>) -> io::Result<()> {
        match (&change.happened, change.session.clone(), change.records) {
            (Some(happened), _, _) => {
                let folder = change.workspace.clone().unwrap_or_default();
                let at = At { record: change.position, told: None };
                self.skip = 0;
                if let Some(event) = workspace::event(wait, &self.state, &folder.0, happened) {
                    self.push(event, Timestamp::from_nanos(change.time_ns), at, lines);
                }
                Ok(())
            }
            (None, Some(session), Some(records)) if is_of_session(&change) => {
                self.records(wait, change, &session, records, lines)
            }
            (None, None, _) if change.kind == Kind::ApprovalAsked => {
                self.command(wait, &change, lines);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A command that waits for a person, and is no agent's.
    fn command(&mut self, wait: &MayWait, change: &Change, lines: &mut Vec<u8>) {
        let Some(id) = &change.approval else { return };
        let Some(approval) = self.state.engine.inbox().get(wait, id).ok().flatten() else { return };
        if approval.ask.kind == AskKind::Command {
            let members = serde_json::json!({
                "tool_use_id": crate::permission::own_id(id),
                "approval_id": id,
                "tool_name": "command",
                "input": approval.ask.content,
                "description": approval.ask.title,
            });
            let at = At { record: change.position, told: None };
            self.skip = 0;
            let time = Timestamp::from_nanos(change.time_ns);
            self.push(Event::new("claude_permission", members), time, at, lines);
        }
    }

    /// Tells records of a session, as many as fit; the rest waits.
    fn records(
        &mut self,
        wait: &MayWait,
        mut change: Change,
        id: &str,
        (from, to): (u64, u64),
        lines: &mut Vec<u8>,
    ) -> io::Result<()> {
        // What is deleted has nothing more to say.
        let Some(session) = self.state.engine.sessions().get(id) else { return Ok(()) };
        let mut of_session = match self.sessions.remove(id).filter(|of_session| of_session.next == from) {
            Some(of_session) => of_session,
            None => SessionEvents::open(wait, session, from)?,
        };
        let mut cursor = of_session.session.events(wait, from - 1)?;
        let (mut payload, mut done) = (Vec::new(), from - 1);
        while done < to && lines.len() < ENOUGH {
            payload.clear();
            match cursor.next_blocking(&mut payload)? {
                EventStep::Event(head) if head.record > to => break,
                EventStep::Event(head) => {
                    done = head.record;
                    let events = of_session.take(wait, &head, &payload);
                    let (count, skip) = (events.len(), std::mem::take(&mut self.skip));
                    let time = Timestamp::from_nanos(head.time_ns);
                    for (index, mut event) in events.into_iter().enumerate().skip(skip) {
                        let at = At::within(change.position_of(head.record), index, count);
                        of_session.whose.put(&mut event);
                        self.push(event, time, at, lines);
                    }
                }
                EventStep::Gap { missing, first } => {
                    done = first - 1;
                    self.gap(Gap::of(missing, change.position_of(done)), lines);
                }
                EventStep::UpToDate | EventStep::WouldBlock => break,
            }
        }
        if self.sessions.len() >= SESSIONS {
            self.sessions.clear();
        }
        let full = lines.len() >= ENOUGH;
        self.sessions.insert(id.to_owned(), of_session);
        if done < to && full {
            change.records = Some((done + 1, to));
            self.changes.push_front(change);
        }
        Ok(())
    }

    /// Writes an event, if this client wants it.
    fn push(&mut self, mut event: Event, time: Timestamp, at: At, lines: &mut Vec<u8>) {
        self.at = at;
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let wanted = self.connection.wanted();
        if !wanted.event(event.kind) || !wanted.about(text("session_id"), text("workspace_id")) {
            return;
        }
        drop(wanted);
        event.payload.insert("position".into(), at.to_string().into());
        notify::push(lines, event.kind, time, &event.payload);
    }
}

/// Whether a change is told by records of a session's journal.
fn is_of_session(change: &Change) -> bool {
    change.process.is_none() && change.approval.is_none() && change.device.is_none() && change.workspace.is_none()
}
