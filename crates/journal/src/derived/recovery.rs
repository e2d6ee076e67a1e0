//! Opening an event journal that somebody may have been killed over.
//!
//! Cut `events.idx` to whole records about bytes that exist, then cut `events` to the end of the last one: a payload
//! without a record is never indexed, it is derived again. A record keeps its number and payload for ever; recovery
//! itself may be killed at any point and is then simply done again.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;

use super::append::Writer;
use super::files::Files;
use super::record::Record;
use crate::index::{RECORD, Record as _};
use crate::raw::OpenError;
use crate::raw::ctl::First;
use crate::raw::mark::Trust;
use crate::sys;

/// Records read at once: 256 KiB. All of them are looked at once, to know how far each source was derived.
const CHUNK: u64 = 8192;

/// What was found.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) writer: Writer,
    /// How far each source was derived.
    pub(crate) sources: HashMap<u32, u64>,
    /// First unreadable record with a readable one behind it.
    pub(crate) damaged_from: Option<u64>,
}

impl Recovered {
    /// The record after everything seen so far, in a journal with `data_len` bytes of data. `broken`: the first of
    /// those since the last good one that were none.
    fn see(&mut self, number: u64, record: Option<Record>, data_len: u64, broken: &mut Option<u64>) {
        let good = record.filter(|record| (self.writer.last.data_end..=data_len).contains(&record.data_end));
        let Some(record) = good else {
            broken.get_or_insert(number);
            return;
        };
        self.damaged_from = self.damaged_from.or(broken.take());
        self.writer = Writer { last: record, count: number };
        note(&mut self.sources, &record);
    }
}

/// Remembers how far a record's source was derived with it.
pub(crate) fn note(sources: &mut HashMap<u32, u64>, record: &Record) {
    let up_to = sources.entry(record.source).or_default();
    *up_to = record.src_end.max(*up_to);
}

/// Finds the last good record and cuts what is behind it.
pub(crate) fn recover(files: &Files, first: First, trust: Trust) -> Result<Recovered, OpenError> {
    let (data_len, idx_len) = (files.data.metadata()?.len(), files.idx.metadata()?.len());
    let kept = first.seq.saturating_sub(1);
    let mut end = idx_len / RECORD as u64;
    if let Trust::Only(mark) = trust {
        // What was cut away was on the disk before that was said.
        end = end.min(kept.max(mark.err / RECORD as u64));
    }
    let mut found = Recovered::default();
    let mut broken = None;
    // What was given back of the index is not read.
    let mut from = sys::first_data(&files.idx) / RECORD as u64;
    while from < end {
        let count = CHUNK.min(end - from);
        for (number, record) in (from + 1..).zip(read(files, from, count)?.chunks_exact(RECORD)) {
            found.see(number, Record::decode(record, number), data_len, &mut broken);
        }
        from += count;
    }
    if found.writer.count < kept {
        let what = format!("the index ends before record {}, the first one kept", first.seq);
        return Err(OpenError::Damaged { what });
    }
    if idx_len != found.writer.count * RECORD as u64 {
        files.idx.set_len(found.writer.count * RECORD as u64)?;
        ostler_hooks::hook!("derived.index_cut");
    }
    cut_tail(files, &mut found.writer, data_len)?;
    Ok(found)
}

fn cut_tail(files: &Files, writer: &mut Writer, data_len: u64) -> io::Result<()> {
    if ostler_hooks::fault!("derived.keep_tail").is_some() {
        // The negative control: what an append-only file does without this rule. The crash tests must notice.
        writer.last.data_end = data_len;
        return Ok(());
    }
    if data_len > writer.last.data_end {
        files.data.set_len(writer.last.data_end)?;
    }
    Ok(())
}

fn read(files: &Files, from: u64, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).unwrap_or(0) * RECORD];
    files.idx.read_exact_at(&mut bytes, from * RECORD as u64)?;
    Ok(bytes)
}
