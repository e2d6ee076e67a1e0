//! Append-only truth about what a process said.
//!
//! # Theory of operation
//! A hosted process has a directory of plain files. `out` and `err` hold the raw bytes and nothing else, so that the
//! length of a file is the number of bytes ever taken from its pipe; `idx` cuts them into frames of at most 32 KiB,
//! one 32-byte record each; `in` is what was accepted for its stdin; `ctl` holds the few facts that are none of these.
//! A pump thread moves bytes from pipe to file with `splice`, which either happened or did not when the daemon is
//! killed, then writes the record, and only then is the frame visible. A reader is a [`Cursor`], never a queue.
//!
//! Stdin goes the other way: accepted bytes are appended to `in`, whose length is the answer to "how much did you
//! accept", and a splice through a file description shared with the keeper delivers them, so that the kernel remembers
//! how much was delivered.
//!
//! What an agent's output means is derived from it line by line into an [`EventJournal`], where a tail without a record
//! is not indexed but cut, and derived again.
//!
//! # Never
//! A byte that is shown before it is in a file; an indexed frame that changes; a reader that makes a pump wait; a pump
//! that runs on an asynchronous worker.
//!
//! # Promises
//! Survives SIGKILL of the daemon always; survives power loss up to the last group sync. Flipped bits in an index
//! record are noticed (a 16-bit check in each); flipped bits inside raw output are not.
//!
//! The program must ignore SIGPIPE (Rust programs do): a child may close its stdin at any time.

#[cfg(not(target_os = "linux"))]
compile_error!("ostler needs Linux: the journal is built on splice");

mod derived;
mod floor;
mod index;
mod probe;
mod pump;
mod raw;
mod roll;
mod sync;
mod sys;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use derived::{ENGINE, EventBounds, EventCursor, EventHead, EventJournal, EventStep, PAYLOAD_MAX};
pub use floor::Space;
pub use probe::{FsKind, Probe, probe};
pub use pump::{
    AppendDone, Appended, DuplicateDone, Guest, Hold, HoldDone, Hosted, PumpConfig, PumpIo, PumpPty, Pumps, StdinError,
};
pub use raw::{
    Answers, Bounds, Cursor, EndOnRoll, ExitRecord, FrameHead, HeldBack, HeldReason, Journal, JournalOptions, Kind,
    LineStart, Missing, OpenError, Step, Subscription, Wake, disk_usage,
};
pub use roll::{Listed, Roll};

/// 32 KiB: the frame size clients rely on.
pub const FRAME_MAX: usize = 32 * 1024;

/// A lock whose holder panicked is still a lock: every critical section here leaves its data whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
