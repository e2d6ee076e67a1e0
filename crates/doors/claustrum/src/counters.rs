//! What the door counts: numbers only, never content.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ostler_engine::Engine;

/// Counters since this daemon started; bytes are those of the processes that are still known.
pub struct Counters {
    engine: Engine,
    endpoint: String,
    connections: AtomicU64,
    spawns: AtomicU64,
    exits: AtomicU64,
    reattaches: AtomicU64,
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
        }
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn spawned(&self) {
        self.spawns.fetch_add(1, Relaxed);
    }

    pub(crate) fn exited(&self) {
        self.exits.fetch_add(1, Relaxed);
    }

    pub(crate) fn reattached(&self) {
        self.reattaches.fetch_add(1, Relaxed);
    }

    /// Name, meaning and value of every counter, in the order in which they are shown.
    pub fn all(&self) -> [(&'static str, &'static str, u64); 6] {
        let (mut streamed, mut written) = (0, 0);
        for process in self.engine.list() {
            if process.about().alias.as_ref().is_some_and(|alias| alias.endpoint == self.endpoint) {
                let bounds = process.bounds();
                streamed += bounds.out_end + bounds.err_end;
                written += bounds.applied;
            }
        }
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
