//! What doors that speak in lines share: lines in, replies and stream frames out, over one bounded connection, whatever
//! carries it.
//!
//! # Theory of operation
//! A connection is one task. It reads lines and hands them to its door's [`Session`]; the session answers at once, or
//! starts work whose answer comes later. Output of processes and events of sessions are not queued: each [`Watch`] is a place
//! in a journal, and what follows is read and encoded only while the socket takes it. A reader that stops costs its own buffers and nothing
//! else. A reply can be made to wait for a frame (a *barrier*): reattach answers after its replay, a kill after the exit.
//! Two things may be written by another thread while the task rests: the end of a process, by the thread that journals it, and
//! the only answer that is waited for, by the thread that has it.
//!
//! Of protocols this crate knows only what all have in common, the outside of JSON-RPC (`jsonrpc`): what a line means and how a
//! frame is written is the session's.

mod accept;
mod called;
mod connection;
mod connection_slots;
mod delivery;
mod fitting;
mod inline_task;
mod jsonrpc;
mod line;
mod listen;
mod nudge;
mod outbox;
mod payload;
mod reader;
mod share;
mod signal;
mod slots;
mod socket;
mod transport;
mod watch;

pub use accept::{Listener, accept_each};
pub use called::called;
pub use connection::{InputLimits, Limits, serve, serve_over};
pub use fitting::{escaped, fitting, fitting_pieces};
pub use jsonrpc::{Envelope, Form, Head, NotAMessage, RpcError, batch, notify, notify_of, request};
pub use line::{LineBuffer, TooLong};
pub use listen::{Bound, Occupant, bind, connect, connect_within, is_ours, look};
pub use nudge::Nudge;
pub use outbox::{After, Later, Outbox};
pub use payload::{NotBase64, decode_base64, push_base64};
pub use reader::LineSource;
pub use share::{Share, Shares};
pub use slots::{Slot, Slots};
pub use transport::{Arrival, Transport, TryWrite};
pub use watch::Watch;

pub use ostler_story::{is_hidden, is_plain};

use ostler_engine::{EventHead, FrameHead, Missing};

/// What a session wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// More lines.
    Continue,
    /// Nothing more: close without waiting for anybody.
    Close,
    /// The same, once what is ready was offered to the socket.
    Farewell,
}

/// A door's side of one connection.
pub trait Session: Send {
    /// What a watch is remembered by, and what its frames are written with.
    type Tag: Send;

    /// The connection is there; nothing was said yet.
    fn opened(&mut self, _out: &mut Outbox<Self::Tag>) {}

    /// Somebody rang ([`Outbox::nudge`]): what the door has published since is looked at, and what this client wants of it
    /// written. Several rings are one.
    fn nudged(&mut self, _out: &mut Outbox<Self::Tag>) -> Flow {
        Flow::Continue
    }

    /// One line from the client, without its newline.
    fn line(&mut self, line: &[u8], out: &mut Outbox<Self::Tag>) -> Flow;

    /// A line was longer than allowed; what is said here is the last that the client may hear.
    fn too_long(&mut self, _out: &mut Vec<u8>) {}

    /// Writes one frame. `false` ends the watch: this was the last frame that the client may see.
    fn frame(&mut self, _tag: &Self::Tag, _head: &FrameHead, _data: &[u8], _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Writes one record of a session: nothing, one or several JSON objects on lines. `false` ends the watch.
    fn record(&mut self, _tag: &Self::Tag, _head: &EventHead, _data: &[u8], _out: &mut Vec<u8>) -> bool {
        false
    }

    /// Something before `first_seq` cannot be read. Not every protocol has a word for that.
    fn gap(&mut self, _tag: &Self::Tag, _first_seq: u64, _missing: Missing, _out: &mut Vec<u8>) {}

    /// The journal cannot be read any further; the watch ends.
    fn lost(&mut self, _tag: &Self::Tag, _error: &std::io::Error, _out: &mut Vec<u8>) {}

    /// Whether a watch ends without a word when the process's alias goes to a newer one: clients that know processes by
    /// alias must not hear of the old one again.
    fn leaves_superseded(&self) -> bool {
        true
    }
}
