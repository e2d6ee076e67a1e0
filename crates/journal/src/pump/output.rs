//! One output stream of a process: out of the pipe (or the terminal) into the raw file, then into the index.
//!
//! Small writes are coalesced: bytes after a pause are visible at once, a chatterer's within a millisecond. The bytes
//! are in the file all the time, only their index record waits, so a kill costs nothing.

use std::io;
use std::time::{Duration, Instant};

use ostler_hooks::hook;
use rustix::io::Errno;

use super::feed::Feed;
use super::poller::{Poller, Source, Token};
use crate::FRAME_MAX;
use crate::raw::{Files, Journal, Kind, Writer};

/// A stream that was silent this long is interactive: its next bytes are indexed at once.
const SILENCE: Duration = Duration::from_millis(2);
/// The longest that bytes wait for company.
const GATHER: Duration = Duration::from_millis(1);
/// With less than this gathered the pipe is left alone until [`GATHER`] is over: a child that writes single bytes then
/// costs a thousand wakes a second, not a million. A pipe holds 16 times as much, so a busy child does not stall.
const NAP_BELOW: usize = 4096;
/// Frames moved before the other descriptors of the thread get their turn.
const TURN: usize = 8;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Empty for now.
    Drained,
    /// There is probably more.
    More,
    /// The stream has ended; everything is indexed.
    Ended,
}

pub(crate) struct Output {
    pub(crate) feed: Feed,
    pub(crate) kind: Kind,
    token: Token,
    polled: bool,
    napping: bool,
    last_bytes: Option<Instant>,
    gathering_since: Option<Instant>,
}

impl Output {
    pub(crate) fn new(feed: Feed, kind: Kind, lane: u64) -> Self {
        let source = if kind == Kind::Stderr { Source::Stderr } else { Source::Stdout };
        Self {
            feed,
            kind,
            token: Token::Lane(lane, source),
            polled: false,
            napping: false,
            last_bytes: None,
            gathering_since: None,
        }
    }

    /// Moves what is there, a turn's worth. Bytes moved are added to `moved`. An error is the disk's.
    pub(crate) fn pump(
        &mut self,
        journal: &Journal,
        writer: &mut Writer,
        files: &Files,
        now: Instant,
        moved: &mut u64,
    ) -> io::Result<Flow> {
        let mut silent = self.last_bytes.is_none_or(|last| now - last >= SILENCE);
        for _ in 0..TURN {
            let room = FRAME_MAX.saturating_sub(writer.pending(self.kind));
            if room == 0 {
                self.index(journal, writer, files)?;
                continue;
            }
            let len = writer.len(self.kind);
            match self.feed.take(files.raw(self.kind), len, room) {
                Ok(0) => {
                    self.index_all(journal, writer, files)?;
                    return Ok(Flow::Ended);
                }
                Ok(n) => {
                    writer.grew(self.kind, n);
                    hook!("journal.spliced");
                    *moved += n as u64;
                    self.last_bytes = Some(now);
                    if n == room || silent {
                        self.index(journal, writer, files)?;
                        silent = false;
                    } else {
                        self.gathering_since.get_or_insert(now);
                    }
                    if n < room && self.feed.short_means_empty() {
                        let few = writer.pending(self.kind) < NAP_BELOW;
                        self.napping = few && self.gathering_since.is_some();
                        return Ok(Flow::Drained);
                    }
                }
                Err(Errno::AGAIN) => return Ok(Flow::Drained),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Flow::More)
    }

    /// Indexes everything that was gathered.
    pub(crate) fn index_all(&mut self, journal: &Journal, writer: &mut Writer, files: &Files) -> io::Result<()> {
        while writer.pending(self.kind) > 0 {
            self.index(journal, writer, files)?;
        }
        Ok(())
    }

    /// Indexes what was gathered, one frame.
    fn index(&mut self, journal: &Journal, writer: &mut Writer, files: &Files) -> io::Result<()> {
        journal.index(writer, files, self.kind)?;
        self.gathering_since = None;
        self.napping = false;
        Ok(())
    }

    /// When gathered bytes must become visible.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.gathering_since.map(|since| since + GATHER)
    }

    /// Puts the descriptor into the set or takes it out. A nap is always out.
    pub(crate) fn poll(&mut self, poller: &Poller, wanted: bool) -> io::Result<()> {
        let wanted = wanted && !self.napping;
        if wanted == self.polled {
            return Ok(());
        }
        if wanted {
            poller.add_readable(self.feed.polled(), self.token)?;
        } else {
            poller.remove(self.feed.polled());
        }
        self.polled = wanted;
        Ok(())
    }
}
