//! Where the end of a journal begins: for readers that want the last so many bytes and not the whole.

use std::io;
use std::sync::atomic::Ordering;

use super::Journal;
use super::retention::read_record;

impl Journal {
    /// The first frame of those that hold about the last `bytes` bytes of output, both streams together: never fewer
    /// than asked for if there are as many, and at most one frame more. Waits for the disk.
    pub fn tail_from(&self, bytes: u64) -> io::Result<u64> {
        let last = self.last_seq.load(Ordering::SeqCst);
        let first = self.first_seq.load(Ordering::SeqCst);
        let wanted = self.output_before(last)?.saturating_sub(bytes);
        // Ends only grow, so the frame is found by halving: the last one before which no more than `wanted` is written.
        let (mut low, mut high) = (first.saturating_sub(1), last);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.output_before(middle)? <= wanted { low = middle } else { high = middle - 1 }
        }
        Ok((low + 1).max(first))
    }

    /// Bytes of both streams up to and with frame `seq`.
    fn output_before(&self, seq: u64) -> io::Result<u64> {
        let files = self.home.files()?;
        // Cut away meanwhile, or damaged: as if nothing had been written before it.
        let record = read_record(&files, seq)?.unwrap_or_default();
        Ok(record.out_end + record.err_end)
    }
}
