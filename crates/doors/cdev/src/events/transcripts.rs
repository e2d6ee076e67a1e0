//! Conversations of other programs that a connection watches: a place in each transcript. What is written there is told once, when
//! its line is whole.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_api::Timestamp;
use ostler_engine::history::{Begin, Meant, Position};
use ostler_engine::{MayWait, Session};
use serde_json::json;

use super::{Event, line};
use crate::DoorState;

/// Conversations that one connection may watch.
pub(crate) const WATCHED_MAX: usize = 32;
/// Messages that are told of one before others get their turn.
const AT_ONCE: usize = 100;

/// All that a connection watches.
#[derive(Default)]
pub(crate) struct Transcripts {
    all: Mutex<Vec<Watched>>,
    /// It is time to look.
    due: AtomicBool,
}

#[derive(Clone)]
struct Watched {
    id: String,
    meant: Meant,
    at: Option<Position>,
}

impl Transcripts {
    fn all(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a conversation, from this place on; what is told by the feed has none. `false` if there are too many.
    pub(crate) fn watch(&self, id: &str, meant: Meant, at: Option<Position>) -> bool {
        let mut all = self.all();
        all.retain(|watched| watched.id != id);
        let fits = all.len() < WATCHED_MAX;
        if fits {
            all.push(Watched { id: id.to_owned(), meant, at });
        }
        fits
    }

    /// Watches one no more, or all; which they were.
    pub(crate) fn unwatch(&self, id: Option<&str>, session: Option<&Session>) -> Vec<String> {
        let mut all = self.all();
        let is_it = |watched: &Watched| {
            let same = session.zip(watched.meant.session.as_ref()).is_some_and(|(one, other)| one.id() == other.id());
            same || id.is_none_or(|id| id == watched.id)
        };
        let (gone, stay): (Vec<_>, Vec<_>) = all.drain(..).partition(is_it);
        *all = stay;
        gone.into_iter().map(|watched| watched.id).collect()
    }

    /// Whether anything is watched that must be looked at now and then.
    pub(crate) fn needs_looking(&self) -> bool {
        self.all().iter().any(|watched| watched.at.is_some())
    }

    pub(crate) fn make_due(&self) {
        self.due.store(true, Ordering::Release);
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.load(Ordering::Acquire)
    }

    /// What was written since the last look.
    pub(super) fn read(&self, wait: &MayWait, state: &DoorState) -> Vec<(Event, Timestamp)> {
        if !self.due.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let watched = self.all().clone();
        let history = state.engine.history(wait);
        let mut told = Vec::new();
        for Watched { id, meant, at } in watched {
            let Some(at) = at else { continue };
            let Ok(page) = history.page(&meant, Begin::From(at), AT_ONCE) else { continue };
            for placed in &page.messages {
                let time = placed.message.time_ms.map(Timestamp::from_millis);
                if let Some(mut event) = line::message(&placed.message, None) {
                    event.payload.insert("session_id".into(), json!(id));
                    event.payload.insert("uuid".into(), json!(placed.message.id));
                    told.push((event, time.unwrap_or_else(Timestamp::now)));
                }
            }
            if let Some(known) = self.all().iter_mut().find(|known| known.id == id) {
                known.at = Some(page.next);
            }
            if page.newer {
                self.make_due();
            }
        }
        told
    }
}
