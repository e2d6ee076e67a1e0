//! What a record of `events.idx` says.
//!
//! Layout, little endian: `data_end u64, src_end u64, time_ns u64, source u32, flags u16, check u16`. A record's payload
//! is what `data_end` grew by since the record before. How much that is stands in the record too, so that a damaged one costs
//! nothing but itself: 14 bits of the flags, and the lowest 11 of the time, which is good to two microseconds then.

use crate::index;

/// 32 MiB, less one to be said in 25 bits: four times the longest line that is taken from an agent. A record that claims more
/// is damaged, so no reader is made to find memory for it.
pub const PAYLOAD_MAX: usize = (32 << 20) - 1;

/// Set in every record, so that zeros are none.
const WRITTEN: u16 = 1;
/// Set in a record that says how long its payload is, in the bits above.
const SIZED: u16 = 2;
const SIZE_AT: u16 = 2;
/// The bits of the time that belong to the size.
const TIME_BITS: u32 = 11;
const IN_TIME: u64 = (1 << TIME_BITS) - 1;

/// A decoded record. The default stands before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Where its payload ends in `events`.
    pub(crate) data_end: u64,
    /// Raw offset after the line it was derived from.
    pub(crate) src_end: u64,
    pub(crate) time_ns: u64,
    pub(crate) source: u32,
    /// Bytes of its payload; nothing in a journal that was begun before records said so.
    pub(crate) size: Option<u32>,
}

impl Record {
    /// Bytes of its payload, which begins where that of `before` ends; `None` if no writer put the two in a row.
    pub(crate) fn len_after(&self, before: &Self) -> Option<usize> {
        let len = usize::try_from(self.data_end.checked_sub(before.data_end)?).ok()?;
        let agrees = self.size.is_none_or(|size| size as usize == len);
        (len <= PAYLOAD_MAX && agrees).then_some(len)
    }

    /// Where its payload begins and how long it is, by what it says itself.
    pub(crate) fn alone(&self) -> Option<(u64, usize)> {
        let size = self.size?;
        Some((self.data_end.checked_sub(u64::from(size))?, size as usize))
    }
}

impl index::Record for Record {
    const CHECK_AT: u32 = 48;

    fn words(&self) -> [u64; 4] {
        let (time, flags) = match self.size {
            None => (self.time_ns, WRITTEN),
            Some(size) => {
                let time = self.time_ns & !IN_TIME | u64::from(size) & IN_TIME;
                (time, WRITTEN | SIZED | ((size >> TIME_BITS) as u16) << SIZE_AT)
            }
        };
        [self.data_end, self.src_end, time, u64::from(self.source) | u64::from(flags) << 32]
    }

    fn of_words([data_end, src_end, time, last]: [u64; 4]) -> Option<Self> {
        let (source, flags) = (last as u32, (last >> 32) as u16);
        let record = Self { data_end, src_end, time_ns: time, source, size: None };
        match (flags & WRITTEN, flags & SIZED) {
            (0, _) => None,
            (_, 0) => (flags == WRITTEN).then_some(record),
            _ => {
                let size = u32::from(flags >> SIZE_AT) << TIME_BITS | (time & IN_TIME) as u32;
                Some(Self { time_ns: time & !IN_TIME, size: Some(size), ..record })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{RECORD, Record as _};

    fn sample() -> Record {
        let (src_end, time_ns, source) = (u64::MAX, 1_700_000_000_000_000_000 & !IN_TIME, 0x8000_0001);
        Record { data_end: 70_000, src_end, time_ns, source, size: Some(50_000) }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        for size in [None, Some(0), Some(1), Some(2047), Some(2048), Some(50_000), Some(PAYLOAD_MAX as u32)] {
            let record = Record { size, ..sample() };
            assert_eq!(Record::decode(&record.encode(7), 7), Some(record));
        }
        let before_sizes = Record { size: None, time_ns: 1_700_000_000_123_456_789, ..sample() };
        assert_eq!(Record::decode(&before_sizes.encode(7), 7), Some(before_sizes));
    }

    #[test]
    fn a_record_knows_its_payload_by_itself_or_by_the_one_before() {
        assert_eq!(sample().alone(), Some((20_000, 50_000)));
        assert_eq!(Record { size: None, ..sample() }.alone(), None);
        let before = |data_end| Record { data_end, ..Record::default() };
        assert_eq!(sample().len_after(&before(20_000)), Some(50_000));
        assert_eq!(sample().len_after(&before(20_001)), None, "no writer put the two in a row");
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
    fn a_record_at_another_place_and_zeros_are_none() {
        assert_eq!(Record::decode(&sample().encode(7), 8), None);
        for number in 1..10_000 {
            assert_eq!(Record::decode(&[0; RECORD], number), None);
        }
    }

    #[test]
    fn a_payload_never_shrinks_the_data_and_is_never_too_long_to_read() {
        let max = PAYLOAD_MAX as u64;
        let end = |data_end| Record { data_end, size: None, ..sample() };
        assert_eq!(end(10).len_after(&end(10)), Some(0));
        assert_eq!(end(10).len_after(&end(11)), None);
        assert_eq!(end(10 + max).len_after(&end(10)), Some(PAYLOAD_MAX));
        assert_eq!(end(11 + max).len_after(&end(10)), None);
    }
}
