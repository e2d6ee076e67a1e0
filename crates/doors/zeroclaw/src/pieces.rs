//! Blocks that come in pieces first and whole afterwards: each word is told once, and what was cut off is not lost.

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Answer,
    Thought,
}

/// The block whose pieces have come, and not yet its whole.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    open: Option<(Voice, String)>,
}

impl Pieces {
    /// A piece of a block.
    pub(crate) fn piece(&mut self, voice: Voice, text: &str) {
        match &mut self.open {
            Some((open, told)) if *open == voice => told.push_str(text),
            open => *open = Some((voice, text.to_owned())),
        }
    }

    /// A whole block: what of it did not come in pieces.
    pub(crate) fn whole<'a>(&mut self, voice: Voice, text: &'a str) -> &'a str {
        let told = self.open.take_if(|(open, _)| *open == voice).map(|(_, told)| told).unwrap_or_default();
        text.strip_prefix(told.as_str()).unwrap_or(text)
    }

    /// Nothing follows: what had come until then.
    pub(crate) fn cut(&mut self) -> Option<(Voice, String)> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_block_adds_what_its_pieces_lacked() {
        let mut pieces = Pieces::default();
        pieces.piece(Voice::Answer, "a ");
        pieces.piece(Voice::Answer, "b");
        assert_eq!(pieces.whole(Voice::Answer, "a b c"), " c");
        assert_eq!(pieces.whole(Voice::Answer, "d"), "d");
        pieces.piece(Voice::Thought, "hm");
        assert_eq!(pieces.whole(Voice::Answer, "e"), "e");
        assert_eq!(pieces.cut(), Some((Voice::Thought, "hm".to_owned())));
        assert_eq!(pieces.cut(), None);
    }
}
