//! How many of many are worth a record of their own: whoever is refused may try again as fast as it can, each record waits
//! for the disk, and the log keeps them all.

use super::desk::Desk;
use super::store::{Change, StoreError};
use super::{Asker, Record, clock};

/// So many at once, which is more than any mistake makes.
const AT_ONCE: u64 = 32;
/// After those, one in this time.
const EVERY_MS: u64 = 1000;
/// Askers whose refusals are counted one by one; more share one count.
const FLOODS_MAX: usize = 256;

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

impl Desk {
    /// Somebody tried to decide who may not.
    pub(super) fn attempted(&mut self, id: &str, who: String, why: String) -> Result<(), StoreError> {
        if !self.attempts.counts(clock::boot_ms()) {
            return Ok(());
        }
        let record = Record::Attempted { who, why };
        self.append(&Change { about: Some(id), at_ms: clock::wall_ms(), records: &[&record], ..Change::default() })
    }

    /// Records how many attempts were not recorded one by one.
    pub(super) fn note_flood(&mut self, now: u64) -> Result<(), StoreError> {
        if let Some(more) = self.attempts.skipped(now) {
            self.log(&Record::Attempted { who: "several".into(), why: format!("{more} more attempts were refused") })?;
            self.attempts.told();
        }
        let more: Vec<_> =
            self.floods.iter().filter_map(|(who, flood)| Some((who.clone(), flood.skipped(now)?))).collect();
        for (who, more) in more {
            let why = format!("{more} more requests were refused");
            self.log(&Record::Attempted { who: who.clone(), why })?;
            if let Some(flood) = self.floods.get_mut(&who) {
                flood.told();
            }
        }
        self.floods.retain(|_, flood| !flood.is_over(now));
        Ok(())
    }

    /// A request was turned away before it could be asked.
    /// Of one asker a few are recorded, and the rest is counted.
    pub(super) fn refused(&mut self, asker: &Asker, record: &Record) -> Result<(), StoreError> {
        let mut who = who(asker);
        if self.floods.len() >= FLOODS_MAX && !self.floods.contains_key(&who) {
            who = "several".into();
        }
        match self.floods.entry(who).or_default().counts(clock::boot_ms()) {
            true => self.log(record),
            false => Ok(()),
        }
    }
}

/// Whose places a request takes: what the system says of the asker, and not what it claims.
pub(super) fn who(asker: &Asker) -> String {
    match &asker.verified_session {
        Some(session) => format!("uid {} in {session}", asker.uid),
        None => format!("uid {}", asker.uid),
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
