//! How far the clients of this door have read a session: kept by the engine, so that it outlives connections and daemons.
//!
//! Streams move one place forward. What a stream that was cut off did not deliver stays owed, as stretches of records, until
//! somebody asks for it. All of it is written at once, so that nothing is lost or repeated whatever dies in between; only what
//! a client was given and nobody came to note may come twice. Everything here may wait for the disk.

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
const JOINED: u64 = 1 << 62;

/// A stretch of records: after the first, up to and including the second.
pub(crate) type Stretch = (u64, u64);

/// Where the clients of a session are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Noted {
    /// What streams have delivered.
    at: u64,
    /// A stream began and did not end as it should.
    away: bool,
    /// What is owed beside what is after `at`, oldest first.
    owed: Vec<Stretch>,
    /// The oldest stretch was several, and holds what was delivered between them.
    joined: bool,
}

impl Noted {
    /// The numbers that are written together.
    fn numbers(&self) -> Vec<u64> {
        let flag = |is: bool, bit: u64| if is { bit } else { 0 };
        let (flags, owed) = (flag(self.away, AWAY) | flag(self.joined, JOINED), self.owed.len() as u64 & 0xff);
        let first = flags | (owed << AT_BITS) | (self.at & ((1 << AT_BITS) - 1));
        std::iter::once(first).chain(self.owed.iter().flat_map(|(from, to)| [*from, *to])).collect()
    }

    fn of(numbers: &[u64]) -> Option<Self> {
        let (first, rest) = numbers.split_first()?;
        let owed = usize::try_from((first >> AT_BITS) & 0xff).unwrap_or_default();
        let owed = rest.as_chunks().0.iter().take(owed).map(|[from, to]| (*from, *to)).collect();
        Some(Self { at: first & ((1 << AT_BITS) - 1), away: first & AWAY != 0, owed, joined: first & JOINED != 0 })
    }

    /// This stretch was not delivered either.
    fn owe(&mut self, stretch: Stretch) {
        self.owed.push(stretch);
        if self.owed.len() > OWED_MAX {
            let (_, end) = self.owed.remove(1);
            if let Some(oldest) = self.owed.first_mut() {
                oldest.1 = end;
            }
            self.joined = true;
        }
    }

    /// Everything up to this record of the first `whole` stretches and the one after them was delivered.
    fn paid(&mut self, whole: usize, upto: u64) {
        self.joined &= whole == 0;
        self.owed.drain(..whole.min(self.owed.len()));
        match self.owed.first_mut() {
            Some(first) if upto > first.0 => first.0 = upto,
            Some(_) => {}
            None => self.at = upto.max(self.at),
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
        let rest = (self.noted.at < last).then_some((self.noted.at, last));
        self.noted.owed.iter().copied().chain(rest).collect()
    }

    /// The stretches that a stream has not delivered and will not.
    pub(crate) fn behind(&self) -> Vec<Stretch> {
        self.noted.owed.clone()
    }

    /// Whether the oldest stretch holds what was delivered too.
    pub(crate) fn is_joined(&self) -> bool {
        self.noted.joined
    }

    /// A stream begins after this record. What was not delivered before stays owed.
    pub(crate) fn begin(&mut self, wait: &MayWait, after: u64) -> io::Result<()> {
        let gap = (self.noted.at, after);
        if self.noted.at < after && says_something(wait, &self.session, gap)? {
            self.noted.owe(gap);
        }
        (self.noted.at, self.noted.away) = (after, true);
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

    /// Everything up to this record of the first `whole` stretches and the one after them was delivered, and the client is
    /// back.
    pub(crate) fn paid(&mut self, whole: usize, upto: u64) -> io::Result<()> {
        self.noted.paid(whole, upto);
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
    (0..(number >> AT_BITS) & 0xff).map(|index| Ok((end(index, "from")?, end(index, "to")?))).collect()
}

/// Whether a client would get anything out of these records.
fn says_something(wait: &MayWait, session: &Session, (from, to): Stretch) -> io::Result<bool> {
    let mut reader = Reader::after(wait, session, from)?;
    while let Some((record, events)) = reader.next(wait)? {
        if record > to {
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

    #[test]
    fn a_place_is_read_as_it_was_written_and_fits_a_page() {
        for at in [0, 1, 77, (1 << AT_BITS) - 1] {
            for (away, joined) in [(false, false), (true, false), (false, true)] {
                for owed in [0, 1, 5, OWED_MAX as u64] {
                    let noted = Noted { at, away, owed: (0..owed).map(|n| (2 * n, 2 * n + 1)).collect(), joined };
                    assert_eq!(Noted::of(&noted.numbers()), Some(noted.clone()));
                    assert!(noted.numbers().len() <= 512);
                    let mut longer = noted.numbers();
                    longer.extend([9; 4]);
                    assert_eq!(Noted::of(&longer), Some(noted), "what a longer list left behind means nothing");
                }
            }
        }
        assert_eq!(Noted::of(&[]), None);
    }

    #[test]
    fn every_gap_is_owed_by_itself_up_to_the_bound_and_beyond_it_that_is_known() {
        let mut noted = Noted::default();
        let gap = |n: u64| (10 * n, 10 * n + 5);
        (0..OWED_MAX as u64).for_each(|n| noted.owe(gap(n)));
        assert_eq!((noted.owed.len(), noted.joined), (OWED_MAX, false));
        noted.owe(gap(OWED_MAX as u64));
        assert_eq!((noted.owed.len(), noted.joined), (OWED_MAX, true));
        assert_eq!(noted.owed.first(), Some(&(0, 15)));
        assert_eq!(noted.owed.get(1), Some(&gap(2)));
        noted.paid(0, 7);
        assert_eq!((noted.owed.first(), noted.joined), (Some(&(7, 15)), true), "a part of it");
        noted.paid(1, 15);
        assert_eq!((noted.owed.first(), noted.joined), (Some(&gap(2)), false), "all of it");
        noted.paid(OWED_MAX - 1, 9999);
        assert_eq!((noted.owed.len(), noted.at), (0, 9999));
    }
}
