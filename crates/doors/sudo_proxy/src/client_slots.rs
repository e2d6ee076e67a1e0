//! ClientSlots for clients: so many of one user and session, so that one that asks for much takes nobody else's. Half of them are
//! shared by all programs of a user, which need not be looked at; the other half each session has for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clients of one user and session at once; clients know what the next one is told.
const EACH: usize = 64;
/// Of those, what all sessions of a user share.
const SHARED: usize = EACH / 2;

/// A user, and which of its places: those that are shared, or those of a session (of no session: `Some(None)`).
type Whose = (u32, Option<Option<String>>);

#[derive(Clone, Default)]
pub(crate) struct ClientSlots {
    taken: Arc<Mutex<HashMap<Whose, usize>>>,
}

/// A place, until it is dropped.
pub(crate) struct ClientSlot {
    places: ClientSlots,
    whose: Whose,
}

impl ClientSlots {
    /// A place for a client of this user; `session` is looked up only where that matters.
    pub(crate) fn take(&self, uid: u32, session: impl FnOnce() -> Option<String>) -> Option<ClientSlot> {
        self.take_of((uid, None), SHARED).or_else(|| self.take_of((uid, Some(session())), EACH - SHARED))
    }

    fn take_of(&self, whose: Whose, most: usize) -> Option<ClientSlot> {
        let mut taken = self.taken();
        let count = taken.entry(whose.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(ClientSlot { places: self.clone(), whose })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Whose, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_takes_nobody_elses_places() {
        let places = ClientSlots::default();
        let take = |uid, session: Option<&str>| places.take(uid, || session.map(str::to_owned));
        let mut held: Vec<ClientSlot> = (0..EACH).map(|_| take(1, Some("s1")).unwrap()).collect();
        assert!(take(1, Some("s1")).is_none(), "the 65th");
        let others: Vec<ClientSlot> = (0..SHARED).map(|_| take(1, Some("s2")).unwrap()).collect();
        assert!(take(1, None).is_some() && take(2, Some("s1")).is_some(), "a person's own programs, and another user");
        held.pop();
        assert!(take(1, Some("s1")).is_some());
        drop((held, others));
        assert!(places.taken().is_empty());
    }
}
