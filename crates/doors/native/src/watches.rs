//! What a connection watches: by the number that its client knows, and by id, because nothing is watched twice on one
//! connection. Shared with the threads that open journals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dispatch::Tag;

#[derive(Clone, Default)]
pub(crate) struct Watches {
    open: Arc<Mutex<Vec<(Tag, String)>>>,
}

impl Watches {
    fn open(&self) -> MutexGuard<'_, Vec<(Tag, String)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a watch; `false` if this id is being watched.
    pub(crate) fn enter(&self, tag: Tag, id: &str) -> bool {
        let mut open = self.open();
        let fresh = open.iter().all(|(_, watched)| watched != id);
        if fresh {
            open.push((tag, id.to_owned()));
        }
        fresh
    }

    /// The watch is over; gives back what it was on.
    pub(crate) fn leave(&self, tag: Tag) -> Option<String> {
        let mut open = self.open();
        let index = open.iter().position(|(known, _)| *known == tag)?;
        Some(open.swap_remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_watched_twice_and_what_was_left_can_be_watched_again() {
        let watches = Watches::default();
        assert!(watches.enter(Tag::Session(1), "s1") && !watches.enter(Tag::Session(2), "s1"));
        assert_eq!(watches.leave(Tag::Process(1)), None);
        assert_eq!(watches.leave(Tag::Session(1)).as_deref(), Some("s1"));
        assert!(watches.enter(Tag::Session(3), "s1"));
    }
}
