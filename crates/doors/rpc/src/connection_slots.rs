//! Who is connected at the line-based doors of this program. Connections cost descriptors, which children need too: when too
//! many are taken, whoever has said nothing leaves first, then whoever has been idle the longest. Nobody who waits for an answer
//! or watches something is sent away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// Of the descriptors that this program may have, connections take half at most.
const SHARE: u64 = 2;
/// Fewer than this would be in the way of a person with a few windows; more than that no machine of one user needs.
const BOUNDS: std::ops::RangeInclusive<u64> = 32..=8192;

static CONNECTIONS: LazyLock<Connections> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / SHARE;
    Connections::of(limit.clamp(*BOUNDS.start(), *BOUNDS.end()) as usize)
});

/// What a connection is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum State {
    /// It has not said a line yet.
    Silent,
    /// It waits for nothing.
    Idle,
    /// It waits for an answer, or watches.
    Busy,
    /// It was asked to leave.
    Leaving,
}

struct Connected {
    state: AtomicU8,
    /// When it last said something, in nanoseconds of a coarse clock.
    heard: AtomicU64,
    leave: Notify,
}

struct Connections {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    places: BTreeMap<u64, Arc<Connected>>,
}

/// One connection's place, free again when dropped.
pub(crate) struct ConnectionSlot {
    number: u64,
    place: Arc<Connected>,
    places: &'static Connections,
}

/// A place for a connection that has just come. There always is one; somebody else may have to leave for it.
pub(crate) fn take() -> ConnectionSlot {
    CONNECTIONS.take()
}

/// Sends away who is missed the least: there are no descriptors left.
pub(crate) fn make_room() {
    CONNECTIONS.taken().shed(u64::MAX);
}

impl Connections {
    fn of(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&'static self) -> ConnectionSlot {
        let place = Arc::new(Connected {
            state: AtomicU8::new(State::Silent as u8),
            heard: AtomicU64::new(now()),
            leave: Notify::new(),
        });
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        taken.places.insert(number, Arc::clone(&place));
        if taken.places.values().filter(|place| !place.is(State::Leaving)).count() > self.most {
            taken.shed(number);
        }
        ConnectionSlot { number, place, places: self }
    }
}

impl Taken {
    fn shed(&self, except: u64) {
        let others = self.places.iter().filter(|(number, _)| **number != except).map(|(_, place)| place);
        let idle = others.filter(|place| place.is(State::Silent) || place.is(State::Idle));
        let first = idle.min_by_key(|place| (place.state.load(Ordering::Relaxed), place.heard.load(Ordering::Relaxed)));
        if let Some(place) = first {
            place.state.store(State::Leaving as u8, Ordering::Relaxed);
            place.leave.notify_one();
        }
    }
}

impl Connected {
    fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Relaxed) == state as u8
    }
}

impl ConnectionSlot {
    /// The client said something.
    pub(crate) fn heard(&self) {
        self.place.heard.store(now(), Ordering::Relaxed);
        self.becomes(State::Idle);
    }

    /// The client waits for something, or does not.
    pub(crate) fn busy(&self, busy: bool) {
        if !self.place.is(State::Silent) {
            self.becomes(if busy { State::Busy } else { State::Idle });
        }
    }

    /// Resolves when the place is needed for somebody else.
    pub(crate) async fn leave(&self) {
        self.place.leave.notified().await;
    }

    fn becomes(&self, state: State) {
        if !self.place.is(state) && !self.place.is(State::Leaving) {
            self.place.state.store(state as u8, Ordering::Relaxed);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.taken().places.remove(&self.number);
    }
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_leaving(slot: &ConnectionSlot) -> bool {
        slot.place.is(State::Leaving)
    }

    #[test]
    fn the_silent_leave_before_the_idle_and_nobody_who_waits_does() {
        let places: &'static Connections = Box::leak(Box::new(Connections::of(3)));
        let (busy, idle, silent) = (places.take(), places.take(), places.take());
        busy.heard();
        busy.busy(true);
        idle.heard();
        let fourth = places.take();
        assert!(is_leaving(&silent) && !is_leaving(&idle) && !is_leaving(&fourth));
        fourth.heard();
        fourth.busy(true);
        let fifth = places.take();
        assert!(is_leaving(&idle) && !is_leaving(&busy) && !is_leaving(&fifth));
        fifth.heard();
        fifth.busy(true);
        let sixth = places.take();
        assert!(![&busy, &fourth, &fifth, &sixth].into_iter().any(is_leaving), "nobody is missed the least");
        drop((busy, idle, silent, fourth, fifth, sixth));
        assert!(places.taken().places.is_empty());
    }
}
