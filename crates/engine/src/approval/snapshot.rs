//! What everybody may see, as of the last change that the log has. Whoever only looks takes the newest of these, and never
//! waits for a write.

use std::sync::{Arc, Mutex, PoisonError};

use super::Approval;
use super::clock;
use super::confirmed::Confirmed;
use super::held_rules::HeldRule;
use super::live::Live;
use crate::access::device::roster::Roster;

/// The inbox at one moment.
#[derive(Default)]
pub(super) struct Snapshot {
    /// Requests that wait or were settled lately, by id.
    pub(super) live: Vec<Arc<Live>>,
    /// The standing answers, also those whose time is over.
    pub(super) rules: Arc<[HeldRule]>,
    pub(super) locked: bool,
    pub(super) confirmed: Confirmed,
    pub(super) devices: Arc<Roster>,
    /// The newest entry of the log that is ours.
    pub(super) last: u64,
}

impl Snapshot {
    pub(super) fn live(&self, id: &str) -> Option<&Live> {
        let at = self.live.binary_search_by(|live| live.approval.id.as_str().cmp(id)).ok()?;
        self.live.get(at).map(Arc::as_ref)
    }

    /// Requests of a kind, oldest first.
    pub(super) fn select(&self, which: impl Fn(&Live) -> bool) -> Vec<Approval> {
        let mut found: Vec<_> = self.live.iter().filter(|live| which(live)).map(|live| live.look()).collect();
        found.sort_by(|a, b| (a.asked_at, &a.id).cmp(&(b.asked_at, &b.id)));
        found
    }

    /// The rules whose time is not over.
    pub(super) fn rules(&self) -> impl Iterator<Item = &HeldRule> {
        let now = clock::wall_ms();
        self.rules.iter().filter(move |held| held.lasts(now))
    }
}

/// Where the newest stands. The lock is held for as long as it takes to copy a pointer.
#[derive(Default)]
pub(super) struct Published {
    newest: Mutex<Arc<Snapshot>>,
}

impl Published {
    pub(super) fn newest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives back the one before, to be let go under no lock: it can be large, and who held it last pays for that.
    pub(super) fn publish(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        let new = Arc::new(snapshot);
        std::mem::replace(&mut *self.newest.lock().unwrap_or_else(PoisonError::into_inner), new)
    }
}
