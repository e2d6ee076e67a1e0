//! What a session's thread waits for: something to do, or a deadline.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ostler_journal::Wake;

/// Rung by anybody, heard by one thread; ringing it twice is ringing it once.
#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    /// Waits until it was rung since the last time, at most until `deadline` or for `longest`.
    pub(super) fn wait(&self, deadline: Option<Instant>, longest: Duration) {
        let left = deadline.map_or(longest, |at| at.saturating_duration_since(Instant::now()).min(longest));
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) =
            self.heard.wait_timeout_while(rung, left, |rung| !*rung).unwrap_or_else(PoisonError::into_inner);
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.ring();
    }
}
