//! A reader of a session's journal that speaks this protocol. Everything here may wait for the disk.

use std::io;

use ostler_engine::MayWait;
use ostler_engine::session::{EventCursor, EventStep, Session};
use ostler_story::{Fact, Said, said};

use crate::event::Event;
use crate::translate::Translator;

/// Records that are looked at together on the way back to where a turn began.
const BLOCK: u64 = 64;
/// So many blocks at most: a reader that finds no beginning starts without one.
const BLOCKS: usize = 64;

/// A place in a session's journal, and what is known there.
pub(crate) struct Reader {
    session: Session,
    cursor: EventCursor,
    translator: Translator,
    /// Records up to here are read only to know what the later ones mean.
    after: u64,
    payload: Vec<u8>,
}

impl Reader {
    /// Reads what comes after a record at which a prompt was accepted, or any other where no turn runs.
    pub(crate) fn fresh(wait: &MayWait, session: &Session, after: u64) -> io::Result<Self> {
        Self::from(wait, session, after, after)
    }

    /// Reads what comes after this record, with what came before it in its turn in mind.
    pub(crate) fn after(wait: &MayWait, session: &Session, after: u64) -> io::Result<Self> {
        Self::from(wait, session, turn_before(wait, session, after)?, after)
    }

    fn from(wait: &MayWait, session: &Session, start: u64, after: u64) -> io::Result<Self> {
        let view = session.view();
        let translator = Translator::new(view.agent, view.agent_session);
        Ok(Self {
            cursor: session.events(wait, start)?,
            session: session.clone(),
            translator,
            after,
            payload: Vec::new(),
        })
    }

    /// The last record that was read.
    pub(crate) fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// The next record's number and its events, of which there may be none; nothing at the end.
    pub(crate) fn next(&mut self, wait: &MayWait) -> io::Result<Option<(u64, Vec<Event>)>> {
        loop {
            self.payload.clear();
            match self.cursor.next_blocking(&mut self.payload)? {
                EventStep::Event(head) => {
                    let session = &self.session;
                    let raw = |source, from, to| session.raw(wait, source, from, to);
                    let events = self.translator.record(head, &self.payload, &raw);
                    if head.record > self.after {
                        return Ok(Some((head.record, events)));
                    }
                }
                EventStep::Gap { .. } => {}
                EventStep::UpToDate | EventStep::WouldBlock => return Ok(None),
            }
        }
    }
}

/// The record before the one at which the turn began that `after` belongs to.
fn turn_before(wait: &MayWait, session: &Session, after: u64) -> io::Result<u64> {
    let mut end = after;
    for _ in 0..BLOCKS {
        let start = end.saturating_sub(BLOCK);
        let mut found = None;
        session.events(wait, start)?.read_upto(end, |head, payload| {
            let begins = |one: &Said| matches!(one, Said::Fact(Fact::Turn { .. }));
            if head.source == 0 && said(0, payload).iter().any(begins) {
                found = Some(head.record - 1);
            }
        })?;
        match found {
            Some(record) => return Ok(record),
            None if start == 0 => return Ok(0),
            None => end = start,
        }
    }
    Ok(end)
}
