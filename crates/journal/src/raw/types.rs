//! What a journal says about itself.

use std::io;
use std::time::Duration;

use ostler_story::Exit;

/// Which stream a frame belongs to, or that it is the exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of stdout (or of the terminal).
    Stdout,
    /// Bytes of stderr.
    Stderr,
    /// The end of the process; no bytes.
    Exit,
}

/// The exit as journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// Its sequence number.
    pub seq: u64,
    /// How it ended.
    pub how: Exit,
    /// When it was journaled (nanoseconds since the epoch).
    pub time_ns: u64,
}

impl From<FrameHead> for ExitRecord {
    fn from(frame: FrameHead) -> Self {
        Self { seq: frame.seq, how: frame.exit.unwrap_or(Exit::Unknown), time_ns: frame.time_ns }
    }
}

/// Why nothing is being taken from the child at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldReason {
    /// No space left.
    Full,
    /// Quota exhausted.
    Quota,
    /// The disk reports errors.
    Disk,
    /// Free space is below the floor and this process writes the most.
    Floor,
}

/// The child's output is held back: it waits in the pipe, nothing is lost, and it goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Why.
    pub reason: HeldReason,
    /// The error number the system gave; 0 for the floor.
    pub errno: i32,
    /// Since when (nanoseconds since the epoch).
    pub since_ns: u64,
}

/// What a journal holds at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First frame still kept; 1 until something was cut (also when there is no frame yet).
    pub first_seq: u64,
    /// Last visible frame; 0 = none yet.
    pub last_seq: u64,
    /// Bytes of stdout indexed.
    pub out_end: u64,
    /// Bytes of stderr indexed.
    pub err_end: u64,
    /// Bytes ever accepted for stdin.
    pub applied: u64,
    /// So many of them answered a question to the terminal, and are nobody's input.
    pub answered: u64,
    /// The exit, once journaled.
    pub exit: Option<ExitRecord>,
    /// Set while output is held back.
    pub held_back: Option<HeldBack>,
    /// First frame that may not survive a power loss although it was synced, or that is unreadable.
    pub damaged_from: Option<u64>,
    /// What the process wrote after this frame was lost with everybody who held its pipes.
    pub lost_after: Option<u64>,
}

impl Bounds {
    /// Bytes that somebody sent for stdin: what senders' places count.
    pub fn sent(&self) -> u64 {
        self.applied.saturating_sub(self.answered)
    }
}

/// Questions of a program to its terminal that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// How many.
    pub count: u32,
    /// Where in its output the last of them ends.
    pub upto: u64,
}

/// Options of a journal.
#[derive(Clone, Debug, Default)]
pub struct JournalOptions {
    /// Keep at most about this many bytes of output; older frames are cut while the process lives.
    pub live_max: Option<u64>,
    /// Keep delivered stdin instead of punching it out (needed where state is derived from it).
    pub keep_stdin: bool,
    /// How long after the child's exit open pipes may delay the exit record, if not as long as for everybody.
    pub exit_grace: Option<Duration>,
}

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none.
    #[error("no journal here")]
    NotFound,
    /// Creation was cut short; it never held anything.
    #[error("the journal was never finished being created, and holds nothing")]
    Unfinished,
    /// Written by a newer ostler. Nothing was changed.
    #[error("the journal has format {found}, this ostler knows up to {ours}; use a newer ostler (nothing was changed)")]
    Version {
        /// Its format.
        found: u32,
        /// The newest we know.
        ours: u32,
    },
    /// It cannot be trusted. Nothing was changed.
    #[error("the journal is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// The operating system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Head of a frame; the bytes are in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Sequence number, from 1.
    pub seq: u64,
    /// What it is.
    pub kind: Kind,
    /// When it was journaled (nanoseconds since the epoch).
    pub time_ns: u64,
    /// Where its bytes begin in their stream.
    pub from: u64,
    /// Bytes appended to the buffer.
    pub len: usize,
    /// Of the end of the process: how it ended.
    pub exit: Option<Exit>,
    /// Came after the exit record (something else kept the pipe open).
    pub late: bool,
}

/// Why something that was said cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Retention let it go.
    LetGo,
    /// Its record in the index is damaged.
    Damaged,
    /// It was in a pipe that nobody held any more: from here on nothing was written down.
    Lost,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LetGo => "it is no longer kept",
            Self::Damaged => "the index is damaged",
            Self::Lost => "it was lost when all of ostler was killed at once",
        })
    }
}

/// What a cursor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next frame.
    Frame(FrameHead),
    /// Nothing new yet.
    UpToDate,
    /// Something is missing here; the cursor now stands before `first_seq`.
    Gap {
        /// The frame that comes next.
        first_seq: u64,
        /// What became of what is missing.
        missing: Missing,
    },
    /// The bytes are not in memory: call `next_blocking` on a thread that may block.
    WouldBlock,
}
