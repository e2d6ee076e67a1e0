//! How a door reaches its connections when it has something to say that is in no journal: the time of day, a change of what it
//! has published. A ring carries nothing, so it never waits and nothing queues: whoever is rung looks for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::signal::Signal;

/// The bell of one connection; a cheap handle. Rings after its end are heard by nobody.
#[derive(Clone)]
pub struct Nudge {
    rung: Arc<AtomicBool>,
    signal: Arc<Signal>,
}

impl Nudge {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { rung: Arc::default(), signal }
    }

    /// Has the connection look at what its door has published.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.signal.call();
        }
    }

    /// Whether it was rung since the last look.
    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }
}
