//! What the door counts: numbers only, never content.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ostler_engine::{Engine, Process};

/// Counters since this daemon started. They never go down, so bytes of processes that have ended are kept here: retention
/// forgets those. What is said after an exit is in the journal and does not count.
pub struct Counters {
    engine: Engine,
    endpoint: String,
    connections: AtomicU64,
    spawns: AtomicU64,
    exits: AtomicU64,
    reattaches: AtomicU64,
    ended: Bytes,
    /// The most that was ever told: a process ends an instant before its bytes are among those of the ended.
    told: Bytes,
}

#[derive(Default)]
struct Bytes {
    streamed: AtomicU64,
    written: AtomicU64,
}

impl Counters {
    pub(crate) fn new(engine: Engine, endpoint: String) -> Self {
        Self {
            engine,
            endpoint,
            connections: AtomicU64::new(0),
            spawns: AtomicU64::new(0),
            exits: AtomicU64::new(0),
            reattaches: AtomicU64::new(0),
            ended: Bytes::default(),
            told: Bytes::default(),
        }
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn spawned(&self) {
        self.spawns.fetch_add(1, Relaxed);
    }

    pub(crate) fn exited(&self, process: &Process) {
        let (streamed, written) = bytes(process);
        self.ended.streamed.fetch_add(streamed, Relaxed);
        self.ended.written.fetch_add(written, Relaxed);
        self.exits.fetch_add(1, Relaxed);
    }

    pub(crate) fn reattached(&self) {
        self.reattaches.fetch_add(1, Relaxed);
    }

    /// Name, meaning and value of every counter, in the order in which they are shown.
    pub fn all(&self) -> [(&'static str, &'static str, u64); 6] {
        let (mut streamed, mut written) = (self.ended.streamed.load(Relaxed), self.ended.written.load(Relaxed));
        let ours = |process: &Process| {
            process.is_running() && process.about().alias.as_ref().is_some_and(|alias| alias.space == self.endpoint)
        };
        for (out, input) in self.engine.list().iter().filter(|process| ours(process)).map(bytes) {
            streamed += out;
            written += input;
        }
        let streamed = self.told.streamed.fetch_max(streamed, Relaxed).max(streamed);
        let written = self.told.written.fetch_max(written, Relaxed).max(written);
        [
            ("claustrum_connections_total", "Client connections accepted.", self.connections.load(Relaxed)),
            ("claustrum_process_spawns_total", "Processes started.", self.spawns.load(Relaxed)),
            ("claustrum_process_exits_total", "Processes that ended.", self.exits.load(Relaxed)),
            ("claustrum_reattaches_total", "Reattaches that found their process.", self.reattaches.load(Relaxed)),
            ("claustrum_stream_bytes_total", "Raw bytes read from processes.", streamed),
            ("claustrum_stdin_bytes_total", "Bytes accepted for processes' stdin.", written),
        ]
    }
}

/// What a process has said, and what it was told.
fn bytes(process: &Process) -> (u64, u64) {
    let bounds = process.bounds();
    (bounds.out_end + bounds.err_end, bounds.applied)
}
