//! Where the end of a journal begins: for readers that want the last so many bytes and not the whole.

use std::io;
use std::sync::atomic::Ordering;

use super::Journal;
use super::index::{RECORD, Record};
use crate::sys::{self, Wait};

impl Journal {
    /// The first frame of those that hold about the last `bytes` bytes of output, both streams together: never fewer
    /// than asked for if there are as many, and at most one frame more. Waits for the disk.
    pub fn tail_from(&self, bytes: u64) -> io::Result<u64> {
        let last = self.last_seq.load(Ordering::SeqCst);
        let first = self.first_seq.load(Ordering::SeqCst);
        if last == 0 {
            return Ok(first);
        }
        let wanted = self.output_before(last)?.saturating_sub(bytes);
        // Ends only grow, so the frame is found by halving: the last one after which more than `wanted` is written.
        let (mut low, mut high) = (first.saturating_sub(1), last);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.output_before(middle)? <= wanted { low = middle } else { high = middle - 1 }
        }
        Ok((low + 1).max(first))
    }

    /// Bytes of both streams up to and with frame `seq`.
    fn output_before(&self, seq: u64) -> io::Result<u64> {
        let Some(at) = seq.checked_sub(1) else { return Ok(0) };
        let files = self.home.files()?;
        let mut bytes = [0; RECORD];
        sys::read_at(&files.idx, &mut bytes, at * RECORD as u64, Wait::ForDisk)?;
        match Record::decode(&bytes, seq) {
            Some(record) => Ok(record.out_end + record.err_end),
            // Cut away meanwhile, or damaged: as if nothing had been written before it.
            None => Ok(0),
        }
    }
}
