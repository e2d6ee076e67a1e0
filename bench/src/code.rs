//! Position-coded streams: every byte is a function of its position and of the stream's seed, so a receiver
//! knows what must stand at each position without keeping a copy of what was sent.

use crate::rng::{GOLDEN, mix};

/// 32 printable letters: a text byte carries five bits of its position's word.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyzABCDEF";

/// A text stream is lines of 64 bytes, newline included.
const LINE: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    Binary,
    Text,
}

/// One endless coded stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    seed: u64,
    alphabet: Alphabet,
}

impl Code {
    pub(crate) fn new(seed: u64, alphabet: Alphabet) -> Self {
        Self { seed, alphabet }
    }

    /// Writes the bytes that stand at `position..position + out.len()`.
    pub(crate) fn fill(&self, position: u64, out: &mut [u8]) {
        let skip = usize::try_from(position % 8).unwrap_or(0);
        let mut index = position / 8;
        let (head, body) = out.split_at_mut(((8 - skip) % 8).min(out.len()));
        if !head.is_empty() {
            let word = self.word(index).to_le_bytes();
            for (to, from) in head.iter_mut().zip(word.iter().skip(skip)) {
                *to = *from;
            }
            index += 1;
        }
        for block in body.chunks_mut(8) {
            let word = self.word(index).to_le_bytes();
            for (to, from) in block.iter_mut().zip(word) {
                *to = from;
            }
            index += 1;
        }
        if self.alphabet == Alphabet::Text {
            print(position, out);
        }
    }

    fn word(&self, index: u64) -> u64 {
        mix(self.seed.wrapping_add(index.wrapping_mul(GOLDEN)))
    }
}

/// Turns coded words into lines of letters.
fn print(position: u64, out: &mut [u8]) {
    for (at, byte) in (position..).zip(out.iter_mut()) {
        *byte =
            if at % LINE == LINE - 1 { b'\n' } else { LETTERS.get(usize::from(*byte & 31)).copied().unwrap_or(b'a') };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_does_not_depend_on_how_the_stream_was_cut() {
        for alphabet in [Alphabet::Binary, Alphabet::Text] {
            let code = Code::new(99, alphabet);
            let mut whole = vec![0; 1000];
            code.fill(0, &mut whole);
            for (start, length) in [(0, 1), (1, 7), (3, 5), (7, 2), (8, 64), (13, 500), (999, 1), (5, 0)] {
                let mut part = vec![0; length];
                code.fill(start as u64, &mut part);
                assert_eq!(part, whole[start..start + length], "{start}+{length}");
            }
        }
    }

    #[test]
    fn text_is_lines_of_printable_letters() {
        let mut bytes = vec![0; 640];
        Code::new(5, Alphabet::Text).fill(0, &mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.lines().count(), 10);
        assert!(text.lines().all(|line| line.len() == 63 && line.chars().all(|c| c.is_ascii_alphabetic())));
    }

    #[test]
    fn streams_of_two_seeds_differ() {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        Code::new(1, Alphabet::Binary).fill(0, &mut one);
        Code::new(2, Alphabet::Binary).fill(0, &mut two);
        assert_ne!(one, two);
    }
}
