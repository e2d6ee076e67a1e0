//! Cutting the front of an event journal. `first` is on the disk before anything is punched, and readers look at it
//! after they have read, so a hole is never shown as an event. The index stays: 32 bytes a record are the price of
//! knowing for ever how far each source was derived.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::EventJournal;
use super::files::Files;
use super::record::Record;
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
