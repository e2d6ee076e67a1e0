//! Where the last so many lines of a journal begin, and what was written since a time: for readers that want the end and not the
//! whole. Reads no more than it needs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::reader::Cursor;
use super::retention::read_record;
use super::types::Step;
use super::{Journal, Kind};

/// How much of the end is looked at first; twice as much each time that it holds too few lines.
const LOOK: u64 = 64 * 1024;
/// Nobody means more by a number of lines; what has none so far back is no text.
const LOOK_MAX: u64 = 256 * 1024 * 1024;

/// A place in a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStart {
    /// The frame in which it is.
    pub seq: u64,
    /// Bytes of that frame that come before it.
    pub skip: u64,
}

impl Journal {
    /// Where the last `lines` lines of output begin, both streams together as they were written; a last one without an end is
    /// one too. Waits for the disk.
    pub fn lines_from(self: &Arc<Self>, lines: u64) -> io::Result<LineStart> {
        let last = self.bounds().last_seq;
        if lines == 0 {
            return Ok(LineStart { seq: last + 1, skip: 0 });
        }
        let mut look = LOOK;
        loop {
            let from = self.tail_from(look)?;
            let (ends, is_open) = self.count_lines(from, last)?;
            let held = ends + u64::from(is_open);
            let whole = from <= self.first_seq.load(Ordering::SeqCst) || look >= LOOK_MAX;
            if held > lines {
                return self.after_line(from, last, held - lines);
            }
            if whole {
                return Ok(LineStart { seq: from, skip: 0 });
            }
            look *= 2;
        }
    }

    /// The first frame that was written at this time or later, in nanoseconds since 1970. Waits for the disk.
    pub fn since_from(&self, time_ns: u64) -> io::Result<u64> {
        let (first, last) = (self.first_seq.load(Ordering::SeqCst), self.last_seq.load(Ordering::SeqCst));
        if !self.is_made() {
            return Ok(first);
        }
        let files = self.home.files()?;
        let (mut low, mut high) = (first, last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            // Cut away meanwhile, or damaged: as if it were old.
            let time = read_record(&files, middle)?.map_or(0, |record| record.time_ns);
            if time < time_ns { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// How many lines end in these frames, and whether the last one goes on.
    fn count_lines(self: &Arc<Self>, from: u64, last: u64) -> io::Result<(u64, bool)> {
        let (mut ends, mut is_open) = (0, false);
        self.frames(from, last, |_, bytes| {
            ends += ends_of(bytes).count() as u64;
            is_open = bytes.last().map_or(is_open, |byte| *byte != b'\n');
            true
        })?;
        Ok((ends, is_open))
    }

    /// The place after the end of this line, of those that end in these frames.
    fn after_line(self: &Arc<Self>, from: u64, last: u64, line: u64) -> io::Result<LineStart> {
        let (mut seen, mut found) = (0, LineStart { seq: from, skip: 0 });
        self.frames(from, last, |seq, bytes| {
            for at in ends_of(bytes) {
                seen += 1;
                if seen == line {
                    let skip = at as u64 + 1;
                    found = match skip == bytes.len() as u64 {
                        true => LineStart { seq: seq + 1, skip: 0 },
                        false => LineStart { seq, skip },
                    };
                    return false;
                }
            }
            true
        })?;
        Ok(found)
    }

    /// Hands the output of these frames to `take`, one frame after the other, for as long as it wants more.
    fn frames(self: &Arc<Self>, from: u64, last: u64, mut take: impl FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
        let (mut cursor, mut bytes) = (Cursor::new(Arc::clone(self), from.saturating_sub(1)), Vec::new());
        while cursor.position() < last {
            bytes.clear();
            match cursor.next_blocking(&mut bytes)? {
                Step::Frame(head) if head.kind != Kind::Exit => {
                    if !take(head.seq, &bytes) {
                        return Ok(());
                    }
                }
                Step::Frame(_) | Step::Gap { .. } => {}
                Step::UpToDate | Step::WouldBlock => return Ok(()),
            }
        }
        Ok(())
    }
}

fn ends_of(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use ostler_story::Exit;

    fn journal(frames: &[&str]) -> (tempfile::TempDir, Arc<Journal>) {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("j")).unwrap();
        let files = journal.files().unwrap();
        let mut writer = journal.writer();
        for (count, text) in frames.iter().enumerate() {
            let kind = if count % 2 == 0 { Kind::Stdout } else { Kind::Stderr };
            files.raw(kind).write_all_at(text.as_bytes(), writer.len(kind)).unwrap();
            writer.grew(kind, text.len());
            journal.index(&mut writer, &files, kind).unwrap();
        }
        drop(writer);
        (dir, journal)
    }

    #[test]
    fn the_last_lines_begin_where_the_line_before_them_ends() {
        let (_dir, journal) = journal(&["a\nb\nc", "d\n", "e\nf"]);
        let starts = |lines| {
            let LineStart { seq, skip } = journal.lines_from(lines).unwrap();
            (seq, skip)
        };
        // a, b, cd, e and f, which has no end yet.
        assert_eq!(starts(0), (4, 0));
        assert_eq!(starts(1), (3, 2));
        assert_eq!(starts(2), (3, 0));
        assert_eq!(starts(3), (1, 4));
        assert_eq!(starts(4), (1, 2));
        assert_eq!(starts(5), (1, 0));
        assert_eq!(starts(600), (1, 0));
    }

    #[test]
    fn an_end_is_no_line_and_much_is_looked_at_piece_by_piece() {
        let long: Vec<String> = (0..400).map(|line| format!("{line:0>999}\n")).collect();
        let (_dir, journal) = journal(&long.iter().map(String::as_str).collect::<Vec<_>>());
        let files = journal.files().unwrap();
        journal.index_exit(&mut journal.writer(), &files, Exit::Code(0)).unwrap();
        assert_eq!(journal.lines_from(1).unwrap(), LineStart { seq: 400, skip: 0 });
        assert_eq!(journal.lines_from(300).unwrap(), LineStart { seq: 101, skip: 0 });
        journal.cut_before(200).unwrap();
        assert!(journal.lines_from(300).unwrap().seq >= journal.bounds().first_seq);
    }

    #[test]
    fn what_was_written_since_a_time_begins_with_the_first_frame_that_is_not_older() {
        let (_dir, journal) = journal(&["a\n", "b\n", "c\n"]);
        let times: Vec<u64> =
            (1..=3).map(|seq| read_record(&journal.files().unwrap(), seq).unwrap().unwrap().time_ns).collect();
        assert_eq!(journal.since_from(0).unwrap(), 1);
        assert_eq!(journal.since_from(times[2] + 1).unwrap(), 4);
        let second = journal.since_from(times[1]).unwrap();
        assert!(second <= 2 && times[usize::try_from(second).unwrap() - 1] >= times[1], "{times:?} {second}");
    }
}
