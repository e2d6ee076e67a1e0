//! What an event journal says about itself.

use crate::raw::Missing;

/// What an event journal holds at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventBounds {
    /// First record still kept; 1 until something was cut (also when there is no record yet).
    pub first: u64,
    /// Last visible record; 0 = none yet.
    pub last: u64,
    /// First record that may not survive a power loss although it was synced, or that is unreadable.
    pub damaged_from: Option<u64>,
}

/// Head of a record; the payload is in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHead {
    /// Its number, from 1: the position of a reader that has read it.
    pub record: u64,
    /// Which agent process of the session it was derived from; 0 = said by the engine itself.
    pub source: u32,
    /// Raw offset after the line it was derived from.
    pub src_end: u64,
    /// When it was journaled (nanoseconds since the epoch).
    pub time_ns: u64,
    /// Bytes appended to the buffer.
    pub len: usize,
}

/// What an event cursor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStep {
    /// The next record.
    Event(EventHead),
    /// Nothing new yet.
    UpToDate,
    /// Records are missing; the cursor now stands before `first`.
    Gap {
        /// The next record that may be there.
        first: u64,
        /// Why.
        missing: Missing,
    },
    /// The bytes are not in memory: call `next_blocking` on a thread that may block.
    WouldBlock,
}
