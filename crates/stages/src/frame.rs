//! A report's frames: `kind u8, stage u16, length u32`, little endian, then that many bytes.

use std::io::{self, Read};

/// Length of a frame's head.
pub(crate) const HEAD: usize = 7;

/// 64 KiB: what one read of a full pipe gives.
pub(crate) const DATA_MAX: usize = 64 * 1024;

/// More than the outcome of the longest pipeline takes; a longer one is not ours.
pub(crate) const OUTCOME_MAX: usize = 256 * 1024;

/// First frame of every report; a newer format says another number.
pub(crate) const VERSION: &[u8] = b"1";

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Version,
    Stdout,
    Stderr,
    Outcome,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Version => 0,
            Kind::Stdout => 1,
            Kind::Stderr => 2,
            Kind::Outcome => 3,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Kind::Version, Kind::Stdout, Kind::Stderr, Kind::Outcome].into_iter().find(|kind| kind.number() == number)
    }

    fn longest(self) -> usize {
        match self {
            Kind::Version => 16,
            Kind::Stdout | Kind::Stderr => DATA_MAX,
            Kind::Outcome => OUTCOME_MAX,
        }
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) stage: u16,
    pub(crate) length: usize,
}

/// Appends a frame to `into`.
pub(crate) fn put(into: &mut Vec<u8>, kind: Kind, stage: usize, bytes: &[u8]) {
    into.push(kind.number());
    // Both fit: stages and frames have limits far below.
    into.extend_from_slice(&u16::try_from(stage).unwrap_or(u16::MAX).to_le_bytes());
    into.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(bytes);
}

/// Reads the next head; `None` where the report ends, also in the middle of a head.
pub(crate) fn head(source: &mut impl Read) -> io::Result<Option<Head>> {
    let mut bytes = [0; HEAD];
    if !fill(source, &mut bytes)? {
        return Ok(None);
    }
    let [kind, low, high, a, b, c, d] = bytes;
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("not a report: {what}"));
    let kind = Kind::of(kind).ok_or_else(|| damaged("unknown kind of frame"))?;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > kind.longest() {
        return Err(damaged("frame too long"));
    }
    Ok(Some(Head { kind, stage: u16::from_le_bytes([low, high]), length }))
}

/// Reads exactly as many bytes as `into` takes; `false` if the source ends before.
pub(crate) fn fill(source: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
