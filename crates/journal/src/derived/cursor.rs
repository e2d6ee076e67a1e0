//! A reader's place in an event journal. It never blocks unless told to, keeps no payload, and is never in the writer's
//! way: what it has not read yet stays in the files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::EventJournal;
use super::files::Files;
use super::record::{RECORD, Record};
use super::types::{EventHead, EventStep};
use crate::sys::{self, Wait};

/// Records read at once: 1 KiB, so that a reader that is behind needs one index read for 32 of them.
const BATCH: usize = 32;

/// A reader's place in an event journal.
pub struct EventCursor {
    journal: Arc<EventJournal>,
    /// Stands after this record.
    at: u64,
    /// That record, once known.
    before: Option<Record>,
    /// Encoded records after `at`; the first `taken` bytes are used up.
    batch: [u8; BATCH * RECORD],
    filled: usize,
    taken: usize,
}

impl EventCursor {
    /// Stands after record `after` (0 = before the first). A place beyond the end waits until the journal has grown past
    /// it.
    pub fn new(journal: Arc<EventJournal>, after: u64) -> Self {
        let before = (after == 0).then(Record::default);
        Self { journal, at: after, before, batch: [0; BATCH * RECORD], filled: 0, taken: 0 }
    }

    /// The record it stands after.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The journal it reads.
    pub fn journal(&self) -> &Arc<EventJournal> {
        &self.journal
    }

    /// The next record, its payload appended to `buf`; never blocks. An error of kind `InvalidData` names a record that
    /// is damaged.
    pub fn try_next(&mut self, buf: &mut Vec<u8>) -> io::Result<EventStep> {
        self.next(buf, Wait::Never)
    }

    /// As [`try_next`](Self::try_next), but waits for the disk; never answers `WouldBlock`.
    pub fn next_blocking(&mut self, buf: &mut Vec<u8>) -> io::Result<EventStep> {
        self.next(buf, Wait::ForDisk)
    }

    fn next(&mut self, buf: &mut Vec<u8>, wait: Wait) -> io::Result<EventStep> {
        let last = self.journal.last.load(Ordering::SeqCst);
        if self.at >= last {
            return Ok(EventStep::UpToDate);
        }
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        if wait == Wait::Never && self.journal.remote {
            // Neither opening nor reading can be asked not to wait for the server.
            return Ok(EventStep::WouldBlock);
        }
        let files = self.journal.home.files()?;
        if self.taken == self.filled && !self.refill(&files, last, wait)? {
            return Ok(self.gap().unwrap_or(EventStep::WouldBlock));
        }
        let Some((record, from, len)) = self.peek() else {
            return self.broken();
        };
        let start = buf.len();
        if len > 0 {
            buf.resize(start + len, 0);
            let bytes = buf.get_mut(start..).unwrap_or_default();
            let read = sys::read_at(&files.data, bytes, from, wait, &files.nowait);
            hook!("derived.read");
            // Only now: a hole punched meanwhile reads as zeros.
            let gap = self.gap();
            if gap.is_some() || !matches!(read, Ok(true)) {
                buf.truncate(start);
                return match gap {
                    Some(gap) => Ok(gap),
                    None => read.map(|_| EventStep::WouldBlock),
                };
            }
        }
        self.at += 1;
        self.before = Some(record);
        self.taken += RECORD;
        let Record { src_end, time_ns, source, .. } = record;
        Ok(EventStep::Event(EventHead { record: self.at, source, src_end, time_ns, len }))
    }

    /// If the next record was cut: moves behind the gap and says so.
    fn gap(&mut self) -> Option<EventStep> {
        let first = self.journal.first.load(Ordering::SeqCst);
        if self.at + 1 >= first {
            return None;
        }
        self.stand_after(first - 1);
        Some(EventStep::Gap { first })
    }

    fn stand_after(&mut self, record: u64) {
        self.at = record;
        self.before = (record == 0).then(Record::default);
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

    /// The next record, where its payload begins, and how long it is.
    fn peek(&self) -> Option<(Record, u64, usize)> {
        let record = Record::decode(self.batch.get(self.taken..self.filled)?, self.at + 1)?;
        let before = self.before?;
        Some((record, before.data_end, record.len_after(&before)?))
    }

    /// The next record is not one that was written: it was cut meanwhile, or it is damaged.
    fn broken(&mut self) -> io::Result<EventStep> {
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        let record = self.at + 1;
        self.stand_after(self.at);
        self.journal.damaged(record);
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("event record {record} is damaged")))
    }
}
