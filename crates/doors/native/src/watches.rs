//! What a connection watches: by the number that its client knows, and by id, because nothing is watched twice on one
//! connection. Shared with the threads that open journals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_api::{ErrorKind, RpcError};
use ostler_engine::notice::Looking;
use ostler_engine::{Viewing, WinSize};
use ostler_story::Story;

use crate::dispatch::Tag;

/// Why a watch does not end: there is none of this number.
pub(crate) fn no_watch(watch: u64) -> RpcError {
    RpcError::new(ErrorKind::NotFound, format!("this connection has no watch {watch}"))
}

#[derive(Clone, Default)]
pub(crate) struct Watches {
    open: Arc<Mutex<Vec<Open>>>,
}

struct Open {
    tag: Tag,
    id: String,
    /// Who is listed as attached is so for as long as the watch is open.
    viewing: Option<Viewing>,
    /// Whoever is at a terminal looks for as long.
    looking: Option<Looking>,
    /// What was told of a session, where it is told in pieces.
    story: Option<Box<Story>>,
}

impl Watches {
    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a watch; `false` if this id is being watched.
    pub(crate) fn enter(&self, tag: Tag, id: &str) -> bool {
        let mut open = self.open();
        let fresh = open.iter().all(|watch| watch.id != id);
        if fresh {
            open.push(Open { tag, id: id.to_owned(), viewing: None, looking: None, story: None });
        }
        fresh
    }

    /// The watch is over; gives back what it was on.
    pub(crate) fn leave(&self, tag: Tag) -> Option<String> {
        let mut open = self.open();
        let index = open.iter().position(|watch| watch.tag == tag)?;
        Some(open.swap_remove(index).id)
    }

    /// A session is told in pieces from here on.
    pub(crate) fn tell_in_pieces(&self, tag: Tag) {
        if let Some(watch) = self.open().iter_mut().find(|watch| watch.tag == tag) {
            watch.story = Some(Box::default());
        }
    }

    /// Goes on with the story of a session that is told in pieces; `false` if it is told in records.
    pub(crate) fn go_on(&self, tag: Tag, tell: impl FnOnce(&mut Story)) -> bool {
        let mut open = self.open();
        let story = open.iter_mut().find(|watch| watch.tag == tag).and_then(|watch| watch.story.as_mut());
        story.map(|story| tell(story)).is_some()
    }

    /// Who watches is listed as attached.
    pub(crate) fn attach(&self, tag: Tag, viewing: Viewing) {
        if let Some(watch) = self.open().iter_mut().find(|watch| watch.tag == tag) {
            watch.viewing = Some(viewing);
        }
    }

    /// Who watches looks at it.
    pub(crate) fn look(&self, tag: Tag, looking: Looking) {
        if let Some(watch) = self.open().iter_mut().find(|watch| watch.tag == tag) {
            watch.looking = Some(looking);
        }
    }

    /// The size of who is attached here has changed; gives back the one that holds. Nothing for who is not.
    pub(crate) fn resize(&self, id: &str, size: WinSize) -> Option<WinSize> {
        self.open().iter().find(|watch| watch.id == id)?.viewing.as_ref()?.resize(size)
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
