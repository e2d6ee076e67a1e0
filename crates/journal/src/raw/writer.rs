//! The end of a journal: the only place where frames are added. One lock holder at a time, in practice the pump thread
//! that hosts the process. A record that cannot be written leaves everything as it was, to be tried again.

use std::io;
use std::sync::atomic::Ordering;

use ostler_hooks::hook;
use ostler_story::Exit;

use super::Journal;
use super::files::Files;
use super::record::Record;
use super::types::{ExitRecord, Kind};
use crate::index::{RECORD, Record as _};
use crate::{FRAME_MAX, lock, sys};

/// Where the files end. The lengths may be ahead of the index: those bytes are safe but not visible yet.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) last: Record,
    pub(crate) seq: u64,
    pub(crate) out_len: u64,
    pub(crate) err_len: u64,
}

impl Writer {
    /// Length of a raw file = where the next byte of that stream goes.
    pub(crate) fn len(&self, kind: Kind) -> u64 {
        if kind == Kind::Stderr { self.err_len } else { self.out_len }
    }

    /// Bytes were moved into the raw file.
    pub(crate) fn grew(&mut self, kind: Kind, n: usize) {
        let len = if kind == Kind::Stderr { &mut self.err_len } else { &mut self.out_len };
        *len += n as u64;
    }

    /// Bytes moved but not indexed.
    pub(crate) fn pending(&self, kind: Kind) -> usize {
        usize::try_from(self.len(kind).saturating_sub(self.last.end(kind))).unwrap_or(usize::MAX)
    }
}

impl Journal {
    /// Makes the next frame of pending bytes visible; does nothing if there are none.
    pub(crate) fn index(&self, writer: &mut Writer, files: &Files, kind: Kind) -> io::Result<()> {
        let len = writer.pending(kind).min(FRAME_MAX);
        if len == 0 {
            return Ok(());
        }
        let end = writer.last.end(kind) + len as u64;
        self.put(writer, files, writer.last.next_output(kind, end, sys::now_ns()))?;
        self.subscribers.wake();
        Ok(())
    }

    /// Journals the exit, in the index or, where there is nothing else to be journaled, on the roll; does nothing if there is
    /// one.
    pub(crate) fn end(&self, status: Exit) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        if writer.last.ends_process() {
            return Ok(());
        }
        if self.home.is_made() {
            let files = self.home.files()?;
            self.index_exit(&mut writer, &files, status)?;
        } else {
            self.end_on_roll(&mut writer, status)?;
        }
        // Whoever hears of it may do what it likes with this journal.
        drop(writer);
        hook!("exit.recorded");
        if let Some(exit) = self.bounds().exit {
            self.tell_exit(exit);
        }
        Ok(())
    }

    /// Journals the exit, after everything pending; does nothing if there is one.
    pub(crate) fn index_exit(&self, writer: &mut Writer, files: &Files, status: Exit) -> io::Result<()> {
        if writer.last.ends_process() {
            return Ok(());
        }
        for kind in [Kind::Stdout, Kind::Stderr] {
            while writer.pending(kind) > 0 {
                self.index(writer, files, kind)?;
            }
        }
        hook!("exit.due");
        self.put(writer, files, writer.last.next_exit(status, sys::now_ns()))
    }

    fn put(&self, writer: &mut Writer, files: &Files, record: Record) -> io::Result<()> {
        if let Some(errno) = ostler_hooks::fault!("journal.index") {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let seq = writer.seq + 1;
        let at = writer.seq * RECORD as u64;
        sys::write_all_at(&files.idx, &record.encode(seq), at)?;
        hook!("journal.indexed");
        self.publish(writer, record);
        Ok(())
    }

    /// Makes a record visible that is written; who waits for it is still to be told.
    pub(super) fn publish(&self, writer: &mut Writer, record: Record) {
        let seq = writer.seq + 1;
        writer.last = record;
        writer.seq = seq;
        {
            let mut state = lock(&self.state);
            state.last_seq = seq;
            state.out_end = record.out_end;
            state.err_end = record.err_end;
            if let Some(frame) = record.exit(seq) {
                state.exit = Some(ExitRecord::from(frame));
            }
            // Under the lock: whoever heard of a frame from `bounds` finds it with a cursor, and the other way round.
            // Sequentially consistent: a subscriber that armed itself before this either sees it or is woken.
            self.last_seq.store(seq, Ordering::SeqCst);
        }
        hook!("journal.visible");
    }
}
