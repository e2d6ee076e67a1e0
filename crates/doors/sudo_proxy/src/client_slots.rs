//! Places for clients: so many of one user and session. Half of them are shared by all programs of a user, which need not be
//! looked at; the other half each session has for itself.

use ostler_door_rpc::{Slot, Slots};

/// Clients of one user and session at once; clients know what the next one is told.
const EACH: usize = 64;
/// Of those, what all sessions of a user share.
const SHARED: usize = EACH / 2;

/// A user, and which of its places: those that are shared, or those of a session (of no session: `Some(None)`).
type Whose = (u32, Option<Option<String>>);

#[derive(Default)]
pub(crate) struct ClientSlots(Slots<Whose>);

impl ClientSlots {
    /// A place for a client of this user; `session` is looked up only where that matters.
    pub(crate) fn take(&self, uid: u32, session: impl FnOnce() -> Option<String>) -> Option<Slot<Whose>> {
        self.0.take((uid, None), SHARED).or_else(|| self.0.take((uid, Some(session())), EACH - SHARED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_takes_nobody_elses_places() {
        let places = ClientSlots::default();
        let take = |uid, session: Option<&str>| places.take(uid, || session.map(str::to_owned));
        let mut held: Vec<_> = (0..EACH).map(|_| take(1, Some("s1")).unwrap()).collect();
        assert!(take(1, Some("s1")).is_none(), "the 65th");
        let _others: Vec<_> = (0..SHARED).map(|_| take(1, Some("s2")).unwrap()).collect();
        assert!(take(1, None).is_some() && take(2, Some("s1")).is_some(), "a person's own programs, and another user");
        held.pop();
        assert!(take(1, Some("s1")).is_some());
    }
}
