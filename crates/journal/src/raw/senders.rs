//! Whose the bytes of stdin are, where several write to it: who sends a piece again after a crash is told how much
//! of its own was accepted, whatever others have written since.
//!
//! Only a change of sender is recorded, before the first byte that follows: what was accepted of the last one is what the
//! ledger has grown by since.

use super::types::Answers;

/// Senders that are remembered, the latest ones: far more than type into one process between a crash and its end.
const REMEMBERED: usize = 64;
/// Senders from here on are the terminal itself: the rest of the number is the place in the output of the question that is
/// answered.
const TERMINAL: u64 = 0xffff << 48;

/// A client's number, which is never one of the terminal's.
pub(crate) fn somebody(sender: u64) -> u64 {
    if sender < TERMINAL { sender } else { sender >> 16 }
}

/// The terminal as the sender of the answer to the question that ends at this place of the output.
pub(crate) fn terminal(asked: u64) -> u64 {
    TERMINAL | asked
}

/// From here on stdin is one sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Nobody in particular is 0.
    pub(crate) sender: u64,
    /// Where in the ledger it begins.
    pub(crate) at: u64,
    /// What was accepted of this sender before.
    pub(crate) before: u64,
}

/// All turns, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Senders {
    /// What was accepted in turns that are over, the latest sender last.
    over: Vec<(u64, u64)>,
    current: Option<Turn>,
    /// What the terminal answered in turns that are over, in bytes, and up to which question.
    answered: u64,
    answers: Answers,
}

impl Senders {
    pub(crate) fn begin(&mut self, turn: Turn) {
        if turn.sender >= TERMINAL && turn.before == 0 {
            self.answers = Answers { count: self.answers.count.saturating_add(1), upto: turn.sender - TERMINAL };
        }
        if let Some(last) = self.current.replace(turn) {
            if last.sender >= TERMINAL {
                self.answered += turn.at.saturating_sub(last.at);
            }
            self.over.retain(|(sender, _)| *sender != last.sender);
            self.over.push((last.sender, last.before + turn.at.saturating_sub(last.at)));
            let excess = self.over.len().saturating_sub(REMEMBERED);
            self.over.drain(..excess);
        }
    }

    /// How much of this sender's was accepted, when the ledger is this long.
    pub(crate) fn accepted(&self, sender: u64, applied: u64) -> u64 {
        match self.current {
            Some(turn) if turn.sender == sender => turn.before + applied.saturating_sub(turn.at),
            _ => self.over.iter().find(|(known, _)| *known == sender).map_or(0, |(_, accepted)| *accepted),
        }
    }

    /// How much of a ledger of this length is the terminal's.
    pub(crate) fn answered(&self, applied: u64) -> u64 {
        let current = self.current.filter(|turn| turn.sender >= TERMINAL);
        self.answered + current.map_or(0, |turn| applied.saturating_sub(turn.at))
    }

    /// The questions whose answers were begun.
    pub(crate) fn answers(&self) -> Answers {
        self.answers
    }

    /// The record that must be written before `sender` adds to a ledger of this length.
    pub(crate) fn change(&self, sender: Option<u64>, applied: u64) -> Option<Turn> {
        let sender = match (sender, self.current) {
            // Where nobody gave a name there is nothing to tell apart.
            (None, None) => return None,
            (sender, _) => sender.unwrap_or(0),
        };
        let goes_on = self.current.is_some_and(|turn| turn.sender == sender);
        (!goes_on).then(|| Turn { sender, at: applied, before: self.accepted(sender, applied) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `len` bytes of a sender; gives back the new length and whether a record was needed.
    fn add(senders: &mut Senders, sender: Option<u64>, applied: u64, len: u64) -> (u64, bool) {
        let change = senders.change(sender, applied);
        if let Some(turn) = change {
            senders.begin(turn);
        }
        (applied + len, change.is_some())
    }

    #[test]
    fn each_sender_is_told_what_was_accepted_of_its_own() {
        let mut senders = Senders::default();
        let (mut end, mut records) = (0, 0);
        for (sender, len) in [(None, 9), (Some(1), 3), (Some(1), 4), (Some(2), 5), (None, 7), (Some(1), 1)] {
            let (next, recorded) = add(&mut senders, sender, end, len);
            (end, records) = (next, records + u32::from(recorded));
        }
        assert_eq!((senders.accepted(1, end), senders.accepted(2, end), senders.accepted(3, end)), (8, 5, 0));
        assert_eq!(records, 4, "only changes are recorded");
    }

    #[test]
    fn a_turn_that_was_recorded_and_not_begun_gave_its_sender_nothing() {
        let mut senders = Senders::default();
        let (end, _) = add(&mut senders, Some(1), 0, 3);
        let (end, _) = add(&mut senders, Some(2), end, 0);
        let (end, _) = add(&mut senders, Some(1), end, 2);
        assert_eq!((senders.accepted(1, end), senders.accepted(2, end)), (5, 0));
    }

    #[test]
    fn what_the_terminal_answers_is_in_nobodys_count_and_each_question_is_answered_once() {
        let mut senders = Senders::default();
        let (end, _) = add(&mut senders, None, 0, 5);
        assert_eq!(senders.answered(end), 0);
        let (end, _) = add(&mut senders, Some(terminal(100)), end, 10);
        assert_eq!((senders.answered(end), senders.accepted(terminal(100), end)), (10, 10));
        let (end, _) = add(&mut senders, Some(7), end, 3);
        let (end, _) = add(&mut senders, None, end, 1);
        assert_eq!((senders.answered(end), senders.accepted(7, end)), (10, 3));
        let (end, _) = add(&mut senders, Some(terminal(200)), end, 4);
        // A daemon died in the middle: the rest is the same answer.
        assert_eq!((senders.accepted(terminal(200), end), senders.answers()), (4, Answers { count: 2, upto: 200 }));
        let (end, again) = add(&mut senders, Some(terminal(200)), end, 6);
        assert_eq!((again, senders.answered(end), senders.answers().count), (false, 20, 2));
        assert!(somebody(u64::MAX) < TERMINAL && somebody(7) == 7, "no client is the terminal");
    }

    #[test]
    fn the_number_of_senders_costs_no_memory() {
        let mut senders = Senders::default();
        for sender in 1..10_000 {
            add(&mut senders, Some(sender), sender, 1);
        }
        assert!(senders.over.len() <= REMEMBERED);
        assert_eq!((senders.accepted(9_998, 10_000), senders.accepted(1, 10_000)), (1, 0));
    }
}
