//! A reader's place in an index file. It reads ahead by a handful of records, never waits unless told to, and keeps
//! nothing but those.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;

use super::record::{RECORD, Record};
use crate::sys::{self, Wait};

/// Records read at once: 1 KiB, so that a reader that is behind needs one index read for 32 of them.
const BATCH: usize = 32;

/// A place between two records.
pub(crate) struct Walk<R> {
    /// Stands after this record.
    at: u64,
    /// That record, once known.
    before: Option<R>,
    /// Encoded records after `at`; the first `taken` bytes are used up.
    batch: [u8; BATCH * RECORD],
    filled: usize,
    taken: usize,
}

impl<R: Record> Walk<R> {
    /// Stands after record `number` (0 = before the first).
    pub(crate) fn after(number: u64) -> Self {
        let before = (number == 0).then(R::default);
        Self { at: number, before, batch: [0; BATCH * RECORD], filled: 0, taken: 0 }
    }

    /// The number of the record it stands after.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Goes to another place, or reads this one again.
    pub(crate) fn stand_after(&mut self, number: u64) {
        self.at = number;
        self.before = (number == 0).then(R::default);
        self.filled = 0;
        self.taken = 0;
    }

    /// If the next record was cut, because the index now begins with `first`: moves behind the gap.
    pub(crate) fn skip_to(&mut self, first: u64) -> bool {
        let cut = self.at + 1 < first;
        if cut {
            self.stand_after(first - 1);
        }
        cut
    }

    /// Has the next record at hand; there is one, because `last` comes later. `Ok(false)` = would block.
    pub(crate) fn look_ahead(&mut self, idx: &File, nowait: &AtomicBool, last: u64, wait: Wait) -> io::Result<bool> {
        if self.has_next() {
            return Ok(true);
        }
        self.filled = 0;
        self.taken = 0;
        if self.before.is_none() {
            let mut bytes = [0; RECORD];
            if !sys::read_at(idx, &mut bytes, (self.at - 1) * RECORD as u64, wait, nowait)? {
                return Ok(false);
            }
            self.before = R::decode(&bytes, self.at);
        }
        let count = usize::try_from(last - self.at).unwrap_or(BATCH).min(BATCH);
        let bytes = self.batch.get_mut(..count * RECORD).unwrap_or_default();
        let ready = sys::read_at(idx, bytes, self.at * RECORD as u64, wait, nowait)?;
        if ready {
            self.filled = count * RECORD;
        }
        Ok(ready)
    }

    /// The next record is at hand.
    pub(crate) fn has_next(&self) -> bool {
        self.taken < self.filled
    }

    /// The record before this place and the one after it; nothing for one that is damaged.
    pub(crate) fn around(&self) -> (Option<R>, Option<R>) {
        let next = self.batch.get(self.taken..self.filled).and_then(|bytes| R::decode(bytes, self.at + 1));
        (self.before, next)
    }

    /// Goes behind the next record, from which nothing can be read but that it is there.
    pub(crate) fn pass_unread(&mut self, record: Option<R>) {
        self.at += 1;
        self.before = record;
        self.taken += RECORD;
    }

    /// Goes behind the next record, which is `record`.
    pub(crate) fn pass(&mut self, record: R) {
        self.pass_unread(Some(record));
    }
}
