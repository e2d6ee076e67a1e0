//! Opening a journal that somebody may have been killed over.
//!
//! Cut `idx` to whole records that describe bytes that exist, then index what the raw files hold beyond them. A frame
//! that was indexed keeps its number, place and length for ever; recovery itself may be killed at any point and is then
//! simply done again. After a power loss, what was never known to be on the disk goes first: see [`super::mark`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::ctl::First;
use super::files::Files;
use super::mark::Trust;
use super::record::Record;
use super::types::{ExitRecord, OpenError};
use super::writer::Writer;
use crate::index::{RECORD, Record as _};
use ostler_story::Exit;

/// Records read at once, from the end: 256 KiB, the part of an index that is checked when it is opened. Older records
/// are checked when they are read.
const WINDOW: u64 = 8192;

/// What was found; by default nothing, as in files that were made just now.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) writer: Writer,
    pub(crate) exit: Option<ExitRecord>,
    /// First unreadable frame among the last [`WINDOW`].
    pub(crate) damaged_from: Option<u64>,
}

/// Records `from..to` (positions); `None` where nothing of ours stands.
fn read(files: &Files, from: u64, to: u64) -> io::Result<Vec<Option<Record>>> {
    let len = usize::try_from(to.saturating_sub(from)).unwrap_or(0) * RECORD;
    let mut bytes = vec![0; len];
    files.idx.read_exact_at(&mut bytes, from * RECORD as u64)?;
    let records = bytes.chunks_exact(RECORD);
    Ok((from + 1..).zip(records).map(|(seq, bytes)| Record::decode(bytes, seq)).collect())
}

/// Finds the last good record and cuts what is behind it. Does not index the rest: that may need space on a full disk.
pub(crate) fn recover(files: &Files, first: First, trust: Trust) -> Result<Recovered, OpenError> {
    let (mut out_len, mut err_len) = (files.out.metadata()?.len(), files.err.metadata()?.len());
    if let Trust::Only(mark) = trust {
        out_len = cut(&files.out, out_len, mark.out.max(first.out_start))?;
        err_len = cut(&files.err, err_len, mark.err.max(first.err_start))?;
    }
    let idx_len = files.idx.metadata()?.len();
    let floor = first.seq.saturating_sub(1);
    let exists = |record: &Record| record.out_end <= out_len && record.err_end <= err_len;

    let mut end = idx_len / RECORD as u64;
    let mut damaged_from = None;
    let mut last = Record::default();
    // Down to the record before the first kept frame: it says where that frame begins.
    let bottom = floor.saturating_sub(1);
    loop {
        if end <= bottom {
            if floor > 0 {
                let what = format!("the index ends before frame {}, the first one kept", first.seq);
                return Err(OpenError::Damaged { what });
            }
            break;
        }
        let start = end.saturating_sub(WINDOW).max(bottom);
        let mut records = read(files, start, end)?;
        while records.last().is_some_and(|record| !record.as_ref().is_some_and(exists)) {
            records.pop();
        }
        end = start + records.len() as u64;
        if let Some(Some(found)) = records.last() {
            last = *found;
            damaged_from = first_break(&records, start);
            break;
        }
    }
    if idx_len != end * RECORD as u64 {
        files.idx.set_len(end * RECORD as u64)?;
        ostler_hooks::hook!("recovery.cut");
    }
    let exit = if last.ends_process() { find_exit(files, bottom, end)? } else { None };
    let writer = Writer { last, seq: end, out_len, err_len };
    Ok(Recovered { writer, exit, damaged_from })
}

/// Cuts a raw file to what can be relied upon; gives back its length.
fn cut(file: &File, len: u64, trusted: u64) -> io::Result<u64> {
    if len > trusted {
        file.set_len(trusted)?;
        ostler_hooks::hook!("recovery.distrusted");
    }
    Ok(len.min(trusted))
}

/// The first frame that does not follow from the record before it.
fn first_break(records: &[Option<Record>], start: u64) -> Option<u64> {
    let mut before = if start == 0 { Some(Record::default()) } else { None };
    for (seq, record) in (start + 1..).zip(records) {
        let Some(record) = record else { return Some(seq) };
        if before.is_some_and(|before| record.frame(&before, seq).is_none()) {
            return Some(seq);
        }
        before = Some(*record);
    }
    None
}

/// The exit among the records before `end`, which say that there is one.
fn find_exit(files: &Files, bottom: u64, end: u64) -> io::Result<Option<ExitRecord>> {
    let mut to = end;
    while to > bottom {
        let from = to.saturating_sub(WINDOW).max(bottom);
        let records = read(files, from, to)?;
        for (position, record) in records.into_iter().enumerate().rev() {
            let seq = from + position as u64 + 1;
            if let Some(frame) = record.and_then(|record| record.exit(seq)) {
                return Ok(Some(ExitRecord::from(frame)));
            }
        }
        to = from;
    }
    // It was damaged or cut: the process has ended, how is not known.
    Ok(Some(ExitRecord { seq: end, how: Exit::Unknown, time_ns: 0 }))
}
