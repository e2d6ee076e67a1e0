//! Append-only truth about what a process said.
//!
//! # Theory of operation
//! A hosted process has a directory of plain files. `out` and `err` hold the raw bytes and nothing else, so that the
//! length of a file is the number of bytes ever taken from its pipe; `idx` cuts them into frames of at most 32 KiB,
//! one 32-byte record each; `in` is what was accepted for its stdin; `ctl` holds the few facts that are none of these.
//! A pump thread moves bytes from pipe to file with `splice`, which either happened or did not when the daemon is
//! killed, then writes the record, and only then is the frame visible. A reader is a [`Cursor`], never a queue.
//!
//! Never: a byte that is shown before it is in a file; an indexed frame that changes; a reader that blocks.

mod pump;
mod raw;

pub use pump::{Appended, Hosted, PumpConfig, PumpIo, PumpPty, Pumps, StdinError};
pub use raw::{
    Bounds, Cursor, ExitRecord, ExitStatusRecord, FrameHead, HeldBack, HeldReason, Journal,
    JournalOptions, Kind, OpenError, Step, Subscription, Wake,
};

/// 32 KiB: the frame size clients rely on.
pub const FRAME_MAX: usize = 32 * 1024;
