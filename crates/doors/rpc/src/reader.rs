//! A place in a journal, of a process or of a session: the connection reads both the same way, with the same fairness, and
//! never waits for a disk itself.

use std::io;
use std::sync::Arc;

use ostler_engine::{Cursor, EventCursor, EventHead, EventStep, FrameHead, MayWait, Missing, Step, Subscription, Wake};

/// Lines that are made of what is in several journals, or in files of others, by whoever may wait for them. It is a place, as a
/// cursor is: what was not read yet costs nothing.
pub trait LineSource: Send + 'static {
    /// Whether there may be more. Never waits.
    fn has_more(&mut self) -> bool;

    /// Appends whole lines, not many more than fill a write. Nothing is appended when there is nothing yet.
    fn read(&mut self, wait: &MayWait, lines: &mut Vec<u8>) -> io::Result<()>;

    /// Has `wake` called when there may be more; what it returns is armed again before each look.
    fn begin(&mut self, wake: Arc<dyn Wake>) -> Option<Subscription>;
}

/// Where a watch stands.
pub(crate) enum Reader {
    /// In the output of a process.
    Output(Cursor),
    /// In the events of a session.
    Events(EventCursor),
    /// Wherever its lines come from.
    Lines(Box<dyn LineSource>),
}

/// What a reader came upon.
pub(crate) enum ReadStep {
    Frame(FrameHead),
    Record(EventHead),
    /// Lines, as they go out.
    Lines,
    /// Something before this number is missing.
    Gap(u64, Missing),
    UpToDate,
    /// It is on the disk only: to be read where waiting harms nobody.
    WouldBlock,
}

impl Reader {
    /// The next thing, its bytes appended to `buffer`; never waits.
    pub(crate) fn try_next(&mut self, buffer: &mut Vec<u8>) -> io::Result<ReadStep> {
        match self {
            Self::Output(cursor) => cursor.try_next(buffer).map(ReadStep::from),
            Self::Events(cursor) => cursor.try_next(buffer).map(ReadStep::from),
            Self::Lines(source) => Ok(if source.has_more() { ReadStep::WouldBlock } else { ReadStep::UpToDate }),
        }
    }

    /// As `try_next`, but waits for the disk.
    pub(crate) fn next_blocking(&mut self, wait: &MayWait, buffer: &mut Vec<u8>) -> io::Result<ReadStep> {
        match self {
            Self::Output(cursor) => cursor.next_blocking(buffer).map(ReadStep::from),
            Self::Events(cursor) => cursor.next_blocking(buffer).map(ReadStep::from),
            Self::Lines(source) => source.read(wait, buffer).map(|()| ReadStep::Lines),
        }
    }

    pub(crate) fn subscribe(&mut self, wake: Arc<dyn Wake>) -> Option<Subscription> {
        match self {
            Self::Output(cursor) => Some(cursor.journal().subscribe(wake)),
            Self::Events(cursor) => Some(cursor.journal().subscribe(wake)),
            Self::Lines(source) => source.begin(wake),
        }
    }
}

impl From<Step> for ReadStep {
    fn from(step: Step) -> Self {
        match step {
            Step::Frame(head) => Self::Frame(head),
            Step::Gap { first_seq, missing } => Self::Gap(first_seq, missing),
            Step::UpToDate => Self::UpToDate,
            Step::WouldBlock => Self::WouldBlock,
        }
    }
}

impl From<EventStep> for ReadStep {
    fn from(step: EventStep) -> Self {
        match step {
            EventStep::Event(head) => Self::Record(head),
            EventStep::Gap { first, missing } => Self::Gap(first, missing),
            EventStep::UpToDate => Self::UpToDate,
            EventStep::WouldBlock => Self::WouldBlock,
        }
    }
}
