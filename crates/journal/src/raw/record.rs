//! What a record of `idx` says.
//!
//! Layout, little endian: `out_end u64, err_end u64, time_ns u64, kind u16, check u16, code i32`. The sequence number
//! is the record's position + 1. A frame is the difference to the record before it; its length stands in `code` too, so
//! that a damaged record costs no frame but its own. (0 there: written before that was so.)

use super::types::{FrameHead, Kind};
use crate::FRAME_MAX;
use crate::index;
use ostler_story::Exit;

const KIND: u16 = 0x00ff;
const STDOUT: u16 = 1;
const STDERR: u16 = 2;
const EXIT: u16 = 3;
/// Exit: the code is a signal's number.
const SIGNAL: u16 = 0x0100;
/// Exit: nobody saw the status.
const UNKNOWN: u16 = 0x0200;
/// The frame came after the exit record; tells recovery in one read whether there is an exit further up.
const LATE: u16 = 0x8000;

/// A decoded record. The default stands before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) out_end: u64,
    pub(crate) err_end: u64,
    pub(crate) time_ns: u64,
    bits: u16,
    code: i32,
}

impl Record {
    /// The frame that moves `kind` up to `end`, after `self`.
    pub(crate) fn next_output(&self, kind: Kind, end: u64, time_ns: u64) -> Self {
        let len = i32::try_from(end.saturating_sub(self.end(kind))).unwrap_or(0);
        let mut next = Self { time_ns, code: len, bits: self.after_exit(), ..*self };
        if kind == Kind::Stderr {
            next.err_end = end;
            next.bits |= STDERR;
        } else {
            next.out_end = end;
            next.bits |= STDOUT;
        }
        next
    }

    /// The exit, after `self`.
    pub(crate) fn next_exit(&self, status: Exit, time_ns: u64) -> Self {
        let (code, bits) = match status {
            Exit::Code(code) => (code, 0),
            Exit::Signal(signal) => (signal, SIGNAL),
            Exit::Unknown => (-1, UNKNOWN),
        };
        Self { time_ns, code, bits: EXIT | bits, ..*self }
    }

    fn after_exit(&self) -> u16 {
        if self.ends_process() { LATE } else { 0 }
    }

    /// The exit record itself or anything after it.
    pub(crate) fn ends_process(&self) -> bool {
        self.bits & KIND == EXIT || self.bits & LATE != 0
    }

    /// What it is; `None` for something no version ever wrote.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let (kind, rest) = (self.bits & KIND, self.bits & !KIND);
        match (kind, rest) {
            (STDOUT, 0 | LATE) => Some(Kind::Stdout),
            (STDERR, 0 | LATE) => Some(Kind::Stderr),
            (EXIT, 0 | SIGNAL | UNKNOWN) => Some(Kind::Exit),
            _ => None,
        }
    }

    /// End of one stream's indexed bytes.
    pub(crate) fn end(&self, kind: Kind) -> u64 {
        if kind == Kind::Stderr { self.err_end } else { self.out_end }
    }

    /// The frame between `before` and this record: its bytes lie at the end of `before`. `None` if no pump could have
    /// written the two in a row.
    pub(crate) fn frame(&self, before: &Self, seq: u64) -> Option<FrameHead> {
        let kind = self.kind()?;
        let out = self.out_end.checked_sub(before.out_end)?;
        let err = self.err_end.checked_sub(before.err_end)?;
        let len = match kind {
            Kind::Stdout if err == 0 && out > 0 => out,
            Kind::Stderr if out == 0 && err > 0 => err,
            Kind::Exit if out == 0 && err == 0 && !before.ends_process() => 0,
            _ => return None,
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= FRAME_MAX)?;
        let head = self.head(kind, seq, len);
        (kind == Kind::Exit || head.late == before.ends_process()).then_some(head)
    }

    /// The frame that this record says by itself, whatever stood before it.
    pub(crate) fn frame_alone(&self, seq: u64) -> Option<FrameHead> {
        let kind = self.kind()?;
        if kind == Kind::Exit {
            return Some(self.head(kind, seq, 0));
        }
        let len = usize::try_from(self.code).ok().filter(|len| (1..=FRAME_MAX).contains(len))?;
        (len as u64 <= self.end(kind)).then(|| self.head(kind, seq, len))
    }

    /// The exit this record is, whatever stands before it.
    pub(crate) fn exit(&self, seq: u64) -> Option<FrameHead> {
        (self.kind()? == Kind::Exit).then(|| self.head(Kind::Exit, seq, 0))
    }

    fn how(&self) -> Exit {
        match self.bits {
            bits if bits & UNKNOWN != 0 => Exit::Unknown,
            bits if bits & SIGNAL != 0 => Exit::Signal(self.code),
            _ => Exit::Code(self.code),
        }
    }

    fn head(&self, kind: Kind, seq: u64, len: usize) -> FrameHead {
        FrameHead {
            seq,
            kind,
            time_ns: self.time_ns,
            from: self.end(kind).saturating_sub(len as u64),
            len,
            exit: (kind == Kind::Exit).then(|| self.how()),
            late: self.bits & LATE != 0,
        }
    }
}

impl index::Record for Record {
    const CHECK_AT: u32 = 16;

    fn words(&self) -> [u64; 4] {
        let last = u64::from(self.bits) | u64::from(self.code.cast_unsigned()) << 32;
        [self.out_end, self.err_end, self.time_ns, last]
    }

    fn of_words([out_end, err_end, time_ns, last]: [u64; 4]) -> Option<Self> {
        let record = Self { out_end, err_end, time_ns, bits: last as u16, code: ((last >> 32) as u32).cast_signed() };
        record.kind().is_some().then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{RECORD, Record as _};

    fn sample() -> Record {
        Record { out_end: 32_768, err_end: 17, time_ns: 1_700_000_000_000_000_000, bits: STDOUT, code: 0 }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let exit = sample().next_exit(Exit::Signal(9), 5);
        for record in [sample(), exit, exit.next_output(Kind::Stderr, 40, 6)] {
            assert_eq!(Record::decode(&record.encode(7), 7), Some(record));
        }
    }

    #[test]
    fn every_single_flipped_bit_is_noticed() {
        for bit in 0..RECORD * 8 {
            let mut bytes = sample().encode(7);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&bytes, 7), None, "bit {bit}");
        }
    }

    #[test]
    fn a_record_at_another_place_is_noticed() {
        assert_eq!(Record::decode(&sample().encode(7), 8), None);
    }

    #[test]
    fn zeros_are_no_record() {
        for seq in 1..10_000 {
            assert_eq!(Record::decode(&[0; RECORD], seq), None);
        }
    }

    #[test]
    fn a_frame_belongs_to_one_stream_and_fits() {
        let before = sample();
        let good = before.next_output(Kind::Stdout, 32_768 * 2, 1);
        assert_eq!(good.frame(&before, 2).map(|frame| frame.len), Some(32_768));
        let long = before.next_output(Kind::Stdout, 32_768 * 2 + 1, 1);
        assert_eq!(long.frame(&before, 2), None);
        let back = before.next_output(Kind::Stdout, 5, 1);
        assert_eq!(back.frame(&before, 2), None);
        let both = Record { err_end: 18, ..good };
        assert_eq!(both.frame(&before, 2), None);
    }

    #[test]
    fn there_is_one_exit_and_what_follows_is_late() {
        let exit = sample().next_exit(Exit::Code(7), 1);
        assert!(exit.frame(&sample(), 2).is_some_and(|frame| frame.exit == Some(Exit::Code(7))));
        assert_eq!(exit.next_exit(Exit::Code(7), 2).frame(&exit, 3), None);
        let late = exit.next_output(Kind::Stdout, 32_769, 2);
        assert!(late.frame(&exit, 3).is_some_and(|frame| frame.late));
    }
}
