//! Keys of requests that must not be carried out twice and leave no other trace: signals, deletions.
//! Remembered while the daemon lives, up to a bound; a process's own key is kept with the process.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Far more than clients retry at once, and little memory.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(crate) struct Keys {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    set: HashSet<String>,
    order: VecDeque<String>,
}

impl Keys {
    /// Whether this key has come before.
    pub(crate) fn has_seen(&self, key: &str) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).set.contains(key)
    }

    /// Whether this key comes for the first time; from now on it does not.
    pub(crate) fn first_use(&self, key: &str) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.set.insert(key.to_owned()) {
            return false;
        }
        seen.order.push_back(key.to_owned());
        if seen.order.len() > REMEMBERED
            && let Some(oldest) = seen.order.pop_front()
        {
            seen.set.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once_and_memory_is_bounded() {
        let keys = Keys::default();
        assert!(!keys.has_seen("a") && keys.first_use("a") && !keys.first_use("a") && keys.has_seen("a"));
        for number in 0..REMEMBERED {
            assert!(keys.first_use(&number.to_string()));
        }
        assert!(keys.first_use("a"), "the oldest key goes first");
        assert_eq!(keys.seen.lock().unwrap().set.len(), REMEMBERED);
    }
}
