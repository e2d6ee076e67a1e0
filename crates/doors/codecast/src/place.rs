//! How far the clients of this door have read a session: kept by the engine, so that it outlives connections and daemons.
//!
//! Streams move one place forward. What a stream that was cut off did not deliver stays owed, as stretches of records, until
//! somebody asks for it. Written so that a kill at any moment can make an event come twice, and never not at all.
//! Everything here may wait for the disk.

use std::io;

use ostler_engine::session::{Bookmark, Session};

use crate::reader::Reader;

/// Stretches that are remembered. A client that is cut off more often without ever asking gets the oldest two as one,
/// and with them what it has seen between them.
const OWED_MAX: usize = 4;
const MARK: &str = "codecast";
const AT_BITS: u32 = 48;
const AWAY: u64 = 1 << 63;

/// A stretch of records: after the first, up to and including the second.
pub(crate) type Stretch = (u64, u64);

/// Where the clients of a session are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed {
    /// What streams have delivered.
    at: u64,
    /// A stream began and did not end as it should.
    away: bool,
    /// How many stretches are owed beside what is after `at`.
    owed: usize,
}

impl Packed {
    /// One number, so that one write changes all of it.
    fn number(self) -> u64 {
        let away = if self.away { AWAY } else { 0 };
        away | ((self.owed as u64 & 0xff) << AT_BITS) | (self.at & ((1 << AT_BITS) - 1))
    }

    fn of(number: u64) -> Self {
        let owed = usize::try_from((number >> AT_BITS) & 0xff).unwrap_or_default().min(OWED_MAX);
        Self { at: number & ((1 << AT_BITS) - 1), away: number & AWAY != 0, owed }
    }
}

/// A session's place, as it was when it was looked at. Whoever changes it holds the session's lock.
pub(crate) struct Place {
    session: Session,
    mark: Bookmark,
    packed: Packed,
    owed: Vec<Stretch>,
}

impl Place {
    pub(crate) fn of(session: &Session) -> io::Result<Self> {
        let mark = session.bookmark(MARK)?;
        // Sessions of other doors begin, for this one, when somebody first looks.
        let first = || if session.view().door == crate::DOOR { 0 } else { session.view().last };
        let packed = mark.get().map_or_else(|| Packed { at: first(), away: false, owed: 0 }, Packed::of);
        let mut owed = Vec::with_capacity(packed.owed);
        for index in 0..packed.owed {
            let [from, to] = ends(session, index)?;
            owed.push((from.get().unwrap_or_default(), to.get().unwrap_or_default()));
        }
        Ok(Self { session: session.clone(), mark, packed, owed })
    }

    /// Whether the last stream ended as it should, or the client has said since that it is there.
    pub(crate) fn is_here(&self) -> bool {
        !self.packed.away
    }

    /// What was not delivered, up to this record.
    pub(crate) fn owed(&self, last: u64) -> Vec<Stretch> {
        let rest = (self.packed.at < last).then_some((self.packed.at, last));
        self.owed.iter().copied().chain(rest).collect()
    }

    /// The stretches that a stream has not delivered and will not.
    pub(crate) fn behind(&self) -> Vec<Stretch> {
        self.owed.clone()
    }

    /// A stream begins after this record. What was not delivered before stays owed.
    pub(crate) fn begin(&mut self, after: u64) -> io::Result<()> {
        if self.packed.at < after && says_something(&self.session, (self.packed.at, after))? {
            self.owed.push((self.packed.at, after));
            if self.owed.len() > OWED_MAX {
                let (_, end) = self.owed.remove(1);
                if let Some(first) = self.owed.first_mut() {
                    first.1 = end;
                }
            }
        }
        self.packed = Packed { at: after, away: true, owed: 0 };
        self.save()
    }

    /// A stream has delivered everything up to this record.
    pub(crate) fn reached(&mut self, record: u64) -> io::Result<()> {
        self.packed.at = record.max(self.packed.at);
        self.save()
    }

    /// A stream ended as it should, or the client is back.
    pub(crate) fn here(&mut self) -> io::Result<()> {
        self.packed.away = false;
        self.save()
    }

    /// Everything up to this record of the first `whole` stretches and the one after them was delivered.
    pub(crate) fn paid(&mut self, whole: usize, upto: u64) -> io::Result<()> {
        let stretches = self.owed.len();
        self.owed.drain(..whole.min(stretches));
        match self.owed.first_mut() {
            Some(first) if upto > first.0 => first.0 = upto,
            Some(_) => {}
            None => self.packed.at = upto.max(self.packed.at),
        }
        self.save()
    }

    fn save(&mut self) -> io::Result<()> {
        for (index, (from, to)) in self.owed.iter().enumerate() {
            let [first, last] = ends(&self.session, index)?;
            first.set(*from)?;
            last.set(*to)?;
        }
        self.packed.owed = self.owed.len();
        self.mark.set(self.packed.number())
    }
}

fn ends(session: &Session, index: usize) -> io::Result<[Bookmark; 2]> {
    Ok([session.bookmark(&format!("{MARK}-{index}-from"))?, session.bookmark(&format!("{MARK}-{index}-to"))?])
}

/// Whether a client would get anything out of these records.
fn says_something(session: &Session, (from, to): Stretch) -> io::Result<bool> {
    let mut reader = Reader::after(session, from)?;
    while let Some((record, events)) = reader.next()? {
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
    fn a_place_is_one_number() {
        for at in [0, 1, 77, (1 << AT_BITS) - 1] {
            for away in [false, true] {
                for owed in 0..=OWED_MAX {
                    let packed = Packed { at, away, owed };
                    assert_eq!(Packed::of(packed.number()), packed);
                }
            }
        }
    }
}
