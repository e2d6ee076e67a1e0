//! How far the clients of this door have read a session: kept by the engine, so that it outlives connections and daemons.
//!
//! Streams move one place forward. What a stream that was cut off did not deliver stays owed, as stretches of records, until
//! somebody asks for it. All of it is written at once, so that nothing is lost whatever dies in between. What is being given is
//! noted before it goes out and its arrival after it: what stands between the two may have been seen, and is said to be so.
//! Everything here may wait for the disk.

use std::io;

use ostler_engine::MayWait;
use ostler_engine::session::{Bookmark, Session};

use crate::reader::Reader;

/// Stretches that are remembered: as many as fit a page with the rest. A client that is cut off more often without ever
/// asking gets the oldest two as one, and is told that it has seen some of that.
const OWED_MAX: usize = 255;
const MARK: &str = "codecast";
const AT_BITS: u32 = 48;
const AWAY: u64 = 1 << 63;
/// The oldest stretch may have been seen, as earlier versions say it.
const JOINED: u64 = 1 << 62;
/// One more number follows: what is being given.
const GIVEN: u64 = 1 << 61;
/// At the end of a stretch: it may have been seen.
const SEEN: u64 = 1 << 63;

/// A stretch of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// It begins behind this record.
    pub(crate) after: u64,
    /// Up to and including this one.
    pub(crate) to: u64,
    /// It was being delivered once, or holds what was.
    pub(crate) may_repeat: bool,
}

/// Where the clients of a session are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Noted {
    /// What streams have delivered.
    at: u64,
    /// A stream began and did not end as it should.
    away: bool,
    /// What is being delivered; nothing, if it is not beyond `at`.
    given: u64,
    /// What is owed beside what is after `at`, oldest first.
    owed: Vec<Stretch>,
}

impl Noted {
    /// The numbers that are written together.
    fn numbers(&self) -> Vec<u64> {
        let flag = |is: bool, bit: u64| if is { bit } else { 0 };
        let given = (self.given > self.at).then_some(self.given);
        let flags = flag(self.away, AWAY) | flag(given.is_some(), GIVEN);
        let first = flags | ((self.owed.len() as u64 & 0xff) << AT_BITS) | (self.at & ((1 << AT_BITS) - 1));
        let owed = self.owed.iter().flat_map(|owed| [owed.after, owed.to | flag(owed.may_repeat, SEEN)]);
        std::iter::once(first).chain(owed).chain(given).collect()
    }

    fn of(numbers: &[u64]) -> Option<Self> {
        let (first, rest) = numbers.split_first()?;
        let count = usize::try_from((first >> AT_BITS) & 0xff).unwrap_or_default();
        let pairs = rest.as_chunks().0.iter().take(count);
        let stretch = |[after, to]: &[u64; 2]| Stretch { after: *after, to: to & !SEEN, may_repeat: to & SEEN != 0 };
        let mut owed: Vec<Stretch> = pairs.map(stretch).collect();
        if let Some(oldest) = owed.first_mut() {
            oldest.may_repeat |= first & JOINED != 0;
        }
        let given = rest.get(2 * count).filter(|_| first & GIVEN != 0).copied().unwrap_or_default();
        Some(Self { at: first & ((1 << AT_BITS) - 1), away: first & AWAY != 0, given, owed })
    }

    /// What is after `at`, up to this record: first what may have been seen.
    fn rest(&self, last: u64) -> impl Iterator<Item = Stretch> + use<> {
        let seen = self.given.clamp(self.at, last.max(self.at));
        let stretches = [
            Stretch { after: self.at, to: seen, may_repeat: true },
            Stretch { after: seen, to: last, may_repeat: false },
        ];
        stretches.into_iter().filter(|stretch| stretch.after < stretch.to)
    }

    /// This stretch was not delivered either.
    fn owe(&mut self, stretch: Stretch) {
        self.owed.push(stretch);
        if self.owed.len() > OWED_MAX {
            let joined = self.owed.remove(1);
            if let Some(oldest) = self.owed.first_mut() {
                (oldest.to, oldest.may_repeat) = (joined.to, true);
            }
        }
    }

    /// Everything that is owed up to this record is about to be delivered.
    fn give(&mut self, upto: u64) {
        for stretch in self.owed.iter_mut().filter(|stretch| stretch.after < upto) {
            stretch.may_repeat = true;
        }
        self.given = self.given.max(upto);
    }

    /// Everything that is owed up to this record was delivered.
    fn paid(&mut self, upto: u64) {
        self.owed.retain(|stretch| stretch.to > upto);
        match self.owed.first_mut() {
            Some(first) => first.after = first.after.max(upto),
            None => self.at = self.at.max(upto),
        }
    }
}

/// A session's place, as it was when it was looked at. Whoever changes it holds the session's lock.
pub(crate) struct ReadPosition {
    session: Session,
    mark: Bookmark,
    noted: Noted,
}

impl ReadPosition {
    pub(crate) fn of(wait: &MayWait, session: &Session) -> io::Result<Self> {
        let mark = session.bookmark(wait, MARK)?;
        // Sessions of other doors begin, for this one, when somebody first looks.
        let first = || if session.view().door == crate::DOOR { 0 } else { session.view().last };
        let numbers = mark.all()?;
        let mut noted = Noted::of(&numbers).unwrap_or_else(|| Noted { at: first(), ..Noted::default() });
        if let [alone] = numbers.as_slice() {
            noted.owed = apart(wait, session, *alone)?;
        }
        Ok(Self { session: session.clone(), mark, noted })
    }

    /// Whether the last stream ended as it should, or the client has said since that it is there.
    pub(crate) fn is_here(&self) -> bool {
        !self.noted.away
    }

    /// What was not delivered, up to this record.
    pub(crate) fn owed(&self, last: u64) -> Vec<Stretch> {
        self.noted.owed.iter().copied().chain(self.noted.rest(last)).collect()
    }

    /// The stretches that a stream has not delivered and will not.
    pub(crate) fn behind(&self) -> Vec<Stretch> {
        self.noted.owed.clone()
    }

    /// A stream begins after this record. What was not delivered before stays owed.
    pub(crate) fn begin(&mut self, wait: &MayWait, after: u64) -> io::Result<()> {
        for gap in self.noted.rest(after) {
            if says_something(wait, &self.session, gap)? {
                self.noted.owe(gap);
            }
        }
        (self.noted.at, self.noted.given, self.noted.away) = (after, after, true);
        self.save()
    }

    /// A stream is about to deliver everything up to this record.
    pub(crate) fn giving(&mut self, record: u64) -> io::Result<()> {
        self.noted.given = record.max(self.noted.given);
        self.save()
    }

    /// What is owed up to this record is about to be handed over.
    pub(crate) fn handing(&mut self, upto: u64) -> io::Result<()> {
        self.noted.give(upto);
        self.save()
    }

    /// A stream has delivered everything up to this record.
    pub(crate) fn reached(&mut self, record: u64) -> io::Result<()> {
        self.noted.at = record.max(self.noted.at);
        self.save()
    }

    /// A stream ended as it should, or the client is back.
    pub(crate) fn here(&mut self) -> io::Result<()> {
        self.noted.away = false;
        self.save()
    }

    /// Everything that is owed up to this record was delivered, and the client is back.
    pub(crate) fn paid(&mut self, upto: u64) -> io::Result<()> {
        self.noted.paid(upto);
        self.here()
    }

    fn save(&mut self) -> io::Result<()> {
        self.mark.set_all(&self.noted.numbers())
    }
}

/// The stretches of a place that an earlier version noted: each end in a file of its own.
fn apart(wait: &MayWait, session: &Session, number: u64) -> io::Result<Vec<Stretch>> {
    let end = |index: u64, which: &str| {
        session.bookmark(wait, &format!("{MARK}-{index}-{which}")).map(|mark| mark.get().unwrap_or_default())
    };
    let stretch = |index| Ok(Stretch { after: end(index, "from")?, to: end(index, "to")?, may_repeat: false });
    (0..(number >> AT_BITS) & 0xff).map(stretch).collect()
}

/// Whether a client would get anything out of these records.
fn says_something(wait: &MayWait, session: &Session, stretch: Stretch) -> io::Result<bool> {
    let mut reader = Reader::after(wait, session, stretch.after)?;
    while let Some((record, events)) = reader.next(wait)? {
        if record > stretch.to {
            break;
        }
        if !events.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(n: u64) -> Stretch {
        Stretch { after: 10 * n, to: 10 * n + 5, may_repeat: false }
    }

    #[test]
    fn a_place_is_read_as_it_was_written_and_fits_a_page() {
        for at in [0, 1, 77, (1 << AT_BITS) - 9] {
            for (away, may_repeat, given) in [(false, false, 0), (true, false, at + 8), (false, true, at + 1)] {
                for owed in [0, 1, 5, OWED_MAX as u64] {
                    let owed = (0..owed).map(|n| Stretch { may_repeat, ..gap(n) }).collect();
                    let noted = Noted { at, away, given, owed };
                    assert_eq!(Noted::of(&noted.numbers()), Some(noted.clone()));
                    assert!(noted.numbers().len() <= 512);
                    let mut longer = noted.numbers();
                    longer.extend([9; 4]);
                    assert_eq!(Noted::of(&longer), Some(noted), "what a longer list left behind means nothing");
                }
            }
        }
        assert_eq!(Noted::of(&[]), None);
        let joined = Noted::of(&[JOINED | (1 << AT_BITS) | 20, 0, 15]).unwrap();
        assert_eq!((joined.owed, joined.at), (vec![Stretch { after: 0, to: 15, may_repeat: true }], 20));
    }

    #[test]
    fn every_gap_is_owed_by_itself_up_to_the_bound_and_beyond_it_that_is_known() {
        let mut noted = Noted { at: 9000, ..Noted::default() };
        (0..OWED_MAX as u64).for_each(|n| noted.owe(gap(n)));
        assert!(noted.owed.len() == OWED_MAX && noted.owed.iter().all(|owed| !owed.may_repeat));
        noted.owe(gap(OWED_MAX as u64));
        assert_eq!(noted.owed.len(), OWED_MAX);
        assert_eq!(noted.owed[..2], [Stretch { after: 0, to: 15, may_repeat: true }, gap(2)]);
        noted.paid(7);
        assert_eq!(noted.owed.first(), Some(&Stretch { after: 7, to: 15, may_repeat: true }), "a part of it");
        noted.paid(15);
        assert_eq!(noted.owed.first(), Some(&gap(2)), "all of it");
        noted.paid(9999);
        assert_eq!((noted.owed.len(), noted.at), (0, 9999));
    }

    #[test]
    fn what_was_being_given_when_everything_died_may_have_been_seen() {
        let mut noted = Noted { at: 10, given: 14, ..Noted::default() };
        let rest = |noted: &Noted, last| noted.rest(last).map(|s| (s.after, s.to, s.may_repeat)).collect::<Vec<_>>();
        assert_eq!(rest(&noted, 20), [(10, 14, true), (14, 20, false)]);
        assert_eq!(rest(&noted, 12), [(10, 12, true)]);
        assert_eq!(rest(&noted, 9), []);
        noted.at = 14;
        assert_eq!(rest(&noted, 20), [(14, 20, false)], "it arrived");
        noted.owe(gap(0));
        noted.owe(gap(1));
        noted.give(7);
        assert_eq!(noted.owed, [Stretch { may_repeat: true, ..gap(0) }, gap(1)], "an answer was being handed over");
        noted.give(20);
        assert_eq!(rest(&noted, 21), [(14, 20, true), (20, 21, false)]);
        assert!(noted.owed.iter().all(|owed| owed.may_repeat));
    }
}
