//! What the door has counted since the daemon started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ostler_engine::{Happening, Observer};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) clients: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) ended: AtomicU64,
}

impl Counters {
    /// Counts processes of every door.
    pub(crate) fn observer(counters: &Arc<Self>) -> Arc<Observer> {
        let counters = Arc::clone(counters);
        Arc::new(move |_, happening| {
            let counter = match happening {
                Happening::Started => &counters.started,
                Happening::Ended(_) => &counters.ended,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// A client is here for as long as the returned value lives.
    pub(crate) fn connected(self: &Arc<Self>) -> Present {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.clients.fetch_add(1, Ordering::Relaxed);
        Present(Arc::clone(self))
    }
}

pub(crate) struct Present(Arc<Counters>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
