//! When a connection's events begin, and where. They are held until the client has said its first word beyond the handshake, or a
//! moment has passed, so that one that comes back names its position before anything new is told: nothing comes twice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_engine::Wake;

use super::Event;
use super::position::At;

/// How long events are held for a client that says nothing.
pub(crate) const HELD_FOR: Duration = Duration::from_millis(1500);

/// What a connection's methods and its follower share.
pub(crate) struct Gate {
    state: Mutex<State>,
}

struct State {
    /// Until then nothing is told; nothing once it flows.
    held_until: Option<Instant>,
    /// Where to go on instead.
    seek: Option<At>,
    /// What this client alone is told, before anything else.
    notices: Vec<Event>,
    wake: Option<Arc<dyn Wake>>,
}

/// Notices that may wait: each belongs to a request that was just answered.
const NOTICES_MAX: usize = 256;

impl Default for Gate {
    fn default() -> Self {
        let held_until = Some(Instant::now() + HELD_FOR);
        Self { state: Mutex::new(State { held_until, seek: None, notices: Vec::new(), wake: None }) }
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The follower is called by this from now on.
    pub(super) fn begin(&self, wake: Arc<dyn Wake>) {
        self.state().wake = Some(wake);
    }

    /// Has the follower look.
    pub(crate) fn ring(&self) {
        let wake = self.state().wake.clone();
        if let Some(wake) = wake {
            wake.wake();
        }
    }

    /// The client has said something: events flow.
    pub(crate) fn release(&self) {
        let held = self.state().held_until.take().is_some();
        if held {
            self.ring();
        }
    }

    /// Events flow from here.
    pub(crate) fn seek(&self, at: At) {
        let mut state = self.state();
        state.seek = Some(at);
        state.held_until = None;
        drop(state);
        self.ring();
    }

    /// Tells this client alone, before anything else. `false` if it does not read what it was told before.
    pub(crate) fn notice(&self, event: Event) -> bool {
        let mut state = self.state();
        let fits = state.notices.len() < NOTICES_MAX;
        if fits {
            state.notices.push(event);
        }
        drop(state);
        self.ring();
        fits
    }

    pub(super) fn has_notices(&self) -> bool {
        !self.state().notices.is_empty()
    }

    pub(super) fn take_notices(&self) -> Vec<Event> {
        std::mem::take(&mut self.state().notices)
    }

    pub(super) fn take_seek(&self) -> Option<At> {
        self.state().seek.take()
    }

    pub(super) fn wants_elsewhere(&self) -> bool {
        self.state().seek.is_some()
    }

    pub(super) fn is_held(&self) -> bool {
        let mut state = self.state();
        if state.held_until.is_some_and(|until| Instant::now() >= until) {
            state.held_until = None;
        }
        state.held_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wait_for_the_first_word_or_a_position() {
        let gate = Gate::default();
        assert!(gate.is_held());
        gate.release();
        assert!(!gate.is_held());
        let gate = Gate::default();
        let at: At = "7".parse().unwrap();
        gate.seek(at);
        assert!(!gate.is_held() && gate.wants_elsewhere());
        assert_eq!((gate.take_seek(), gate.take_seek()), (Some(at), None));
    }

    #[test]
    fn notices_of_a_client_that_does_not_read_are_bounded() {
        let gate = Gate::default();
        let one = || Event::new("error", serde_json::json!({}));
        assert!((0..NOTICES_MAX).all(|_| gate.notice(one())) && !gate.notice(one()));
        assert_eq!(gate.take_notices().len(), NOTICES_MAX);
        assert!(gate.notice(one()));
    }
}
