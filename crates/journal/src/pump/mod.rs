//! The threads that move bytes between children and journals. Dedicated, never asynchronous workers: the disk may make
//! them wait. A process is served by exactly one of them at a time; a heavy one is given a thread of its own.

mod feed;
mod hosted;
mod lane;
mod ledger;
mod load;
mod output;
mod poller;
mod stdin;
mod thread;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::derived::EventJournal;
use crate::floor::Floor;
use crate::lock;
use crate::raw::Journal;
use crate::roll::Roll;
use crate::sync::{self, Sync};
pub use hosted::{AppendDone, DuplicateDone, Hold, HoldDone, Hosted};
pub(crate) use hosted::{HostedState, Message};
use lane::Lane;
pub use thread::Guest;
use thread::{Notice, ThreadHandle};

/// Settings of the pumps.
#[derive(Clone, Debug)]
pub struct PumpConfig {
    /// Threads that serve all processes; at least two.
    pub threads: usize,
    /// Threads a heavy stream may have of its own, together.
    pub heavy_threads: usize,
    /// Bytes per second from which on a process is given one of them.
    pub heavy_rate: u64,
    /// How often dirty files are synced; zero = never.
    pub sync_every: Duration,
    /// Undelivered stdin per process before the writer waits.
    pub spool_cap: u64,
    /// Writers that may wait for that, per process.
    pub spool_waiters: usize,
    /// Below this much free space the largest writer is held back; zero = never.
    pub floor_bytes: u64,
    /// The same as a share of the file system, in percent; the smaller one counts.
    pub floor_percent: u8,
    /// How long after the child's exit open pipes may delay the exit record.
    pub exit_grace: Duration,
}

impl Default for PumpConfig {
    fn default() -> Self {
        Self {
            threads: 2,
            heavy_threads: 4,
            heavy_rate: 64 << 20,
            sync_every: Duration::from_millis(200),
            spool_cap: 8 << 20,
            spool_waiters: 8192,
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
    /// Has the keeper share one that is made later, with the first byte of input.
    pub hold: Option<Hold>,
    /// The terminal instead of pipes.
    pub pty: Option<PumpPty>,
    /// What [`Journal::relays`] gave, for the pipes that are here; empty for none.
    pub relays: Vec<OwnedFd>,
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

/// Threads for journals whose files may stall, all of them together: a server that stalls stalls all its files alike.
const REMOTE_THREADS: usize = 2;

/// What all pump threads share.
pub(crate) struct Core {
    config: PumpConfig,
    sync: Arc<Sync>,
    /// Of journals whose files may stall: what waits for a server keeps nothing else from the disk.
    remote_sync: Arc<Sync>,
    base: Mutex<Vec<Arc<ThreadHandle>>>,
    /// Serves processes that have said and heard nothing yet, and guests: it is never kept by anybody's files.
    quiet: Mutex<Option<Arc<ThreadHandle>>>,
    /// Serve journals whose files may stall, and nobody else; started with the first of them.
    remote: Mutex<Vec<Arc<ThreadHandle>>>,
    next_base: AtomicUsize,
    heavy: Mutex<Vec<Heavy>>,
    joins: Mutex<Vec<JoinHandle<()>>>,
    sync_joins: Mutex<Vec<JoinHandle<()>>>,
}

struct Heavy {
    thread: Arc<ThreadHandle>,
    busy: bool,
}

impl Core {
    /// One of the threads that serve everybody, in turn.
    fn base_thread(&self) -> Option<Arc<ThreadHandle>> {
        self.in_turn(&lock(&self.base))
    }

    fn in_turn(&self, threads: &[Arc<ThreadHandle>]) -> Option<Arc<ThreadHandle>> {
        let turn = self.next_base.fetch_add(1, Ordering::Relaxed);
        threads.get(turn.checked_rem(threads.len())?).cloned()
    }

    /// One of the threads that serve journals which may stall. Without a thread to be had: one of everybody's.
    fn remote_thread(self: &Arc<Self>) -> Option<Arc<ThreadHandle>> {
        let mut threads = lock(&self.remote);
        if threads.is_empty() {
            // As many as the system allows.
            let _ = self.start_remote(&mut threads);
        }
        if threads.is_empty() {
            return self.base_thread();
        }
        self.in_turn(&threads)
    }

    fn start_remote(self: &Arc<Self>, threads: &mut Vec<Arc<ThreadHandle>>) -> io::Result<()> {
        let core = Arc::clone(self);
        let (every, floor) = (self.config.sync_every, Floor::new(&self.config));
        let join = std::thread::Builder::new()
            .name("journal-sync-r".into())
            .spawn(move || sync::run(&core.remote_sync, every, floor))?;
        lock(&self.sync_joins).push(join);
        for number in 0..REMOTE_THREADS {
            let (thread, join) = thread::start(format!("pump-remote-{number}"), Arc::clone(self))?;
            lock(&self.joins).push(join);
            threads.push(thread);
        }
        Ok(())
    }

    /// Who syncs this process's journal.
    fn sync_of(&self, shared: &HostedState) -> &Sync {
        if shared.journal.is_remote() { &self.remote_sync } else { &self.sync }
    }

    /// A thread for one heavy process; started when needed, kept afterwards. `None`: there are enough.
    fn heavy_claim(self: &Arc<Self>) -> Option<Arc<ThreadHandle>> {
        let mut heavy = lock(&self.heavy);
        if let Some(free) = heavy.iter_mut().find(|slot| !slot.busy) {
            free.busy = true;
            return Some(Arc::clone(&free.thread));
        }
        if heavy.len() >= self.config.heavy_threads {
            return None;
        }
        let name = format!("pump-heavy-{}", heavy.len());
        let (thread, join) = thread::start(name, Arc::clone(self)).ok()?;
        lock(&self.joins).push(join);
        heavy.push(Heavy { thread: Arc::clone(&thread), busy: true });
        Some(thread)
    }

    fn heavy_free(&self, thread: &Arc<ThreadHandle>) {
        for slot in lock(&self.heavy).iter_mut() {
            slot.busy &= !Arc::ptr_eq(&slot.thread, thread);
        }
    }
}

/// The pump threads and the sync thread. Dropping it stops them; children and pipes are the keeper's and live on.
pub struct Pumps {
    core: Arc<Core>,
    next_id: AtomicU64,
}

impl Pumps {
    /// Starts the threads.
    pub fn start(config: PumpConfig) -> io::Result<Arc<Self>> {
        let floor = Floor::new(&config);
        let (threads, every) = (config.threads.max(2), config.sync_every);
        let core = Arc::new(Core {
            config,
            sync: Arc::default(),
            remote_sync: Arc::default(),
            base: Mutex::default(),
            quiet: Mutex::default(),
            remote: Mutex::default(),
            next_base: AtomicUsize::new(0),
            heavy: Mutex::default(),
            joins: Mutex::default(),
            sync_joins: Mutex::default(),
        });
        // From here on a failure stops what was started.
        let pumps = Arc::new(Self { core: Arc::clone(&core), next_id: AtomicU64::new(1) });
        for number in 0..threads {
            let (thread, join) = thread::start(format!("pump-{number}"), Arc::clone(&core))?;
            lock(&core.joins).push(join);
            lock(&core.base).push(thread);
        }
        let (quiet, join) = thread::start("pump-quiet".into(), Arc::clone(&core))?;
        lock(&core.joins).push(join);
        *lock(&core.quiet) = Some(quiet);
        let syncing = Arc::clone(&core);
        let join = std::thread::Builder::new()
            .name("journal-sync".into())
            .spawn(move || sync::run(&syncing.sync, every, floor))?;
        lock(&core.sync_joins).push(join);
        Ok(pumps)
    }

    /// Takes over the stdio of a process. `resumed`: a daemon that died hosted it before; what it left gathered or
    /// undelivered goes on from there.
    pub fn host(self: &Arc<Self>, journal: Arc<Journal>, io: PumpIo, resumed: bool) -> Hosted {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let quiet = !journal.is_made();
        let thread = match quiet {
            true => lock(&self.core.quiet).clone(),
            false if journal.is_remote() => self.core.remote_thread(),
            false => self.core.base_thread(),
        };
        let shared = Arc::new(HostedState::new(id, journal, thread.clone(), &self.core.config));
        let lane = Box::new(Lane::new(Arc::clone(&shared), Arc::clone(&self.core), io, resumed, quiet));
        if let Some(thread) = thread {
            thread.notify(Notice::Arrive(lane));
        }
        Hosted { shared }
    }

    /// Serves a guest from now on, on the thread of those who have said nothing yet.
    pub fn attend(&self, guest: Box<dyn Guest>) {
        if let Some(quiet) = &*lock(&self.core.quiet) {
            quiet.notify(Notice::Guest(guest));
        }
    }

    /// Has an event journal synced together with the raw journals from now on.
    pub fn keep_synced(&self, journal: &Arc<EventJournal>) {
        if journal.is_remote() && self.core.remote_thread().is_some() && !lock(&self.core.remote).is_empty() {
            journal.sync_with(&self.core.remote_sync);
        } else {
            journal.sync_with(&self.core.sync);
        }
    }

    /// Has a roll synced together with the journals from now on.
    pub fn keep_roll_synced(&self, roll: &Arc<Roll>) {
        roll.sync_with(&self.core.sync);
    }

    /// Age of the oldest byte that was not synced yet.
    pub fn oldest_unsynced(&self) -> Duration {
        self.core.sync.oldest().max(self.core.remote_sync.oldest())
    }

    /// Syncs everything that is dirty now; returns when it is on the disk.
    pub fn sync_now(&self) {
        self.core.sync.sync_now();
        if !lock(&self.core.remote).is_empty() {
            self.core.remote_sync.sync_now();
        }
    }
}

impl Drop for Pumps {
    fn drop(&mut self) {
        for thread in lock(&self.core.base).iter() {
            thread.notify(Notice::Stop);
        }
        for thread in lock(&self.core.quiet).iter().chain(lock(&self.core.remote).iter()) {
            thread.notify(Notice::Stop);
        }
        for heavy in lock(&self.core.heavy).iter() {
            heavy.thread.notify(Notice::Stop);
        }
        let pumps = std::mem::take(&mut *lock(&self.core.joins));
        pumps.into_iter().for_each(join);
        // Last, so that what the pumps did last is synced too.
        self.core.sync.stop();
        self.core.remote_sync.stop();
        let syncs = std::mem::take(&mut *lock(&self.core.sync_joins));
        syncs.into_iter().for_each(join);
    }
}

/// Waits for a thread to end, unless it is the one that asks (a callback dropped the last handle).
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}
