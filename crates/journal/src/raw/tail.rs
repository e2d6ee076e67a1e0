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
        if !self.home.is_made() {
            return Ok(0);
        }
        let files = self.home.files()?;
        // Cut away meanwhile, or damaged: as if nothing had been written before it.
        let record = read_record(&files, seq)?.unwrap_or_default();
        Ok(record.out_end + record.err_end)
    }
}

#[cfg(test)]
mod tests {
    use ostler_story::Exit;

    use std::os::unix::fs::FileExt;

    use super::super::Kind;
    use super::*;

    #[test]
    fn the_tail_holds_what_was_asked_for_and_at_most_a_frame_more() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("j")).unwrap();
        assert_eq!(journal.tail_from(100).unwrap(), 1, "an empty journal begins at its beginning");
        let files = journal.files().unwrap();
        let mut writer = journal.writer();
        // Frames of 1 to 20 bytes on both streams in turn.
        for len in 1..=20 {
            let kind = if len % 2 == 0 { Kind::Stderr } else { Kind::Stdout };
            files.raw(kind).write_all_at(&vec![b'x'; len], writer.len(kind)).unwrap();
            writer.grew(kind, len);
            journal.index(&mut writer, &files, kind).unwrap();
        }
        for bytes in 0..=215 {
            let from = journal.tail_from(bytes).unwrap();
            let held: u64 = (from..=20).sum();
            assert!(held >= bytes.min(210), "{bytes}: from {from} there are {held}");
            assert!(from > 20 || held - from < bytes.max(1), "{bytes}: {from} is too early, there are {held}");
        }
        journal.index_exit(&mut writer, &files, Exit::Code(0)).unwrap();
        assert_eq!(journal.tail_from(0).unwrap(), 22, "the exit has no bytes");
        assert_eq!(journal.tail_from(1).unwrap(), 20);
        drop(writer);
        journal.cut_before(10).unwrap();
        assert!(journal.tail_from(10_000).unwrap() >= journal.bounds().first_seq);
    }
}
