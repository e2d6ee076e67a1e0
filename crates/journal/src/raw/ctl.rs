//! `ctl`: the few facts about a journal that are neither output nor input, as 32-byte records in the order they became
//! true. The first is the head with the format version; later ones of a kind replace earlier ones.
//!
//! Layout, little endian: `kind u16, check u16, version u32, a u64, b u64, c u64`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::senders::{Senders, Turn};
use super::types::OpenError;
use crate::index::check;
use crate::sys;

/// The newest format that this ostler reads.
pub(crate) const VERSION: u32 = 3;
/// What a journal of a process begins as: only one whose stdin had several senders needs more, and an older ostler reads the
/// rest.
pub(crate) const PLAIN: u32 = 1;
const SENDERS: u32 = 2;
/// What a journal of events begins as: its records say how long they are.
pub(crate) const SIZED: u32 = 3;

pub(crate) const RECORD: usize = 32;
/// "ostlerjn": a head is never mistaken for another program's file.
const MAGIC: u64 = u64::from_le_bytes(*b"ostlerjn");

const HEAD: u16 = 1;
const STDIN_CLOSED: u16 = 2;
const FIRST: u16 = 3;
const DAMAGED: u16 = 4;
const SENDER: u16 = 5;
/// In the second word of [`DAMAGED`]: nothing was written down from that frame on. Who does not know the difference takes
/// it for damage.
const LOST: u64 = 1;

/// The first frame still kept and where its bytes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) seq: u64,
    pub(crate) out_start: u64,
    pub(crate) err_start: u64,
}

impl Default for First {
    fn default() -> Self {
        Self { seq: 1, out_start: 0, err_start: 0 }
    }
}

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Stdin ends after this many bytes.
    StdinClosed(u64),
    /// Everything before was cut.
    First(First),
    /// A sync failed; frames from here on may be gone after a power loss.
    Damaged(u64),
    /// Stdin is another sender's.
    Sender(Turn),
    /// What was said after this frame is lost.
    Lost(u64),
}

/// Everything `ctl` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ctl {
    pub(crate) stdin_closed: Option<u64>,
    pub(crate) first: First,
    pub(crate) damaged_from: Option<u64>,
    pub(crate) senders: Senders,
    pub(crate) version: u32,
    pub(crate) lost_after: Option<u64>,
    records: u64,
}

pub(crate) fn encode(kind: u16, version: u32, words: [u64; 3], position: u64) -> [u8; RECORD] {
    let fill = |sum: u16| {
        let mut bytes = [0; RECORD];
        let word = u64::from(kind) | u64::from(sum) << 16 | u64::from(version) << 32;
        let [a, b, c] = words;
        for (slot, word) in bytes.chunks_exact_mut(8).zip([word, a, b, c]) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    };
    fill(check(&fill(0), position))
}

#[cfg(test)]
pub(crate) fn head_of_version(version: u32) -> [u8; RECORD] {
    encode(HEAD, version, [MAGIC, 0, 0], 0)
}

pub(crate) fn decode(bytes: &[u8], position: u64) -> Option<(u16, u32, [u64; 3])> {
    let mut words = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(*chunk.first_chunk()?)));
    let word = words.next()?;
    let rest = [words.next()?, words.next()?, words.next()?];
    let (kind, version) = (word as u16, (word >> 32) as u32);
    (encode(kind, version, rest, position) == bytes).then_some((kind, version, rest))
}

impl Ctl {
    /// Writes the head into an empty file; with it the journal exists.
    pub(crate) fn begin(file: &File, version: u32) -> io::Result<()> {
        sys::write_all_at(file, &encode(HEAD, version, [MAGIC, 0, 0], 0), 0)
    }

    /// What [`begin`](Self::begin) has written for a process, without reading it back.
    pub(crate) fn begun() -> Self {
        Self { records: 1, version: PLAIN, ..Self::default() }
    }

    /// Reads all of it and changes nothing. A last record that was cut short never became true.
    pub(crate) fn read(file: &File) -> Result<Self, OpenError> {
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        let mut records = bytes.chunks_exact(RECORD);
        let Some(head) = records.next() else {
            return Err(OpenError::Unfinished);
        };
        let damaged = |what: String| OpenError::Damaged { what };
        let version = match decode(head, 0) {
            Some((HEAD, version @ PLAIN..=VERSION, [MAGIC, ..])) => version,
            Some((HEAD, found, [MAGIC, ..])) => {
                return Err(OpenError::Version { found, ours: VERSION });
            }
            _ => return Err(damaged("ctl does not begin like a journal".into())),
        };
        let mut ctl = Self { version, ..Self::begun() };
        let last = records.len();
        for (position, record) in (1..).zip(records) {
            match decode(record, position as u64) {
                Some((STDIN_CLOSED, _, [at, ..])) => ctl.stdin_closed = Some(at),
                Some((FIRST, _, [seq, out_start, err_start])) => {
                    ctl.first = First { seq, out_start, err_start };
                }
                Some((DAMAGED, _, [from, LOST, _])) => ctl.lost_after = Some(from.saturating_sub(1)),
                Some((DAMAGED, _, [from, ..])) => {
                    ctl.damaged_from = Some(ctl.damaged_from.map_or(from, |old| old.min(from)));
                }
                Some((SENDER, _, [sender, at, before])) => ctl.senders.begin(Turn { sender, at, before }),
                // The file grew but the record never reached it, so nobody acted upon it; the next one replaces it.
                None if position == last && record.iter().all(|byte| *byte == 0) => break,
                _ => return Err(damaged(format!("ctl record {position} is not ours"))),
            }
            ctl.records += 1;
        }
        Ok(ctl)
    }

    /// Makes a fact true: one write, kept in `self` once written.
    pub(crate) fn append(&mut self, file: &File, fact: Fact) -> io::Result<()> {
        let position = self.records.max(1);
        let (kind, words) = match fact {
            Fact::StdinClosed(at) => (STDIN_CLOSED, [at, 0, 0]),
            Fact::First(first) => (FIRST, [first.seq, first.out_start, first.err_start]),
            Fact::Damaged(from) => (DAMAGED, [from, 0, 0]),
            Fact::Sender(turn) => (SENDER, [turn.sender, turn.at, turn.before]),
            Fact::Lost(after) => (DAMAGED, [after + 1, LOST, 0]),
        };
        if kind == SENDER && self.version < SENDERS {
            sys::write_all_at(file, &encode(HEAD, SENDERS, [MAGIC, 0, 0], 0), 0)?;
            self.version = SENDERS;
        }
        let bytes = encode(kind, 0, words, position);
        sys::write_all_at(file, &bytes, position * RECORD as u64)?;
        self.records = position + 1;
        match fact {
            Fact::StdinClosed(at) => self.stdin_closed = Some(at),
            Fact::First(first) => self.first = first,
            Fact::Damaged(from) => self.damaged_from = Some(from),
            Fact::Sender(turn) => self.senders.begin(turn),
            Fact::Lost(after) => self.lost_after = Some(after),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        let file = tempfile::tempfile().unwrap();
        Ctl::begin(&file, PLAIN).unwrap();
        file
    }

    fn written() -> (File, Ctl) {
        let file = file();
        let mut ctl = Ctl::read(&file).unwrap();
        ctl.append(&file, Fact::StdinClosed(9)).unwrap();
        let first = First { seq: 4, out_start: 5, err_start: 6 };
        ctl.append(&file, Fact::First(first)).unwrap();
        ctl.append(&file, Fact::Damaged(7)).unwrap();
        ctl.append(&file, Fact::Lost(11)).unwrap();
        (file, ctl)
    }

    #[test]
    fn facts_read_back_as_they_were_written() {
        let (file, ctl) = written();
        assert_eq!(Ctl::read(&file).unwrap(), ctl);
        assert_eq!(ctl.stdin_closed, Some(9));
        assert_eq!((ctl.damaged_from, ctl.lost_after), (Some(7), Some(11)));
    }

    #[test]
    fn a_new_file_reads_as_it_was_begun() {
        assert_eq!(Ctl::read(&file()).unwrap(), Ctl::begun());
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let file = file();
        file.write_all_at(&head_of_version(VERSION + 1), 0).unwrap();
        let error = Ctl::read(&file).unwrap_err();
        assert!(matches!(error, OpenError::Version { found: 4, ours: 3 }), "{error}");
        assert!(error.to_string().contains("format 4"), "{error}");
    }

    #[test]
    fn senders_read_back_and_an_older_ostler_is_told_that_it_does_not_know_them() {
        let (file, mut ctl) = written();
        let head = |file: &File| {
            let mut head = [0; RECORD];
            file.read_exact_at(&mut head, 0).unwrap();
            decode(&head, 0).unwrap().1
        };
        assert_eq!(head(&file), PLAIN, "who needs no senders writes what it always wrote");
        ctl.append(&file, Fact::Sender(Turn { sender: 7, at: 9, before: 0 })).unwrap();
        ctl.append(&file, Fact::Sender(Turn { sender: 8, at: 11, before: 0 })).unwrap();
        assert_eq!(head(&file), SENDERS);
        let read = Ctl::read(&file).unwrap();
        assert_eq!(read, ctl);
        assert_eq!((read.senders.accepted(7, 20), read.senders.accepted(8, 20)), (2, 9));
    }

    #[test]
    fn a_record_cut_short_never_became_true() {
        let (file, _) = written();
        for len in 96..128 {
            file.set_len(len).unwrap();
            let mut ctl = Ctl::read(&file).unwrap();
            assert_eq!(ctl.damaged_from, None);
            assert_eq!(ctl.first.seq, 4);
            ctl.append(&file, Fact::Damaged(8)).unwrap();
            assert_eq!(Ctl::read(&file).unwrap().damaged_from, Some(8));
        }
    }

    #[test]
    fn a_flipped_bit_is_damage() {
        let (file, _) = written();
        for at in 0..128 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert!(matches!(Ctl::read(&file), Err(OpenError::Damaged { .. })), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
    }

    #[test]
    fn a_journal_that_was_never_finished_says_so() {
        let file = file();
        file.set_len(31).unwrap();
        assert!(matches!(Ctl::read(&file), Err(OpenError::Unfinished)));
    }
}
