//! Who wants to know that something is visible.
//!
//! A subscriber is woken once per `arm`, so a reader that is already awake costs the pump one atomic load a frame.
//! Nothing is queued here: a wake says "look", never what there is to see.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::Journal;
use super::types::ExitRecord;
use crate::lock;

/// Told by a pump thread that something new is visible. Must be cheap and must not block.
pub trait Wake: Send + Sync {
    /// Something is visible that was not before.
    fn wake(&self);

    /// The exit is visible: whoever can pass it on here and now saves its reader a wake.
    fn ended(&self) {
        self.wake();
    }
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
    /// Replaced when it changes, so that a frame costs no copy of it.
    list: Mutex<Arc<Vec<Arc<Subscriber>>>>,
    /// How many are armed; zero for most frames of a busy stream.
    armed: AtomicUsize,
    /// Called when the exit is journaled.
    at_exit: Mutex<Vec<AtExit>>,
}

type AtExit = Box<dyn FnOnce(ExitRecord) + Send>;

impl Subscribers {
    pub(crate) fn add(self: &Arc<Self>, wake: Arc<dyn Wake>) -> Subscription {
        let subscriber = Arc::new(Subscriber { armed: AtomicBool::new(false), wake });
        Arc::make_mut(&mut lock(&self.list)).push(Arc::clone(&subscriber));
        let subscription = Subscription { subscriber, all: Arc::downgrade(self) };
        subscription.arm();
        subscription
    }

    /// Wakes whoever is armed. The caller has published what they will look at before (sequentially consistent).
    pub(crate) fn wake(&self) {
        self.tell(|wake| wake.wake());
    }

    fn tell(&self, tell: impl Fn(&dyn Wake)) {
        if self.armed.load(Ordering::SeqCst) == 0 {
            return;
        }
        // Not under the lock: whoever is woken may unsubscribe.
        let list = Arc::clone(&lock(&self.list));
        for subscriber in list.iter() {
            if subscriber.armed.swap(false, Ordering::SeqCst) {
                self.armed.fetch_sub(1, Ordering::SeqCst);
                tell(&*subscriber.wake);
            }
        }
    }
}

impl Journal {
    /// Has `wake` called when something becomes visible, once per [`Subscription::arm`].
    pub fn subscribe(&self, wake: Arc<dyn Wake>) -> Subscription {
        self.subscribers.add(wake)
    }

    /// Has `callback` called once when the exit is journaled, on a pump thread (it must not block); at once if it is.
    pub fn on_exit(&self, callback: impl FnOnce(ExitRecord) + Send + 'static) {
        let mut waiting = lock(&self.subscribers.at_exit);
        match self.bounds().exit {
            Some(exit) => {
                drop(waiting);
                callback(exit);
            }
            None => waiting.push(Box::new(callback)),
        }
    }

    /// The exit is visible. What is kept about the process is brought up to date before a client hears of it.
    pub(super) fn tell_exit(&self, exit: ExitRecord) {
        let waiting = std::mem::take(&mut *lock(&self.subscribers.at_exit));
        waiting.into_iter().for_each(|callback| callback(exit));
        self.subscribers.tell(|wake| wake.ended());
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
        Arc::make_mut(&mut lock(&all.list)).retain(|other| !Arc::ptr_eq(other, &self.subscriber));
        if self.subscriber.armed.swap(false, Ordering::SeqCst) {
            all.armed.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
