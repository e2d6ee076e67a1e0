//! What a record of `events.idx` says.
//!
//! Layout, little endian: `data_end u64, src_end u64, time_ns u64, source u32, flags u16, check u16`. A record's payload
//! is what `data_end` grew by since the record before.

use crate::index;

/// 32 MiB: four times the longest line that is taken from an agent. A record that claims more is damaged, so no reader
/// is made to find memory for it.
pub const PAYLOAD_MAX: usize = 32 << 20;

/// Set in every record of format 1, so that zeros are none.
const WRITTEN: u16 = 1;

/// A decoded record. The default stands before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Where its payload ends in `events`.
    pub(crate) data_end: u64,
    /// Raw offset after the line it was derived from.
    pub(crate) src_end: u64,
    pub(crate) time_ns: u64,
    pub(crate) source: u32,
}

impl Record {
    /// Bytes of its payload, which begins where that of `before` ends; `None` if no writer put the two in a row.
    pub(crate) fn len_after(&self, before: &Self) -> Option<usize> {
        let len = usize::try_from(self.data_end.checked_sub(before.data_end)?).ok()?;
        (len <= PAYLOAD_MAX).then_some(len)
    }
}

impl index::Record for Record {
    const CHECK_AT: u32 = 48;

    fn words(&self) -> [u64; 4] {
        [self.data_end, self.src_end, self.time_ns, u64::from(self.source) | u64::from(WRITTEN) << 32]
    }

    fn of_words([data_end, src_end, time_ns, last]: [u64; 4]) -> Option<Self> {
        ((last >> 32) as u16 == WRITTEN).then_some(Self { data_end, src_end, time_ns, source: last as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{RECORD, Record as _};

    fn sample() -> Record {
        Record { data_end: 70_000, src_end: u64::MAX, time_ns: 1_700_000_000_000_000_000, source: 0x8000_0001 }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        assert_eq!(Record::decode(&sample().encode(7), 7), Some(sample()));
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
        let end = |data_end| Record { data_end, ..sample() };
        assert_eq!(end(10).len_after(&end(10)), Some(0));
        assert_eq!(end(10).len_after(&end(11)), None);
        assert_eq!(end(10 + max).len_after(&end(10)), Some(PAYLOAD_MAX));
        assert_eq!(end(11 + max).len_after(&end(10)), None);
    }
}
