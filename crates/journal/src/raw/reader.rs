//! A reader's place in a journal. It never blocks unless told to, keeps no bytes, and is never in anybody's way: what
//! it has not read yet stays in the files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::Journal;
use super::record::Record;
use super::types::{FrameHead, Kind, Step};
use crate::index::Walk;
use crate::sys::{self, Wait};

/// A reader's place in a journal.
pub struct Cursor {
    journal: Arc<Journal>,
    walk: Walk<Record>,
}

impl Cursor {
    /// Stands after frame `after_seq` (0 = before the first). A place beyond the end waits until the journal has grown
    /// past it.
    pub fn new(journal: Arc<Journal>, after_seq: u64) -> Self {
        Self { journal, walk: Walk::after(after_seq) }
    }

    /// The frame it stands after.
    pub fn position(&self) -> u64 {
        self.walk.at()
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
        if self.walk.at() >= last {
            return Ok(Step::UpToDate);
        }
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        if wait == Wait::Never && self.journal.is_remote() {
            // Neither opening nor reading can be asked not to wait for the server.
            return Ok(Step::WouldBlock);
        }
        if !self.journal.home.is_made()
            && let Some((frame, record)) = self.journal.only_frame()
        {
            self.walk.pass(record);
            return Ok(Step::Frame(frame));
        }
        let files = self.journal.home.files()?;
        if !self.walk.look_ahead(&files.idx, &files.nowait, last, wait)? {
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
        self.walk.pass(record);
        Ok(Step::Frame(frame))
    }

    /// If the next frame was cut: moves behind the gap and says so.
    fn gap(&mut self) -> Option<Step> {
        let first_seq = self.journal.first_seq.load(Ordering::SeqCst);
        self.walk.skip_to(first_seq).then_some(Step::Gap { first_seq })
    }

    /// The next frame, its record, and where its bytes begin.
    fn peek(&self) -> Option<(FrameHead, Record, u64)> {
        let (before, record) = self.walk.around()?;
        let frame = record.frame(&before, self.walk.at() + 1)?;
        let from = if frame.kind == Kind::Exit { 0 } else { before.end(frame.kind) };
        Some((frame, record, from))
    }

    /// The next record is not one that a pump wrote: it was cut meanwhile, or it is damaged.
    fn broken(&mut self) -> io::Result<Step> {
        if let Some(gap) = self.gap() {
            return Ok(gap);
        }
        let seq = self.walk.at() + 1;
        self.walk.stand_after(self.walk.at());
        self.journal.damaged(seq);
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("the index record of frame {seq} is damaged")))
    }
}
