//! What a process wrote to its stdout, as one stream, for readers that may wait for the disk.

use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use ostler_journal::{Cursor, Kind, Step};

use super::Process;
use crate::MayWait;
use crate::lines::last_lines;

/// As much of the end of a journal as its last lines are looked for in.
const TAIL: u64 = 8 * 1024;

/// Reads the journaled stdout from its beginning to where it ends now.
pub struct Stdout {
    cursor: Cursor,
    frame: Vec<u8>,
    at: usize,
}

impl Process {
    /// The bytes of its stdout between two offsets.
    pub(crate) fn stdout_between(&self, _wait: &MayWait, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let bytes = self.file_between("out", from, to)?;
        // Only now: what is let go meanwhile reads as zeros.
        kept(from >= self.stdout_start()).map(|()| bytes)
    }

    /// The same of its stderr.
    pub(crate) fn stderr_between(&self, _wait: &MayWait, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let bytes = self.file_between("err", from, to)?;
        kept(from >= self.inner.journal.stderr_start()).map(|()| bytes)
    }

    /// The first byte of its stdout that is kept.
    pub(crate) fn stdout_start(&self) -> u64 {
        self.inner.journal.stdout_start()
    }

    /// The bytes that were accepted for its stdin between two offsets; only of a session's agent are they kept.
    pub(crate) fn stdin_between(&self, _wait: &MayWait, from: u64, to: u64) -> io::Result<Vec<u8>> {
        kept(self.about().session.is_some())?;
        self.file_between("in", from, to)
    }

    fn file_between(&self, name: &str, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let dir = self.inner.journal.dir().ok_or_else(|| io::Error::other("its journal is in memory"))?;
        let length = usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        if length == 0 {
            // There may be no such file yet.
            return Ok(bytes);
        }
        std::fs::File::open(dir.join(name))?.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }

    /// Its last lines, of both streams, as plain text. Reads a bounded part of the journal's end; may wait for the disk.
    pub fn last_lines(&self, _wait: &MayWait, count: usize) -> io::Result<Vec<String>> {
        let bounds = self.bounds();
        if count == 0 || bounds.out_end + bounds.err_end == 0 {
            return Ok(Vec::new());
        }
        let mut cursor = self.cursor(self.inner.journal.tail_from(TAIL)?.saturating_sub(1));
        let mut bytes = Vec::new();
        while cursor.position() < bounds.last_seq {
            match cursor.next_blocking(&mut bytes)? {
                Step::Frame(_) | Step::Gap { .. } => {}
                Step::UpToDate | Step::WouldBlock => break,
            }
        }
        // Of a screen, bits and pieces are seen; one with a word in it is worth showing.
        let least = if self.about().tty { 3 } else { 1 };
        let from = bytes.len().saturating_sub(usize::try_from(TAIL).unwrap_or(usize::MAX));
        Ok(last_lines(bytes.get(from..).unwrap_or_default(), count, least))
    }

    /// Its stdout so far. A part that retention has let go is an error, never a silent gap. Reading may wait for
    /// the disk.
    pub fn stdout(&self, _wait: &MayWait) -> Stdout {
        Stdout { cursor: self.cursor(0), frame: Vec::new(), at: 0 }
    }
}

fn kept(is_kept: bool) -> io::Result<()> {
    if is_kept { Ok(()) } else { Err(io::Error::other("these bytes are no longer kept")) }
}

impl Read for Stdout {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.frame.len() {
            self.frame.clear();
            self.at = 0;
            match self.cursor.next_blocking(&mut self.frame)? {
                Step::Frame(head) if head.kind == Kind::Stdout => {}
                Step::Frame(_) => self.frame.clear(),
                Step::Gap { missing, .. } => {
                    return Err(io::Error::other(format!("a part of the output cannot be read: {missing}")));
                }
                Step::UpToDate | Step::WouldBlock => return Ok(0),
            }
        }
        let rest = self.frame.get(self.at..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        if let (Some(from), Some(into)) = (rest.get(..length), buffer.get_mut(..length)) {
            into.copy_from_slice(from);
        }
        self.at += length;
        Ok(length)
    }
}
