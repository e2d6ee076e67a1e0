//! The threads that move bytes between children and journals.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::raw::{ExitStatusRecord, Journal};

/// Settings of the pumps.
#[derive(Clone, Debug)]
pub struct PumpConfig {
    /// Threads that serve all processes; at least two.
    pub threads: usize,
    /// Threads a heavy stream may have of its own, together.
    pub heavy_threads: usize,
    /// How often dirty files are synced; zero = never.
    pub sync_every: Duration,
    /// Undelivered stdin per process before the writer waits.
    pub spool_cap: u64,
    /// Writers that may wait per process.
    pub spool_waiters: usize,
    /// Below this much free space the largest writer is held back; zero = never.
    pub floor_bytes: u64,
    /// The same as a share of the file system, in percent; the larger one counts.
    pub floor_percent: u8,
    /// How long after the child's exit open pipes may delay the exit record.
    pub exit_grace: Duration,
}

impl Default for PumpConfig {
    fn default() -> Self {
        Self {
            threads: 2,
            heavy_threads: 4,
            sync_every: Duration::from_millis(200),
            spool_cap: 8 << 20,
            spool_waiters: 1024,
            floor_bytes: 1 << 30,
            floor_percent: 5,
            exit_grace: Duration::from_secs(5),
        }
    }
}

/// A terminal and the keeper-held pipe its output goes through.
pub struct PumpPty {
    /// Our side of the terminal.
    pub master: OwnedFd,
    /// Read end of the relay pipe.
    pub relay_read: OwnedFd,
    /// Write end of the relay pipe.
    pub relay_write: OwnedFd,
}

/// The daemon's ends of a child's stdio. All non-blocking.
#[derive(Default)]
pub struct PumpIo {
    /// Read end of its stdout.
    pub stdout: Option<OwnedFd>,
    /// Read end of its stderr.
    pub stderr: Option<OwnedFd>,
    /// Write end of its stdin.
    pub stdin: Option<OwnedFd>,
    /// The description of `in` that the keeper shares (its position = bytes delivered).
    pub ledger: Option<OwnedFd>,
    /// The terminal instead of pipes.
    pub pty: Option<PumpPty>,
}

/// Stdin was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Bytes ever accepted.
    pub applied: u64,
    /// All of it had been accepted before.
    pub duplicate: bool,
}

/// Stdin was not accepted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StdinError {
    /// The offset is ahead of what was accepted.
    #[error("offset ahead of the {applied} bytes accepted; send again from there")]
    Gap {
        /// Bytes ever accepted.
        applied: u64,
    },
    /// The process has ended.
    #[error("the process is not running")]
    NotRunning,
    /// Stdin was closed before.
    #[error("stdin was closed")]
    Closed,
    /// Too many writers wait already.
    #[error("too much input waits already; wait for the answers")]
    Busy,
    /// The ledger cannot be written.
    #[error("cannot write the stdin ledger: {0}")]
    Io(Arc<io::Error>),
}

/// Called once with the outcome, on a pump thread; must not block.
pub type AppendDone = Box<dyn FnOnce(Result<Appended, StdinError>) + Send>;

/// The pump threads.
pub struct Pumps {}

impl Pumps {
    /// Starts the threads.
    pub fn start(_config: PumpConfig) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {}))
    }

    /// Takes over the stdio of a process. `resumed`: it was hosted before (by a daemon that died).
    pub fn host(self: &Arc<Self>, _journal: Arc<Journal>, _io: PumpIo, _resumed: bool) -> Hosted {
        Hosted {}
    }

    /// Age of the oldest byte that was not synced yet.
    pub fn oldest_unsynced(&self) -> Duration {
        Duration::ZERO
    }
}

/// A process whose stdio is pumped. Every verb is a message to its pump thread and returns at once.
#[derive(Clone)]
pub struct Hosted {}

impl Hosted {
    /// Accepts stdin at `offset` (`None` = at the end); `done` may come later, when the spool has room.
    pub fn append_stdin(&self, _offset: Option<i64>, _data: Vec<u8>, done: AppendDone) {
        done(Err(StdinError::NotRunning));
    }

    /// Closes stdin after everything accepted so far was delivered.
    pub fn close_stdin(&self, done: AppendDone) {
        done(Err(StdinError::NotRunning));
    }

    /// Sets what is called (once) when stdin was closed here, so that the keeper closes its copy too.
    pub fn on_close_stdin(&self, _callback: Box<dyn FnOnce() + Send>) {}

    /// The keeper reaped the child.
    pub fn child_exited(&self, _status: ExitStatusRecord) {}

    /// Drops every descriptor without an exit record (abandon).
    pub fn release(&self) {}
}
