//! A place in a journal, of a process or of a session: the connection reads both the same way, with the same fairness, and
//! never waits for a disk itself.

use std::io;
use std::sync::Arc;

use ostler_engine::{Cursor, EventCursor, EventHead, EventStep, FrameHead, Missing, Step, Subscription, Wake};

/// Where a watch stands.
pub(crate) enum Reader {
    /// In the output of a process.
    Output(Cursor),
    /// In the events of a session.
    Events(EventCursor),
}

/// What a reader came upon.
pub(crate) enum Found {
    Frame(FrameHead),
    Record(EventHead),
    /// Something before this number is missing.
    Gap(u64, Missing),
    UpToDate,
    /// It is on the disk only: to be read where waiting harms nobody.
    WouldBlock,
}

impl Reader {
    /// The next thing, its bytes appended to `buffer`; never waits.
    pub(crate) fn try_next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Found> {
        match self {
            Self::Output(cursor) => cursor.try_next(buffer).map(Found::from),
            Self::Events(cursor) => cursor.try_next(buffer).map(Found::from),
        }
    }

    /// As `try_next`, but waits for the disk.
    pub(crate) fn next_blocking(&mut self, buffer: &mut Vec<u8>) -> io::Result<Found> {
        match self {
            Self::Output(cursor) => cursor.next_blocking(buffer).map(Found::from),
            Self::Events(cursor) => cursor.next_blocking(buffer).map(Found::from),
        }
    }

    pub(crate) fn subscribe(&self, wake: Arc<dyn Wake>) -> Subscription {
        match self {
            Self::Output(cursor) => cursor.journal().subscribe(wake),
            Self::Events(cursor) => cursor.journal().subscribe(wake),
        }
    }
}

impl From<Step> for Found {
    fn from(step: Step) -> Self {
        match step {
            Step::Frame(head) => Self::Frame(head),
            Step::Gap { first_seq, missing } => Self::Gap(first_seq, missing),
            Step::UpToDate => Self::UpToDate,
            Step::WouldBlock => Self::WouldBlock,
        }
    }
}

impl From<EventStep> for Found {
    fn from(step: EventStep) -> Self {
        match step {
            EventStep::Event(head) => Self::Record(head),
            EventStep::Gap { first, missing } => Self::Gap(first, missing),
            EventStep::UpToDate => Self::UpToDate,
            EventStep::WouldBlock => Self::WouldBlock,
        }
    }
}
