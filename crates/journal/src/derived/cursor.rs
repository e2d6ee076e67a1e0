//! A reader's place in an event journal. It never blocks unless told to, keeps no payload, and is never in the writer's
//! way: what it has not read yet stays in the files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::EventJournal;
use super::files::Files;
use super::record::Record;
use super::types::{EventHead, EventStep};
use crate::index::Walk;
use crate::raw::Missing;
use crate::sys::{self, Wait};

/// A reader's place in an event journal.
pub struct EventCursor {
    journal: Arc<EventJournal>,
    walk: Walk<Record>,
    /// Open while there is something to read: a reader that waits, or is gone, costs a session that rests no descriptor.
    files: Option<Arc<Files>>,
}

impl EventCursor {
    /// Stands after record `after` (0 = before the first). A place beyond the end waits until the journal has grown past
    /// it.
    pub fn new(journal: Arc<EventJournal>, after: u64) -> Self {
        Self { journal, walk: Walk::after(after), files: None }
    }

    /// The record it stands after.
    pub fn position(&self) -> u64 {
        self.walk.at()
    }

    /// The journal it reads.
    pub fn journal(&self) -> &Arc<EventJournal> {
        &self.journal
    }

    /// The next record, its payload appended to `buf`; never blocks.
    pub fn try_next(&mut self, buf: &mut Vec<u8>) -> io::Result<EventStep> {
        self.next(buf, Wait::Never)
    }

    /// As [`try_next`](Self::try_next), but waits for the disk; never answers `WouldBlock`.
    pub fn next_blocking(&mut self, buf: &mut Vec<u8>) -> io::Result<EventStep> {
        self.next(buf, Wait::ForDisk)
    }

    /// Gives `take` every record up to `last`, or to the end; what is missing is passed over. Waits for the disk.
    pub fn read_upto(&mut self, last: u64, mut take: impl FnMut(EventHead, &[u8])) -> io::Result<()> {
        let mut payload = Vec::new();
        while self.position() < last {
            payload.clear();
            match self.next_blocking(&mut payload)? {
                EventStep::Event(head) => take(head, &payload),
                EventStep::Gap { .. } => {}
                EventStep::UpToDate | EventStep::WouldBlock => break,
            }
        }
        Ok(())
    }

    fn next(&mut self, buf: &mut Vec<u8>, wait: Wait) -> io::Result<EventStep> {
        let last = self.journal.last.load(Ordering::SeqCst);
        if self.walk.at() >= last {
            self.files = None;
            return Ok(EventStep::UpToDate);
        }
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        if wait == Wait::Never && self.journal.remote {
            // Neither opening nor reading can be asked not to wait for the server.
            return Ok(EventStep::WouldBlock);
        }
        let files = match &self.files {
            Some(files) => Arc::clone(files),
            None => Arc::clone(self.files.insert(self.journal.home.files_once()?)),
        };
        if !self.walk.look_ahead(&files.idx, &files.nowait, last, wait)? {
            return Ok(self.gap().unwrap_or(EventStep::WouldBlock));
        }
        let Some((record, from, len)) = self.peek() else {
            return Ok(self.skip_damaged());
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
        self.walk.pass(record);
        let Record { src_end, time_ns, source, .. } = record;
        Ok(EventStep::Event(EventHead { record: self.walk.at(), source, src_end, time_ns, len }))
    }

    /// If the next record was cut: moves behind the gap and says so.
    fn gap(&mut self) -> Option<EventStep> {
        let first = self.journal.first.load(Ordering::SeqCst);
        self.walk.skip_to(first).then_some(EventStep::Gap { first, missing: Missing::LetGo })
    }

    /// The next record, where its payload begins, and how long it is.
    fn peek(&self) -> Option<(Record, u64, usize)> {
        let (before, record) = self.walk.around();
        let record = record?;
        let (from, len) = match before {
            Some(before) => (before.data_end, record.len_after(&before)?),
            None => record.alone()?,
        };
        Some((record, from, len))
    }

    /// The next record is not one that was written: it was cut meanwhile, or it is damaged. Goes behind it and those like it
    /// that were read with it.
    fn skip_damaged(&mut self) -> EventStep {
        if let Some(gap) = self.gap() {
            return gap;
        }
        self.journal.damaged(self.walk.at() + 1);
        while self.walk.has_next() && self.peek().is_none() {
            let (_, record) = self.walk.around();
            self.walk.pass_unread(record);
        }
        EventStep::Gap { first: self.walk.at() + 1, missing: Missing::Damaged }
    }
}
