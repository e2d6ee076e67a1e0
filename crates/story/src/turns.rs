//! Which turn everything in a session's journal belongs to: the fold that readers of whole conversations share.
//!
//! A prompt may be accepted while another is being answered; it stands where its own turn begins. Pieces of an answer belong
//! to the block that follows them, whatever stands in between, until the turn goes on without it: then they are all that there
//! will ever be of it.

use std::collections::BTreeMap;

use crate::event::Event;

/// The fold. `P` is what a reader keeps of a prompt until its turn comes.
#[derive(Debug)]
pub struct Turns<P> {
    waiting: BTreeMap<u64, P>,
    /// Pieces whose whole has not come yet.
    pieces: String,
}

impl<P> Default for Turns<P> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), pieces: String::new() }
    }
}

impl<P> Turns<P> {
    /// A prompt was accepted: its turn is still to come.
    pub fn accepted(&mut self, number: u64, prompt: P) {
        self.waiting.insert(number, prompt);
    }

    /// A prompt will never be answered.
    pub fn dropped(&mut self, number: u64) -> Option<P> {
        self.waiting.remove(&number)
    }

    /// A prompt's turn begins.
    pub fn begins(&mut self, number: u64) -> Option<P> {
        self.waiting.remove(&number)
    }

    /// The agent said something: the words that this cut off, if it did.
    pub fn heard(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::TextDelta { text } => self.pieces.push_str(text),
            Event::Text { .. } => self.pieces.clear(),
            Event::ToolCall { parent: None, .. } | Event::TurnEnded { .. } => return self.cut(),
            _ => {}
        }
        None
    }

    /// Nothing follows, because the process or the journal ended: the words that never became whole.
    pub fn cut(&mut self) -> Option<String> {
        let cut_off = self.is_cut_off();
        let pieces = std::mem::take(&mut self.pieces);
        cut_off.then_some(pieces)
    }

    /// Whether [`cut`](Self::cut) would give any words.
    pub fn is_cut_off(&self) -> bool {
        !self.pieces.trim().is_empty()
    }

    /// The prompts whose turn has not come, oldest first.
    pub fn waiting(&mut self) -> BTreeMap<u64, P> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EndReason;

    fn delta(text: &str) -> Event {
        Event::TextDelta { text: text.into() }
    }

    #[test]
    fn a_prompt_in_mid_answer_waits_for_its_turn_and_cuts_nothing_off() {
        let mut turns = Turns::default();
        turns.accepted(1, "one");
        assert_eq!(turns.begins(1), Some("one"));
        assert_eq!(turns.heard(&delta("half an ")), None);
        turns.accepted(2, "two");
        turns.accepted(3, "three");
        assert_eq!(turns.heard(&Event::Notice { text: "n".into() }), None);
        assert_eq!(turns.heard(&delta("answer")), None);
        assert_eq!(turns.heard(&Event::Text { text: "half an answer".into() }), None);
        assert_eq!(turns.heard(&Event::turn_ended(EndReason::Completed)), None);
        assert_eq!((turns.begins(2), turns.dropped(3), turns.begins(2)), (Some("two"), Some("three"), None));
    }

    #[test]
    fn what_was_cut_off_is_told_once() {
        let mut turns = Turns::<()>::default();
        turns.heard(&delta("half"));
        assert_eq!(turns.heard(&Event::turn_ended(EndReason::Interrupted)), Some("half".to_owned()));
        assert_eq!(turns.cut(), None);
    }
}
