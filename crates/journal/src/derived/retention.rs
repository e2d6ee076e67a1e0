//! Cutting the front of an event journal. `first` is on the disk before anything is punched, and readers look at it
//! after they have read, so a hole is never shown as an event. The index stays where it says how far each source was
//! derived: 32 bytes a record are the price of knowing that for ever. Who keeps that elsewhere gives it back too.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::EventJournal;
use super::files::Files;
use super::record::Record;
use super::types::EventBounds;
use crate::index::{RECORD, Record as _};
use crate::raw::ctl::{Fact, First};
use crate::{lock, sys};

impl EventJournal {
    /// Cuts every record before `record` and gives the space of its payload back. Waits for the disk.
    pub fn cut_before(&self, record: u64) -> io::Result<()> {
        let _one_at_a_time = lock(&self.cutting);
        let record = record.min(self.last.load(Ordering::SeqCst) + 1);
        if record <= lock(&self.ctl).first.seq {
            return Ok(());
        }
        let files = self.home.files_once()?;
        let start = self.end_before(&files, record)?;
        // Both files first: `first` must never point past the end of what a power loss leaves.
        files.data.sync_data()?;
        files.idx.sync_data()?;
        self.record(Fact::First(First { seq: record, out_start: start, err_start: 0 }))?;
        self.home.ctl()?.sync_data()?;
        hook!("derived.first_recorded");
        self.first.store(record, Ordering::SeqCst);
        self.update(|bounds| bounds.first = record);
        sys::punch(&files.data, 0, start)
    }

    /// Cuts what is more than `bytes` of payload, and what is older than `time_ns`, but nothing from record `keep` on; gives the
    /// space of the index back as well, and with it the knowledge how far sources were derived. Waits for the disk.
    pub fn cut_to(&self, bytes: u64, time_ns: u64, keep: u64) -> io::Result<()> {
        let EventBounds { first, last, .. } = self.bounds();
        let files = self.home.files_once()?;
        let end = lock(&self.state).data_end;
        // Both grow from record to record. One that is damaged counts as old: it tells nobody anything.
        let (mut from, mut to) = (first, keep.min(last + 1));
        while from < to {
            let middle = from + (to - from) / 2;
            let mut record = [0; RECORD];
            files.idx.read_exact_at(&mut record, (middle - 1) * RECORD as u64)?;
            let stays = Record::decode(&record, middle)
                .is_some_and(|record| end - record.data_end.min(end) < bytes && record.time_ns >= time_ns);
            if stays { to = middle } else { from = middle + 1 }
        }
        self.cut_before(from)?;
        // The record before the first one stays: it says where that begins.
        sys::punch(&files.idx, 0, from.saturating_sub(2) * RECORD as u64)
    }

    /// Where the payload of the record before this one ends; of an earlier one where that is damaged.
    fn end_before(&self, files: &Files, record: u64) -> io::Result<u64> {
        for number in (1..record).rev() {
            let mut bytes = [0; RECORD];
            files.idx.read_exact_at(&mut bytes, (number - 1) * RECORD as u64)?;
            match Record::decode(&bytes, number) {
                Some(record) => return Ok(record.data_end),
                None => self.damaged(number),
            }
        }
        Ok(0)
    }
}
