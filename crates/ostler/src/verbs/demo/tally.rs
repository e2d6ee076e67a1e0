//! What was lost: the words that the agent was to say, held against those that arrived.

use sha2::{Digest, Sha256};

/// The pieces in which the agent says a text.
pub(super) fn pieces(text: &str) -> Vec<String> {
    text.split_inclusive(char::is_whitespace).map(str::to_owned).collect()
}

/// Two texts compared, piece by piece and in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) words: usize,
    /// Said, and not heard.
    pub(super) lost: usize,
    /// Heard, and not said, or heard once more.
    pub(super) doubled: usize,
    /// The beginnings of both texts' SHA-256.
    pub(super) said: String,
    pub(super) heard: String,
}

impl Tally {
    pub(super) fn of(said: &[String], heard: &[String]) -> Self {
        let common = longest_common(said, heard);
        Self {
            words: said.len(),
            lost: said.len() - common,
            doubled: heard.len() - common,
            said: fingerprint(said),
            heard: fingerprint(heard),
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.said == self.heard
    }
}

/// How many pieces both have in the same order.
fn longest_common(left: &[String], right: &[String]) -> usize {
    let mut row = vec![0; right.len() + 1];
    for a in left {
        let (mut before, mut last) = (0, 0);
        for (b, cell) in right.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            last = if a == b { before + 1 } else { above.max(last) };
            (*cell, before) = (last, above);
        }
    }
    row.last().copied().unwrap_or(0)
}

fn fingerprint(pieces: &[String]) -> String {
    let digest = pieces.iter().fold(Sha256::new(), |digest, piece| digest.chain_update(piece)).finalize();
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(heard: &str) -> (usize, usize, bool) {
        let tally = Tally::of(&pieces("one two three four"), &pieces(heard));
        (tally.lost, tally.doubled, tally.is_whole())
    }

    #[test]
    fn every_word_that_is_missing_or_too_many_is_counted() {
        assert_eq!(tally("one two three four"), (0, 0, true));
        assert_eq!(tally("one two four"), (1, 0, false));
        assert_eq!(tally("one two two three four"), (0, 1, false));
        assert_eq!(tally("one three two four"), (1, 1, false));
        assert_eq!(tally("one two"), (3, 1, false));
        assert_eq!(tally(""), (4, 0, false));
    }
}
