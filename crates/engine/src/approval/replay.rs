//! Names that askers give to what they ask: the same name again is a replay. A matter of memory alone, so that whoever only
//! has to know whether it was heard before never waits for the log.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::live::REPLAY_MS;

/// Names remembered at once; more within the replay window than any honest client sends.
const NAMES_MAX: usize = 65_536;
/// How often names are looked through for those that are free again.
const LOOK_MS: u64 = 1000;

/// The names that count as used.
#[derive(Default)]
pub(super) struct Replay {
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    /// When, since boot, and for which request; nothing for one that left none behind, or is only on its way in.
    names: HashMap<String, (u64, Option<String>)>,
    looked: u64,
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// It is the asker's from now on.
    Fresh,
    /// It was used, for this request if for one.
    Used(Option<String>),
    /// There are too many to remember one more.
    TooMany,
}

impl Replay {
    /// Takes a name; `is_open` tells of a request whether it still waits, for then its name stays taken.
    pub(super) fn take(&self, name: &str, now: u64, is_open: impl Fn(&str) -> bool) -> Name {
        let mut used = self.used();
        used.forget(now, is_open);
        if let Some((_, id)) = used.names.get(name) {
            return Name::Used(id.clone());
        }
        if used.names.len() >= NAMES_MAX {
            return Name::TooMany;
        }
        used.names.insert(name.to_owned(), (now, None));
        Name::Fresh
    }

    /// The name stands for this request.
    pub(super) fn bind(&self, name: String, now: u64, id: String) {
        self.used().names.insert(name, (now, Some(id)));
    }

    /// Nothing came of it.
    pub(super) fn release(&self, name: &str) {
        self.used().names.remove(name);
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    /// A name is free again once nothing with it could still be fresh; that of an open request stays taken.
    fn forget(&mut self, now: u64, is_open: impl Fn(&str) -> bool) {
        // Looking through all of them for each new one would cost more than the rest of a ping.
        if now < self.looked + LOOK_MS && self.names.len() < NAMES_MAX {
            return;
        }
        self.looked = now;
        self.names.retain(|_, (used, id)| now < *used + REPLAY_MS || id.as_deref().is_some_and(&is_open));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_when_its_time_is_over_and_its_request_too() {
        let replay = Replay::default();
        assert_eq!(replay.take("a", 0, |_| false), Name::Fresh);
        assert_eq!(replay.take("a", 1, |_| false), Name::Used(None), "on its way in");
        replay.bind("a".into(), 1, "a1".into());
        let late = REPLAY_MS + LOOK_MS;
        assert_eq!(replay.take("a", late, |id| id == "a1"), Name::Used(Some("a1".into())), "it still waits");
        assert_eq!(replay.take("a", 2 * late, |_| false), Name::Fresh);
        replay.release("a");
        assert_eq!(replay.take("a", 2 * late, |_| false), Name::Fresh, "nothing had come of it");
    }
}
