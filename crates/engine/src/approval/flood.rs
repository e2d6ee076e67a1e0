//! How many of many are worth a record of their own: whoever is refused may try again as fast as it can, each record waits
//! for the disk, and the log keeps them all.

/// So many at once, which is more than any mistake makes.
const AT_ONCE: u64 = 32;
/// After those, one in this time.
const EVERY_MS: u64 = 1000;

/// Attempts that were recorded, and those that were only counted.
#[derive(Debug, Default)]
pub(super) struct Flood {
    /// The time up to which records are spent, since boot; it runs ahead of the clock by at most `AT_ONCE` records.
    spent: u64,
    skipped: u64,
}

impl Flood {
    /// Whether one that comes now gets a record; one that does not is counted.
    pub(super) fn counts(&mut self, now: u64) -> bool {
        let counts = self.has_room(now);
        match counts {
            true => self.spent = self.spent.max(now) + EVERY_MS,
            false => self.skipped += 1,
        }
        counts
    }

    /// How many have been only counted, once there is room for a record that says so.
    pub(super) fn skipped(&self, now: u64) -> Option<u64> {
        Some(self.skipped).filter(|skipped| *skipped > 0 && self.has_room(now))
    }

    /// They have been told of.
    pub(super) fn told(&mut self) {
        self.skipped = 0;
        self.spent += EVERY_MS;
    }

    /// Nothing is left to be told, and one that comes now is the first.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.skipped == 0 && self.spent <= now
    }

    fn has_room(&self, now: u64) -> bool {
        self.spent < now + AT_ONCE * EVERY_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_a_few_are_recorded_and_the_rest_is_counted() {
        let mut flood = Flood::default();
        let now = 1_000_000;
        let recorded = (0..1000).filter(|_| flood.counts(now)).count() as u64;
        assert_eq!((recorded, flood.skipped(now)), (AT_ONCE, None), "no room yet to say so");
        let later = now + 2 * EVERY_MS;
        assert_eq!(flood.skipped(later), Some(1000 - AT_ONCE));
        flood.told();
        assert_eq!(flood.skipped(later), None);
        assert!(flood.counts(later), "one more in its time");
        assert!(!flood.counts(later));
    }
}
