//! A reader's place in a journal. It never blocks unless told to, keeps no bytes, and is never in anybody's way: what
//! it has not read yet stays in the files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::Journal;
use super::files::Files;
use super::index::{RECORD, Record};
use super::types::{FrameHead, Kind, Step};
use crate::sys::{self, Wait};

/// Records read at once: 1 KiB, so that a reader that is behind needs one index read for 32 frames.
const BATCH: usize = 32;

/// A reader's place in a journal.
pub struct Cursor {
    journal: Arc<Journal>,
    /// Stands after this frame.
    at: u64,
    /// Its record, once known.
    before: Option<Record>,
    /// Encoded records after `at`; the first `taken` bytes are used up.
    batch: [u8; BATCH * RECORD],
    filled: usize,
    taken: usize,
}

impl Cursor {
    /// Stands after frame `after_seq` (0 = before the first). A place beyond the end waits until the journal has grown
    /// past it.
    pub fn new(journal: Arc<Journal>, after_seq: u64) -> Self {
        Self {
            journal,
            at: after_seq,
            before: (after_seq == 0).then(Record::default),
            batch: [0; BATCH * RECORD],
            filled: 0,
            taken: 0,
        }
    }

    /// The frame it stands after.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The journal it reads.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The next frame, its bytes appended to `buf`; never blocks. An error of kind `InvalidData` names a frame whose
    /// index record is damaged.
    pub fn try_next(&mut self, buf: &mut Vec<u8>) -> io::Result<Step> {
        self.next(buf, Wait::Never)
    }

    /// As [`try_next`](Self::try_next), but waits for the disk; never answers `WouldBlock`.
    pub fn next_blocking(&mut self, buf: &mut Vec<u8>) -> io::Result<Step> {
        self.next(buf, Wait::ForDisk)
    }

    fn next(&mut self, buf: &mut Vec<u8>, wait: Wait) -> io::Result<Step> {
        let last = self.journal.last_seq.load(Ordering::SeqCst);
        if self.at >= last {
            return Ok(Step::UpToDate);
        }
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        if wait == Wait::Never && self.journal.is_remote() {
            // Neither opening nor reading can be asked not to wait for the server.
            return Ok(Step::WouldBlock);
        }
        let files = self.journal.home.files()?;
        if self.taken == self.filled && !self.refill(&files, last, wait)? {
            return Ok(self.gap().unwrap_or(Step::WouldBlock));
        }
        let Some((frame, record, from)) = self.peek() else {
            return self.broken();
        };
        let start = buf.len();
        if frame.len > 0 {
            buf.resize(start + frame.len, 0);
            let bytes = buf.get_mut(start..).unwrap_or_default();
            let read = sys::read_at(files.raw(frame.kind), bytes, from, wait, &files.nowait);
            hook!("cursor.read");
            // Only now: a hole punched meanwhile reads as zeros.
            let gap = self.gap();
            if gap.is_some() || !matches!(read, Ok(true)) {
                buf.truncate(start);
                return match gap {
                    Some(gap) => Ok(gap),
                    None => read.map(|_| Step::WouldBlock),
                };
            }
        }
        self.at = frame.seq;
        self.before = Some(record);
        self.taken += RECORD;
        Ok(Step::Frame(frame))
    }

    /// If the next frame was cut: moves behind the gap and says so.
    fn gap(&mut self) -> Option<Step> {
        let first_seq = self.journal.first_seq.load(Ordering::SeqCst);
        if self.at + 1 >= first_seq {
            return None;
        }
        self.stand_after(first_seq - 1);
        Some(Step::Gap { first_seq })
    }

    fn stand_after(&mut self, seq: u64) {
        self.at = seq;
        self.before = (seq == 0).then(Record::default);
        self.filled = 0;
        self.taken = 0;
    }

    /// Reads the next records, and the one before them if it is not known. `Ok(false)` = would block.
    fn refill(&mut self, files: &Files, last: u64, wait: Wait) -> io::Result<bool> {
        self.filled = 0;
        self.taken = 0;
        if self.before.is_none() {
            let mut bytes = [0; RECORD];
            let at = (self.at - 1) * RECORD as u64;
            if !sys::read_at(&files.idx, &mut bytes, at, wait, &files.nowait)? {
                return Ok(false);
            }
            self.before = Record::decode(&bytes, self.at);
        }
        let count = usize::try_from(last - self.at).unwrap_or(BATCH).min(BATCH);
        let bytes = self.batch.get_mut(..count * RECORD).unwrap_or_default();
        let ready = sys::read_at(&files.idx, bytes, self.at * RECORD as u64, wait, &files.nowait)?;
        if ready {
            self.filled = count * RECORD;
        }
        Ok(ready)
    }

    /// The next frame, its record, and where its bytes begin.
    fn peek(&self) -> Option<(FrameHead, Record, u64)> {
        let seq = self.at + 1;
        let bytes = self.batch.get(self.taken..self.filled)?;
        let record = Record::decode(bytes, seq)?;
        let before = self.before?;
        let frame = record.frame(&before, seq)?;
        let from = if frame.kind == Kind::Exit { 0 } else { before.end(frame.kind) };
        Some((frame, record, from))
    }

    /// The next record is not one that a pump wrote: it was cut meanwhile, or it is damaged.
    fn broken(&mut self) -> io::Result<Step> {
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        let seq = self.at + 1;
        self.stand_after(self.at);
        self.journal.damaged(seq);
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("the index record of frame {seq} is damaged")))
    }
}
