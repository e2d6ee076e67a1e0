//! The requests that wait for an answer.
//!
//! A request may also be *void*: its turn was stopped and the agent was told so, but has not said that it is over.
//! Rebuilding gives the answers (the ledger) before the requests (the output), so an answer to a request not yet seen is
//! remembered until it comes: the request then is not open, and no second answer is made.

use std::collections::{BTreeMap, VecDeque};

/// 256: an agent asks for a handful of things at a time; one that asks for more has run away and is refused.
const MAX_OPEN: usize = 256;
/// What the one too many hears.
pub(crate) const TOO_MANY: &str = "too many requests are waiting for an answer";
/// 65,536 answers ahead of their requests: more than one process asks in its life.
const MAX_EARLY: usize = 1 << 16;

/// What became of a new request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It waits for an answer.
    Open,
    /// The ledger already holds its answer.
    Answered,
    /// Too many wait: it is told, and refused at once. An answer finds nothing to answer.
    Full,
}

/// Requests by the agent's id, each with what its answer needs.
#[derive(Debug)]
pub(crate) struct Asks<T> {
    open: BTreeMap<String, Waiting<T>>,
    /// What was sent for requests that have not come yet, in its order.
    early: BTreeMap<String, VecDeque<Early>>,
}

#[derive(Debug)]
struct Waiting<T> {
    what: T,
    void: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Early {
    Answer,
    Void,
}

impl<T> Default for Asks<T> {
    fn default() -> Self {
        Asks { open: BTreeMap::new(), early: BTreeMap::new() }
    }
}

impl<T> Asks<T> {
    /// A request came.
    pub(crate) fn asked(&mut self, id: &str, what: T) -> Fate {
        let early = self.take_early(id);
        if early == Some(Early::Answer) {
            return Fate::Answered;
        }
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(id) {
            return Fate::Full;
        }
        self.open.insert(id.to_owned(), Waiting { what, void: early == Some(Early::Void) });
        Fate::Open
    }

    /// A request came that is answered at once: is that answer in the ledger already?
    pub(crate) fn owed(&mut self, id: &str) -> Fate {
        if self.take_early(id).is_some() { Fate::Answered } else { Fate::Open }
    }

    /// An answer was sent.
    pub(crate) fn answered(&mut self, id: &str) {
        if self.open.remove(id).is_none() {
            self.note_early(id, Early::Answer);
        }
    }

    /// Its turn was stopped: no answer is taken any more, and it ends with the turn.
    pub(crate) fn voided(&mut self, id: &str) {
        match self.open.get_mut(id) {
            Some(waiting) => waiting.void = true,
            None => self.note_early(id, Early::Void),
        }
    }

    fn note_early(&mut self, id: &str, early: Early) {
        if self.early.len() < MAX_EARLY || self.early.contains_key(id) {
            self.early.entry(id.to_owned()).or_default().push_back(early);
        }
    }

    fn take_early(&mut self, id: &str) -> Option<Early> {
        let queue = self.early.get_mut(id)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.early.remove(id);
        }
        first
    }

    /// The agent took it back; whether it was open.
    pub(crate) fn withdrawn(&mut self, id: &str) -> bool {
        self.open.remove(id).is_some()
    }

    /// Nothing is waited for any more: the ids that were.
    pub(crate) fn withdraw_all(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open).into_keys().collect()
    }

    /// What waits under this id.
    pub(crate) fn get(&self, id: &str) -> Option<&T> {
        self.open.get(id).filter(|waiting| !waiting.void).map(|waiting| &waiting.what)
    }

    /// The ids that wait for an answer.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.open.iter().filter(|(_, waiting)| !waiting.void).map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_before_its_request_closes_it_once() {
        let mut asks = Asks::default();
        asks.answered("a");
        assert_eq!(asks.asked("a", ()), Fate::Answered);
        assert!(asks.get("a").is_none());
        assert_eq!(asks.asked("a", ()), Fate::Open, "the same id asked again is a new request");
    }

    #[test]
    fn a_void_request_takes_no_answer_and_is_still_withdrawn() {
        for void_first in [true, false] {
            let mut asks = Asks::default();
            if void_first {
                asks.voided("a");
            }
            assert_eq!(asks.asked("a", ()), Fate::Open);
            if !void_first {
                asks.voided("a");
            }
            assert!(asks.get("a").is_none() && asks.ids().is_empty());
            assert_eq!(asks.withdraw_all(), ["a"]);
        }
    }

    #[test]
    fn an_agent_that_asks_without_end_is_refused() {
        let mut asks = Asks::default();
        for n in 0..MAX_OPEN {
            assert_eq!(asks.asked(&n.to_string(), ()), Fate::Open);
        }
        assert_eq!(asks.asked("one more", ()), Fate::Full);
        assert_eq!(asks.withdraw_all().len(), MAX_OPEN);
    }
}
