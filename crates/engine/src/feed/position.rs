//! A place in the feed, as readers keep it: the entry, how far into it, and a stamp of that entry. Whoever resumes with a stamp
//! that is not that entry's has read what a power loss took, or another feed, and is told so instead of being told too little.

use std::fmt;
use std::str::FromStr;

/// Bits of the time that the journal keeps for other things.
const STAMP_FROM: u32 = 11;

/// A place after something that was told. The default is before everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    pub(super) entry: u64,
    /// The last that was told of this entry; nothing when that is all of it.
    pub(super) index: Option<u64>,
    pub(super) stamp: Option<u32>,
}

/// What a phone's token has behind it: it was told so many of the events of that change, and not all of them.
const PARTLY_TOLD: char = ':';

/// A text that names no place in the feed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no position")]
pub struct NoPosition(String);

impl Position {
    /// After `index` of this entry.
    pub(super) fn within(entry: u64, index: u64, time_ns: u64) -> Self {
        Self { entry, index: Some(index), stamp: Some(stamp(time_ns)) }
    }

    /// The place before what this one is after.
    pub fn before(self) -> Self {
        match self.index {
            Some(index) if index > 0 => Self { index: Some(index - 1), ..self },
            Some(_) | None => Self::after(self.entry.saturating_sub(1)),
        }
    }

    /// After the whole of this entry.
    pub fn after(entry: u64) -> Self {
        Self { entry, index: None, stamp: None }
    }
}

/// What an entry of this time is stamped with.
pub(super) fn stamp(time_ns: u64) -> u32 {
    (time_ns >> STAMP_FROM) as u32
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.entry)?;
        if let Some(index) = self.index {
            write!(f, ".{index}")?;
        }
        self.stamp.map_or(Ok(()), |stamp| write!(f, "-{stamp:08x}"))
    }
}

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let parse = || {
            // Whoever was told only a part of a change is told it again: nothing may be missing.
            if let Some((whole, told)) = text.split_once(PARTLY_TOLD) {
                let whole: Self = whole.parse().ok()?;
                return Some(if told.parse::<usize>().ok()? == 0 { whole } else { whole.before() });
            }
            let (place, stamp) = match text.split_once('-') {
                Some((place, stamp)) => (place, Some(u32::from_str_radix(stamp, 16).ok()?)),
                None => (text, None),
            };
            let (entry, index) = match place.split_once('.') {
                Some((entry, index)) => (entry, Some(index.parse().ok()?)),
                None => (place, None),
            };
            Some(Self { entry: entry.parse().ok()?, index, stamp })
        };
        parse().ok_or_else(|| NoPosition(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_as_it_was_written() {
        for position in [Position::default(), Position::after(812), Position::within(812, 3, 1_700_000_000_000_000_000)]
        {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        assert_eq!("812".parse(), Ok(Position::after(812)));
        assert_eq!("812.3".parse(), Ok(Position { entry: 812, index: Some(3), stamp: None }));
        for bad in ["", "x", "-1", "1.", "1.x", "1.2-", "1.2-zz", "1.2.3", ":1", "1:", "1:x", "1:-1", "1:2:3"] {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_phone_that_was_told_a_part_of_a_change_is_told_it_again() {
        let whole = Position::within(812, 3, 1_700_000_000_000_000_000);
        assert_eq!(format!("{whole}:2").parse(), Ok(whole.before()));
        assert_eq!("812:1".parse(), Ok(Position::after(811)));
        // None told apart is all of it, as phones have it.
        assert_eq!(format!("{whole}:0").parse(), Ok(whole));
    }
}
