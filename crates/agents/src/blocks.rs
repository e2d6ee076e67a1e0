//! Puts the pieces of an answer together for agents that never send the whole.

use ostler_story::{Event, Voice};

use crate::lines::MAX_LINE;

/// The block being spoken.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    open: Option<(Voice, String)>,
}

impl Blocks {
    /// A piece came: the piece as an event, after the block before it if the voice changed or it grew too long.
    pub(crate) fn piece(&mut self, voice: Voice, piece: &str, events: &mut Vec<Event>) {
        if piece.is_empty() {
            return;
        }
        if let Some((speaking, text)) = &self.open
            && (*speaking != voice || text.len() + piece.len() > MAX_LINE)
        {
            self.close(events);
        }
        self.open.get_or_insert_with(|| (voice, String::new())).1.push_str(piece);
        events.push(match voice {
            Voice::Answer => Event::TextDelta { text: piece.to_owned() },
            Voice::Thought => Event::ThoughtDelta { text: piece.to_owned() },
        });
    }

    /// The whole came from the agent itself: forget the pieces.
    pub(crate) fn forget(&mut self) {
        self.open = None;
    }

    /// The block is over, if there is one.
    pub(crate) fn close(&mut self, events: &mut Vec<Event>) {
        match self.open.take() {
            Some((Voice::Answer, text)) => events.push(Event::Text { text }),
            Some((Voice::Thought, text)) => events.push(Event::Thought { text }),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_of_pieces_is_followed_by_the_whole() {
        let (mut blocks, mut events) = (Blocks::default(), Vec::new());
        blocks.piece(Voice::Thought, "hm", &mut events);
        blocks.piece(Voice::Answer, "a", &mut events);
        blocks.piece(Voice::Answer, "b", &mut events);
        blocks.close(&mut events);
        blocks.close(&mut events);
        let text = |text: &str| text.to_owned();
        assert_eq!(
            events,
            [
                Event::ThoughtDelta { text: text("hm") },
                Event::Thought { text: text("hm") },
                Event::TextDelta { text: text("a") },
                Event::TextDelta { text: text("b") },
                Event::Text { text: text("ab") },
            ]
        );
    }
}
