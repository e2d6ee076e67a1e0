//! The journal of one process generation.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

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

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatusRecord {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Nobody was there to see it.
    Unknown,
}

/// The exit as journaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// Its sequence number.
    pub seq: u64,
    /// Exit code, or the signal's number when `signal` is set.
    pub code: i32,
    /// Ended by a signal.
    pub signal: bool,
    /// Nobody saw the status.
    pub unknown: bool,
    /// When it was journaled (nanoseconds since the epoch).
    pub time_ns: u64,
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
    /// The exit, once journaled.
    pub exit: Option<ExitRecord>,
    /// Set while output is held back.
    pub held_back: Option<HeldBack>,
    /// First frame that may not survive a power loss although it was synced, or that is unreadable.
    pub damaged_from: Option<u64>,
}

/// Options of a journal.
#[derive(Clone, Debug, Default)]
pub struct JournalOptions {
    /// Keep at most about this many bytes of output; older frames are cut while the process lives.
    pub live_max: Option<u64>,
    /// Keep delivered stdin instead of punching it out (needed where state is derived from it).
    pub keep_stdin: bool,
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
    #[error(
        "the journal has format {found}, this ostler knows up to {ours}; use a newer ostler (nothing was changed)"
    )]
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

/// Told by a pump thread that something new is visible. Must be cheap and must not block.
pub trait Wake: Send + Sync {
    /// Something is visible that was not before.
    fn wake(&self);
}

/// One subscriber of a journal; dropping it unsubscribes.
///
/// A wake comes once per [`arm`](Self::arm): arm, read with a cursor until `UpToDate`, sleep until woken, repeat.
/// Whatever becomes visible after `arm` wakes, so nothing is missed; a busy reader is not woken for every frame.
pub struct Subscription {}

impl Subscription {
    /// Asks for one wake at the next change (frames, exit, held back, damage). A new subscription is armed.
    pub fn arm(&self) {}
}

/// The journal of one process generation.
pub struct Journal {}

impl Journal {
    /// Creates a journal in `dir` (made, 0700; files 0600).
    pub fn create(dir: &Path) -> io::Result<Arc<Self>> {
        Self::create_with(dir, JournalOptions::default())
    }

    /// As [`create`](Self::create), with options.
    pub fn create_with(_dir: &Path, _options: JournalOptions) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens and recovers.
    pub fn open(dir: &Path) -> Result<Arc<Self>, OpenError> {
        Self::open_with(dir, JournalOptions::default())
    }

    /// As [`open`](Self::open), with options.
    pub fn open_with(_dir: &Path, _options: JournalOptions) -> Result<Arc<Self>, OpenError> {
        Err(OpenError::NotFound)
    }

    /// A journal in memory files, for private processes.
    pub fn in_memory(_options: JournalOptions) -> io::Result<Arc<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The memory files of an in-memory journal, for the keeper to hold; empty for one on disk.
    pub fn held(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    /// Reopens an in-memory journal from what [`held`](Self::held) gave, and recovers.
    pub fn from_held(_fds: Vec<OwnedFd>, _options: JournalOptions) -> Result<Arc<Self>, OpenError> {
        Err(OpenError::NotFound)
    }

    /// A fresh read-only description of `in`, at position 0, for the keeper to hold (its position is shared).
    pub fn ledger_reader(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What it holds at the moment. Cheap.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            first_seq: 1,
            last_seq: 0,
            out_end: 0,
            err_end: 0,
            applied: 0,
            exit: None,
            held_back: None,
            damaged_from: None,
        }
    }

    /// Subscribes.
    pub fn subscribe(&self, _wake: Arc<dyn Wake>) -> Subscription {
        Subscription {}
    }

    /// Journals the exit of a process that nobody hosts (found dead at start). Does nothing if there is one.
    pub fn record_exit(&self, _status: ExitStatusRecord) -> io::Result<()> {
        Ok(())
    }

    /// Closes the files until the next use; an exited process then costs no descriptor.
    pub fn close_files(&self) {}

    /// Cuts every frame before `seq` and gives its space back. May block on the disk.
    pub fn cut_before(&self, _seq: u64) -> io::Result<()> {
        Ok(())
    }
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
    /// Bytes appended to the buffer.
    pub len: usize,
    /// Exit: code, or the signal's number.
    pub code: i32,
    /// Exit: ended by a signal.
    pub signal: bool,
    /// Exit: nobody saw the status.
    pub unknown: bool,
    /// Came after the exit record (something else kept the pipe open).
    pub late: bool,
}

/// What a cursor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next frame.
    Frame(FrameHead),
    /// Nothing new yet.
    UpToDate,
    /// Frames were cut; the cursor now stands before `first_seq`.
    Gap {
        /// The first frame still kept.
        first_seq: u64,
    },
    /// The bytes are not in memory: call `next_blocking` on a thread that may block.
    WouldBlock,
}

/// A reader's place in a journal.
pub struct Cursor {}

impl Cursor {
    /// Stands after frame `after_seq` (0 = before the first).
    pub fn new(_journal: Arc<Journal>, _after_seq: u64) -> Self {
        Self {}
    }

    /// The frame it stands after.
    pub fn position(&self) -> u64 {
        0
    }

    /// The next frame, its bytes appended to `buf`; never blocks.
    pub fn try_next(&mut self, _buf: &mut Vec<u8>) -> io::Result<Step> {
        Ok(Step::UpToDate)
    }

    /// As [`try_next`](Self::try_next), but waits for the disk; never answers `WouldBlock`.
    pub fn next_blocking(&mut self, _buf: &mut Vec<u8>) -> io::Result<Step> {
        Ok(Step::UpToDate)
    }
}
