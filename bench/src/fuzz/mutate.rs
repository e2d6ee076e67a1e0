//! Blind mutations: flips, cuts, repeats, numbers at the edge, pieces of other examples.

use crate::rng::Rng;

/// Inputs grow no larger than this.
const MAX_INPUT: usize = 16 << 10;

/// Mutants that are kept as examples for later ones.
const KEPT: usize = 512;

/// Pieces that parsers trip over.
const PIECES: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r\n",
    b"\0",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"9223372036854775807",
    b"9223372036854775808",
    b"1e400",
    b"5.0",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x90\xb4",
];

pub(crate) struct Mutator {
    rng: Rng,
    examples: usize,
    pool: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) fn new(seed: u64, examples: Vec<Vec<u8>>) -> Self {
        Self { rng: Rng::new(seed), examples: examples.len(), pool: examples }
    }

    fn pick(&mut self) -> Vec<u8> {
        let at = self.rng.size(0, self.pool.len().saturating_sub(1));
        self.pool.get(at).cloned().unwrap_or_default()
    }

    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = self.pick();
        for _ in 0..self.rng.between(0, 6) {
            self.mutate(&mut input);
        }
        input.truncate(MAX_INPUT);
        if self.rng.percent(2) {
            // The built-in examples always stay.
            let place = self.examples + self.rng.size(0, KEPT - 1);
            match self.pool.get_mut(place) {
                Some(old) => old.clone_from(&input),
                None => self.pool.push(input.clone()),
            }
        }
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.rng.size(0, input.len());
        let span = self.rng.size(0, (input.len() - at).min(64));
        match self.rng.between(0, 7) {
            0 => {
                let flip = 1 << self.rng.between(0, 7);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= flip;
                }
            }
            1 => {
                let value = self.rng.word() as u8;
                if let Some(byte) = input.get_mut(at) {
                    *byte = value;
                }
            }
            2 => drop(input.drain(at..at + span)),
            3 => {
                let copy: Vec<u8> = input.iter().skip(at).take(span).copied().collect();
                let times = self.rng.size(1, 40);
                input.splice(at..at, copy.repeat(times));
            }
            4 => {
                let piece = PIECES.get(self.rng.size(0, PIECES.len() - 1)).copied().unwrap_or_default();
                input.splice(at..at, piece.iter().copied());
            }
            5 => {
                let noise: Vec<u8> = (0..self.rng.between(1, 16)).map(|_| self.rng.word() as u8).collect();
                input.splice(at..at, noise);
            }
            6 => {
                let other = self.pick();
                let from = self.rng.size(0, other.len());
                let piece: Vec<u8> = other.into_iter().skip(from).take(256).collect();
                input.splice(at..at + span, piece);
            }
            _ => input.truncate(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed, vec![b"{\"a\":1}".to_vec(), b"hello".to_vec()]);
            (0..500).map(|_| mutator.next()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
    }

    #[test]
    fn inputs_vary_and_stay_bounded() {
        let mut mutator = Mutator::new(3, vec![b"seed".to_vec()]);
        let inputs: Vec<_> = (0..20_000).map(|_| mutator.next()).collect();
        assert!(inputs.iter().all(|input| input.len() <= MAX_INPUT));
        let distinct: std::collections::HashSet<_> = inputs.iter().collect();
        assert!(distinct.len() > inputs.len() / 2);
    }
}
