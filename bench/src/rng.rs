//! Seeded randomness: the same seed gives the same run, as far as the kernel's scheduler allows.
//! Not for secrets.

use std::time::Duration;

/// SplitMix64: tiny, good enough to place kills and sizes, and each value depends on the seed alone.
#[derive(Clone)]
pub(crate) struct Rng(u64);

/// The finaliser of SplitMix64: a bijection that spreads one changed bit over the whole word.
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// 2^64 divided by the golden ratio, odd: steps through all words without a short cycle.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ GOLDEN))
    }

    /// A generator of its own for one part of the run, so that parts do not disturb each other.
    pub(crate) fn fork(&self, label: u64) -> Self {
        Self::new(self.0 ^ mix(label.wrapping_add(GOLDEN)))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        low + self.word() % span.max(1)
    }

    pub(crate) fn size(&mut self, low: usize, high: usize) -> usize {
        usize::try_from(self.between(low as u64, high as u64)).unwrap_or(low)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.between(1, 100) <= chance
    }

    pub(crate) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut one = Rng::new(7);
        let mut two = Rng::new(7);
        let mut other = Rng::new(8);
        let first: Vec<u64> = (0..8).map(|_| one.word()).collect();
        assert_eq!(first, (0..8).map(|_| two.word()).collect::<Vec<_>>());
        assert_ne!(first, (0..8).map(|_| other.word()).collect::<Vec<_>>());
    }

    #[test]
    fn a_range_includes_both_of_its_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..200).map(|_| rng.between(3, 5)).collect();
        for wanted in 3..=5 {
            assert!(drawn.contains(&wanted));
        }
        assert!(drawn.iter().all(|n| (3..=5).contains(n)));
    }
}
