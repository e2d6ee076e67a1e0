//! The end of an event journal: the only place where records are added. Payload first, then the record, then visible;
//! what cannot be written leaves everything as it was, to be tried again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ostler_hooks::{fault, hook};

use super::EventJournal;
use super::files::Files;
use super::record::{PAYLOAD_MAX, Record};
use super::recovery::note;
use crate::index::{RECORD, Record as _};
use crate::{lock, sys};

/// The source of what was not derived: said by the engine itself.
pub const ENGINE: u32 = 0;

/// Where the records end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writer {
    pub(crate) last: Record,
    pub(crate) count: u64,
}

impl EventJournal {
    /// Journals the events of one raw line and makes them visible: the number of their record. Waits for the disk.
    ///
    /// `source` n >= 1 is the session's n-th agent process and `src_end` the raw offset after the line (0 = before it
    /// said anything, `u64::MAX` = after its end). Each is taken once: `None` = this line or a later one of that source
    /// is journaled already, and nothing was done. Source 0 is the engine itself: always journaled, with `src_end` as a
    /// number of the caller's own. An error means that nothing is visible and the same may be tried again.
    pub fn append(self: &Arc<Self>, source: u32, src_end: u64, payload: &[u8]) -> io::Result<Option<u64>> {
        if payload.len() > PAYLOAD_MAX {
            return Err(too_long(payload));
        }
        let mut writer = lock(&self.writer);
        if source != ENGINE && lock(&self.sources).get(&source).is_some_and(|up_to| src_end <= *up_to) {
            return Ok(None);
        }
        let files = self.home.files()?;
        let data_end = writer.last.data_end + payload.len() as u64;
        let size = self.sized.then(|| u32::try_from(payload.len())).and_then(Result::ok);
        let record = Record { data_end, src_end, time_ns: sys::now_ns(), source, size };
        if let Err(error) = write(&files, &writer, payload, &record) {
            give_back(&files, &writer);
            return Err(error);
        }
        *writer = Writer { last: record, count: writer.count + 1 };
        let number = writer.count;
        note(&mut lock(&self.sources), &record);
        self.show(&writer);
        drop(writer);
        self.subscribers.wake();
        self.is_dirty();
        Ok(Some(number))
    }

    /// Journals payloads of a source that is its own, a record for each with its own number for `src_end`: two writes for all
    /// of them, and they are visible together. Gives the number of the last. Waits for the disk. An error means that none is
    /// visible; after a kill the first so many of them are there.
    pub fn append_all(self: &Arc<Self>, source: u32, payloads: &[Vec<u8>]) -> io::Result<u64> {
        if let Some(long) = payloads.iter().find(|payload| payload.len() > PAYLOAD_MAX) {
            return Err(too_long(long));
        }
        let mut writer = lock(&self.writer);
        let files = self.home.files()?;
        let (mut end, mut index) = (*writer, Vec::with_capacity(payloads.len() * RECORD));
        for payload in payloads {
            let (count, data_end) = (end.count + 1, end.last.data_end + payload.len() as u64);
            let size = self.sized.then(|| u32::try_from(payload.len())).and_then(Result::ok);
            let record = Record { data_end, src_end: count, time_ns: sys::now_ns(), source, size };
            index.extend_from_slice(&record.encode(count));
            end = Writer { last: record, count };
        }
        let written = sys::write_all_at(&files.data, &payloads.concat(), writer.last.data_end).and_then(|()| {
            hook!("derived.all_data");
            sys::write_all_at(&files.idx, &index, writer.count * RECORD as u64)
        });
        if let Err(error) = written {
            give_back(&files, &writer);
            return Err(error);
        }
        *writer = end;
        note(&mut lock(&self.sources), &end.last);
        self.show(&writer);
        drop(writer);
        self.subscribers.wake();
        self.is_dirty();
        Ok(end.count)
    }

    /// Everything up to the writer's end can be read from now on.
    fn show(&self, writer: &Writer) {
        let mut state = lock(&self.state);
        state.bounds.last = writer.count;
        state.data_end = writer.last.data_end;
        // Under the lock: whoever heard of a record from `bounds` finds it with a cursor. Sequentially consistent: a
        // subscriber that armed itself before this either sees it or is woken.
        self.last.store(writer.count, Ordering::SeqCst);
    }
}

fn too_long(payload: &[u8]) -> io::Error {
    let what = format!("{} bytes of events in one record; at most {PAYLOAD_MAX}", payload.len());
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Gives back what half of it took. Where even that fails: nobody looks there, and the next one overwrites it.
fn give_back(files: &Files, writer: &Writer) {
    let _ = files.idx.set_len(writer.count * RECORD as u64);
    let _ = files.data.set_len(writer.last.data_end);
}

fn write(files: &Files, writer: &Writer, payload: &[u8], record: &Record) -> io::Result<()> {
    if let Some(errno) = fault!("derived.write") {
        return Err(io::Error::from_raw_os_error(errno));
    }
    sys::write_all_at(&files.data, payload, writer.last.data_end)?;
    hook!("derived.data");
    if let Some(errno) = fault!("derived.index") {
        return Err(io::Error::from_raw_os_error(errno));
    }
    sys::write_all_at(&files.idx, &record.encode(writer.count + 1), writer.count * RECORD as u64)?;
    hook!("derived.indexed");
    Ok(())
}
