//! What tells a transcript from another one under the same name, and a place in it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::str::FromStr;

/// As much of the first line as is compared: it holds an id and a time.
const HEAD: usize = 256;

/// Which file it is: device, inode and how its first line begins. Zero until that line is ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Identity(pub(super) u64);

impl Identity {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let mut head = [0_u8; HEAD];
        let count = file.read_at(&mut head, 0)?;
        let head = head.get(..count).unwrap_or_default();
        let line = match memchr::memchr(b'\n', head) {
            Some(end) => head.get(..end).unwrap_or_default(),
            None if count == HEAD => head,
            None => return Ok(Self(0)),
        };
        let words = [meta.dev().to_le_bytes(), meta.ino().to_le_bytes()];
        Ok(Self(fnv(words.iter().flatten().chain(line).copied()).max(1)))
    }
}

/// FNV-1a: tells files apart, and keeps nobody from making two alike who may write both.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A place in a transcript: where a line begins. Good for whoever reads, now or after a restart; the text itself means nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    pub(super) identity: Identity,
    pub(super) offset: u64,
}

impl Position {
    /// A place in what is no file: the number of a record, or of a row.
    pub fn numbered(number: u64) -> Self {
        Self { identity: Identity(0), offset: number }
    }

    /// The offset, or the number.
    pub fn number(self) -> u64 {
        self.offset
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.identity.0, self.offset)
    }
}

/// A text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a position")]
pub struct NoPosition(String);

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let read = || {
            let (identity, offset) = text.split_once('-')?;
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let identity = Some(identity).filter(|text| digits(text))?;
            let offset = Some(offset).filter(|text| digits(text))?;
            let identity = Identity(u64::from_str_radix(identity, 16).ok()?);
            Some(Self { identity, offset: offset.parse().ok()? })
        };
        read().ok_or_else(|| NoPosition(text.chars().take(64).collect()))
    }
}

/// How a transcript is not the one that a place was in. Reading begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is shorter than it was.
    Truncated,
    /// Another file has its name, or it was written anew.
    Replaced,
}

/// Whether a place is still one of this file.
pub(super) fn check(file: &File, identity: Identity, size: u64, at: Position) -> io::Result<Result<u64, Changed>> {
    if at.offset == 0 {
        return Ok(Ok(0));
    }
    if at.identity != identity {
        return Ok(Err(Changed::Replaced));
    }
    if at.offset > size {
        return Ok(Err(Changed::Truncated));
    }
    let mut feed = [0_u8; 1];
    file.read_exact_at(&mut feed, at.offset - 1)?;
    Ok(if feed == [b'\n'] { Ok(at.offset) } else { Err(Changed::Replaced) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_being_written_and_nothing_else_is_one() {
        let position = Position { identity: Identity(0xabc), offset: 77 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in
            ["", "-", "1", "abc-", "-7", "x-1", "1--1", "1-+1", "+1-1", "../../etc-1", "1-99999999999999999999999"]
        {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }
}
