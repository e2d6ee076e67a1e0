//! A client that comes back after its connection broke, to a turn that still runs.
//!
//! zerocode does not expect one to run on. It asks for the session, cancels its turn, waits until the state is no longer
//! `running`, reads the messages, and passes over every update until it has drawn them. Nobody pressed a key for that: the
//! turn goes on. The client hears that nothing runs, reads all that was said so far, and is told the rest from there.

use std::collections::{HashMap, HashSet};

/// The sessions of such a client, by their own ids. As many as it has opened.
#[derive(Debug, Default)]
pub(crate) struct Returning(HashMap<String, Step>);

/// How far it has got with one.
#[derive(Debug)]
enum Step {
    /// It came to a turn that runs.
    Came,
    /// It has cancelled that turn, which was not meant.
    Spared,
    /// It has read what was said, and may not have drawn it.
    Read { rest: Rest, polled: HashSet<String> },
}

/// What it is still to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// The prompt's number.
    pub(crate) number: u64,
    /// The record at which its turn began.
    pub(crate) began: u64,
    /// The last record that was among the messages.
    pub(crate) upto: u64,
}

impl Returning {
    pub(crate) fn came(&mut self, session: &str) {
        self.0.insert(session.to_owned(), Step::Came);
    }

    /// A prompt of its own: from now on it means what it says.
    pub(crate) fn prompted(&mut self, session: &str) {
        if matches!(self.0.get(session), Some(Step::Came)) {
            self.0.remove(session);
        }
    }

    /// Whether this cancellation is the one that nobody asked for: the first after it came.
    pub(crate) fn spares(&mut self, session: &str) -> bool {
        match self.0.get_mut(session) {
            Some(step @ Step::Came) => {
                *step = Step::Spared;
                true
            }
            _ => false,
        }
    }

    /// Whether it is told that nothing runs.
    pub(crate) fn is_spared(&self, session: &str) -> bool {
        matches!(self.0.get(session), Some(Step::Spared))
    }

    /// It has been given the messages, and this is to follow; nothing if no turn runs.
    pub(crate) fn read(&mut self, session: &str, rest: Option<Rest>) {
        match rest {
            Some(rest) => self.0.insert(session.to_owned(), Step::Read { rest, polled: HashSet::new() }),
            None => self.0.remove(session),
        };
    }

    /// It looks after what it shows, which it does each second for one session of every pane, and has drawn whatever came
    /// before it looks for the same one again. Gives the session that is to be told on.
    pub(crate) fn polled(&mut self, shown: &str) -> Option<(String, Rest)> {
        let mut drawn = None;
        for (session, step) in &mut self.0 {
            if let Step::Read { polled, .. } = step {
                let again = !polled.insert(shown.to_owned());
                drawn = drawn.or_else(|| again.then(|| session.clone()));
            }
        }
        let session = drawn?;
        match self.0.remove(&session) {
            Some(Step::Read { rest, .. }) => Some((session, rest)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Rest = Rest { number: 2, began: 5, upto: 9 };

    #[test]
    fn the_first_cancellation_of_who_comes_back_is_not_meant_and_the_second_is() {
        let mut returning = Returning::default();
        assert!(!returning.spares("s"), "it did not come back to it");
        returning.came("s");
        assert!(!returning.is_spared("s"));
        assert!(returning.spares("s") && returning.is_spared("s"));
        assert!(!returning.spares("s"));
        returning.came("t");
        returning.prompted("t");
        assert!(!returning.spares("t"), "who has prompted it may stop it");
    }

    #[test]
    fn the_rest_is_told_when_what_was_read_has_been_drawn() {
        let mut returning = Returning::default();
        returning.came("s");
        returning.spares("s");
        assert_eq!(returning.polled("s"), None);
        returning.read("s", Some(REST));
        assert!(!returning.is_spared("s"));
        assert_eq!((returning.polled("s"), returning.polled("other")), (None, None));
        assert_eq!(returning.polled("other"), Some(("s".to_owned(), REST)), "any pane that is drawn twice will do");
        assert_eq!(returning.polled("other"), None);
        returning.came("s");
        returning.spares("s");
        returning.read("s", None);
        assert_eq!((returning.polled("s"), returning.polled("s")), (None, None));
    }
}
