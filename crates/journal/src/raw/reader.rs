//! A reader's place in a journal. It never blocks unless told to, keeps no bytes, and is never in anybody's way: what
//! it has not read yet stays in the files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::Journal;
use super::record::Record;
use super::types::{FrameHead, Missing, Step};
use crate::index::Walk;
use crate::sys::{self, Wait};

/// A reader's place in a journal.
pub struct Cursor {
    journal: Arc<Journal>,
    walk: Walk<Record>,
    /// It has said that what comes after this place is lost.
    said_lost: bool,
}

impl Cursor {
    /// Stands after frame `after_seq` (0 = before the first). A place beyond the end waits until the journal has grown
    /// past it.
    pub fn new(journal: Arc<Journal>, after_seq: u64) -> Self {
        Self { journal, walk: Walk::after(after_seq), said_lost: false }
    }

    /// The frame it stands after.
    pub fn position(&self) -> u64 {
        self.walk.at()
    }

    /// The journal it reads.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The next frame, its bytes appended to `buf`; never blocks.
    pub fn try_next(&mut self, buf: &mut Vec<u8>) -> io::Result<Step> {
        self.next(buf, Wait::Never)
    }

    /// As [`try_next`](Self::try_next), but waits for the disk; never answers `WouldBlock`.
    pub fn next_blocking(&mut self, buf: &mut Vec<u8>) -> io::Result<Step> {
        self.next(buf, Wait::ForDisk)
    }

    fn next(&mut self, buf: &mut Vec<u8>, wait: Wait) -> io::Result<Step> {
        if !self.said_lost && self.walk.at() == self.journal.lost_after.load(Ordering::SeqCst) {
            self.said_lost = true;
            return Ok(Step::Gap { first_seq: self.walk.at() + 1, missing: Missing::Lost });
        }
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
        let Some((frame, record)) = self.peek() else {
            return Ok(self.skip_damaged());
        };
        let start = buf.len();
        if frame.len > 0 {
            buf.resize(start + frame.len, 0);
            let bytes = buf.get_mut(start..).unwrap_or_default();
            let read = sys::read_at(files.raw(frame.kind), bytes, frame.from, wait, &files.nowait);
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
        self.walk.skip_to(first_seq).then_some(Step::Gap { first_seq, missing: Missing::LetGo })
    }

    /// The next frame and its record.
    fn peek(&self) -> Option<(FrameHead, Record)> {
        let (before, record) = self.walk.around();
        let (record, seq) = (record?, self.walk.at() + 1);
        let frame = match before {
            Some(before) => record.frame(&before, seq)?,
            None => record.frame_alone(seq)?,
        };
        Some((frame, record))
    }

    /// The next record is not one that a pump wrote: it was cut meanwhile, or it is damaged. Goes behind it and those like
    /// it that were read with it.
    fn skip_damaged(&mut self) -> Step {
        if let Some(gap) = self.gap() {
            return gap;
        }
        self.journal.damaged(self.walk.at() + 1);
        while self.walk.has_next() && self.peek().is_none() {
            let (_, record) = self.walk.around();
            self.walk.pass_unread(record);
        }
        Step::Gap { first_seq: self.walk.at() + 1, missing: Missing::Damaged }
    }
}
