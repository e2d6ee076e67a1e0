//! The WebSockets that are open: how many, and how to have each look at what the door has published. Nothing is queued for
//! them: see `ostler_door_rpc::Nudge`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_door_rpc::Nudge;

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct Clients(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    next: u64,
    all: BTreeMap<u64, Nudge>,
}

/// One of them, until it is dropped.
pub(crate) struct Present {
    number: u64,
    clients: Clients,
}

impl Clients {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that has come.
    pub(crate) fn enter(&self, nudge: Nudge) -> Present {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.all.insert(number, nudge);
        Present { number, clients: self.clone() }
    }

    pub(crate) fn count(&self) -> usize {
        self.open().all.len()
    }

    /// Has each of them look.
    pub(crate) fn ring(&self) {
        let all: Vec<Nudge> = self.open().all.values().cloned().collect();
        for nudge in all {
            nudge.ring();
        }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.clients.open().all.remove(&self.number);
    }
}
