//! Cutting the front of a journal. `first` is on the disk before anything is punched, and readers look at it after
//! they have read, so a hole is never shown as data.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;

use super::Journal;
use super::ctl::{Fact, First};
use super::files::Files;
use super::record::Record;
use crate::index::{RECORD, Record as _};
use crate::{lock, sys};

/// A live journal is cut when it exceeds its limit by a quarter, so that cutting is rare.
const SLACK: u64 = 4;

impl Journal {
    /// Cuts every frame before `seq` and gives its space back. May block on the disk.
    pub fn cut_before(&self, seq: u64) -> io::Result<()> {
        if !self.home.is_made() {
            return Ok(());
        }
        let _one_at_a_time = lock(&self.cutting);
        self.cut(&*self.home.files()?, seq)
    }

    /// Where what is kept of stdout begins; whatever is before reads as zeros, or soon will.
    pub fn stdout_start(&self) -> u64 {
        lock(&self.ctl).first.out_start
    }

    /// The same of stderr.
    pub fn stderr_start(&self) -> u64 {
        lock(&self.ctl).first.err_start
    }

    /// Keeps a live journal near its limit, if it has one.
    pub(crate) fn cut_to_limit(&self) -> io::Result<()> {
        let Some(max) = self.options.live_max else { return Ok(()) };
        let _one_at_a_time = lock(&self.cutting);
        let bounds = self.bounds();
        let first = lock(&self.ctl).first;
        let end = bounds.out_end + bounds.err_end;
        let kept = end.saturating_sub(first.out_start + first.err_start);
        if kept <= max.saturating_add(max / SLACK) {
            return Ok(());
        }
        // The first frame from which on no more than `max` bytes remain. The last frame always stays.
        let files = self.home.files()?;
        let (mut low, mut high) = (first.seq, bounds.last_seq);
        while low < high {
            let middle = low + (high - low) / 2;
            let (_, start) = self.record_from(&files, middle - 1)?;
            if end.saturating_sub(start.out_end + start.err_end) > max {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.cut(&files, low)
    }

    fn cut(&self, files: &Files, seq: u64) -> io::Result<()> {
        let seq = seq.min(self.last_seq.load(Ordering::SeqCst) + 1);
        if seq <= lock(&self.ctl).first.seq {
            return Ok(());
        }
        let (before, base) = self.record_from(files, seq - 1)?;
        let seq = before + 1;
        let first = First { seq, out_start: base.out_end, err_start: base.err_end };
        // `first` must never point past the end of what a power loss leaves: data, index, and the mark that both are judged by.
        let lengths = self.raw_lengths();
        files.out.sync_data()?;
        files.err.sync_data()?;
        files.idx.sync_data()?;
        if let Ok(lengths) = lengths {
            self.set_mark(lengths);
        }
        self.record(Fact::First(first))?;
        self.home.ctl()?.sync_data()?;
        hook!("retention.recorded");
        self.first_seq.store(seq, Ordering::SeqCst);
        self.update(|bounds| bounds.first_seq = seq);
        sys::punch(&files.out, 0, first.out_start)?;
        sys::punch(&files.err, 0, first.err_start)?;
        hook!("retention.punched");
        // The record before the first frame stays: it says where that frame begins.
        sys::punch(&files.idx, 0, seq.saturating_sub(2) * RECORD as u64)
    }

    /// The record of this frame, which is kept or the one before the first; or the next one that is not damaged.
    fn record_from(&self, files: &Files, seq: u64) -> io::Result<(u64, Record)> {
        let last = self.last_seq.load(Ordering::SeqCst);
        for at in seq..=last {
            match read_record(files, at)? {
                Some(record) => return Ok((at, record)),
                None => self.damaged(at),
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("every index record from {seq} on is damaged")))
    }
}

/// The record of a frame, the default for frame 0; `None` = nothing of ours stands there. Waits for the disk.
pub(super) fn read_record(files: &Files, seq: u64) -> io::Result<Option<Record>> {
    let Some(position) = seq.checked_sub(1) else { return Ok(Some(Record::default())) };
    let mut bytes = [0; RECORD];
    files.idx.read_exact_at(&mut bytes, position * RECORD as u64)?;
    Ok(Record::decode(&bytes, seq))
}

/// Bytes that the files in `dir` take on the disk (holes do not count).
pub fn disk_usage(dir: &Path) -> io::Result<u64> {
    let mut blocks = 0;
    for entry in std::fs::read_dir(dir)? {
        match entry?.metadata() {
            Ok(meta) if meta.is_file() => blocks += meta.blocks(),
            Ok(_) => {}
            // Deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(blocks * 512)
}
