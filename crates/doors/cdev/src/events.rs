//! Events: what happens, told to every connection that wants it, in the feed's order and with its positions.
//!
//! # Theory of operation
//! A connection has one [`Follower`], a place in the feed. It is read only while the socket takes more, on a thread that may wait:
//! the feed says which records are new, the session's journal says what they are, and the raw journal has the lines. So a phone
//! that sleeps costs a socket and a number, and loses nothing. Whoever comes back names the position of the last event that it
//! has seen; what can no longer be told is said to be missing.
//!
//! What one record becomes is decided by that record and those before it ([`session`]), never by who listens or since when: a
//! position in the middle of a record means the same to everybody.

mod follower;
mod gate;
mod line;
mod position;
mod session;
mod transcripts;
mod workspace;

pub(crate) use follower::Follower;
pub(crate) use gate::Gate;
pub(crate) use position::{ResumeParams, Resumed, SubscribeParams, Subscribed, resume, subscribe};
pub(crate) use transcripts::Transcripts;

use serde_json::{Map, Value};

/// An event, before it has a position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    pub(crate) payload: Map<String, Value>,
}

impl Event {
    /// An event with these members; anything but an object has none.
    pub(crate) fn new(kind: &'static str, payload: Value) -> Self {
        let payload = if let Value::Object(payload) = payload { payload } else { Map::new() };
        Self { kind, payload }
    }
}
