//! What a process wrote to its stdout, as one stream, for readers that may wait for the disk.

use std::io::{self, Read};

use ostler_journal::{Cursor, Kind, Step};

use super::Process;

/// Reads the journaled stdout from its beginning to where it ends now.
pub struct Stdout {
    cursor: Cursor,
    frame: Vec<u8>,
    at: usize,
}

impl Process {
    /// Its stdout so far. A part that retention has let go is an error, never a silent gap.
    pub fn stdout(&self) -> Stdout {
        Stdout { cursor: self.cursor(0), frame: Vec::new(), at: 0 }
    }
}

impl Read for Stdout {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.frame.len() {
            self.frame.clear();
            self.at = 0;
            match self.cursor.next_blocking(&mut self.frame)? {
                Step::Frame(head) if head.kind == Kind::Stdout => {}
                Step::Frame(_) => self.frame.clear(),
                Step::Gap { .. } => return Err(io::Error::other("the beginning of the output is no longer kept")),
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
