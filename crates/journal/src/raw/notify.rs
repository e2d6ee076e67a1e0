//! Who wants to know that something is visible.
//!
//! A subscriber is woken once per `arm`, so a reader that is already awake costs the pump one atomic load a frame.
//! Nothing is queued here: a wake says "look", never what there is to see.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::lock;

/// Told by a pump thread that something new is visible. Must be cheap and must not block.
pub trait Wake: Send + Sync {
    /// Something is visible that was not before.
    fn wake(&self);
}

impl<F: Fn() + Send + Sync> Wake for F {
    fn wake(&self) {
        self();
    }
}

struct Subscriber {
    armed: AtomicBool,
    wake: Arc<dyn Wake>,
}

/// The subscribers of one journal.
#[derive(Default)]
pub(crate) struct Subscribers {
    list: Mutex<Vec<Arc<Subscriber>>>,
    /// How many are armed; zero for most frames of a busy stream.
    armed: AtomicUsize,
}

impl Subscribers {
    pub(crate) fn add(self: &Arc<Self>, wake: Arc<dyn Wake>) -> Subscription {
        let subscriber = Arc::new(Subscriber { armed: AtomicBool::new(false), wake });
        lock(&self.list).push(Arc::clone(&subscriber));
        let subscription = Subscription { subscriber, all: Arc::downgrade(self) };
        subscription.arm();
        subscription
    }

    /// Wakes whoever is armed. The caller has published what they will look at before (sequentially consistent).
    pub(crate) fn wake(&self) {
        if self.armed.load(Ordering::SeqCst) == 0 {
            return;
        }
        for subscriber in lock(&self.list).iter() {
            if subscriber.armed.swap(false, Ordering::SeqCst) {
                self.armed.fetch_sub(1, Ordering::SeqCst);
                subscriber.wake.wake();
            }
        }
    }
}

/// One subscriber of a journal; dropping it unsubscribes.
///
/// A wake comes once per [`arm`](Self::arm): arm, read with a cursor until `UpToDate`, sleep until woken, repeat.
/// Whatever becomes visible after `arm` wakes, so nothing is missed; a busy reader is not woken for every frame.
pub struct Subscription {
    subscriber: Arc<Subscriber>,
    all: Weak<Subscribers>,
}

impl Subscription {
    /// Asks for one wake at the next change (frames, exit, held back, damage). A new subscription is armed.
    pub fn arm(&self) {
        let Some(all) = self.all.upgrade() else { return };
        if !self.subscriber.armed.swap(true, Ordering::SeqCst) {
            all.armed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(all) = self.all.upgrade() else { return };
        lock(&all.list).retain(|other| !Arc::ptr_eq(other, &self.subscriber));
        if self.subscriber.armed.swap(false, Ordering::SeqCst) {
            all.armed.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
