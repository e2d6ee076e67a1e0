//! The report on its way out. Holds one frame at most: while the reader is slow, the stages wait, and while there is no
//! reader (the daemon died), the runner still watches its clock and its children.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::frame::{self, Kind};
use crate::outcome::Outcome;

/// Writes frames to stdout.
pub(crate) struct Sink {
    out: BorrowedFd<'static>,
    pending: Vec<u8>,
    sent: usize,
    /// Nobody will ever read it. The stages are not stopped for that: half a run is worse than a lost report.
    gone: bool,
}

impl Sink {
    pub(crate) fn stdout() -> io::Result<Self> {
        let out = rustix::stdio::stdout();
        fcntl_setfl(out, fcntl_getfl(out)? | OFlags::NONBLOCK)?;
        let mut sink = Self { out, pending: Vec::new(), sent: 0, gone: false };
        sink.put(Kind::Version, 0, frame::VERSION);
        Ok(sink)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'static> {
        self.out
    }

    /// Everything was handed on; there is room for a frame.
    pub(crate) fn is_idle(&self) -> bool {
        self.gone || self.sent == self.pending.len()
    }

    /// Takes a frame. To be called when idle; the frame leaves at once as far as the reader lets it.
    pub(crate) fn put(&mut self, kind: Kind, stage: usize, bytes: &[u8]) {
        if self.is_idle() {
            self.pending.clear();
            self.sent = 0;
        }
        if !self.gone {
            frame::put(&mut self.pending, kind, stage, bytes);
            self.push();
        }
    }

    /// Hands on what the reader takes without waiting.
    pub(crate) fn push(&mut self) {
        while let Some(rest) = self.pending.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(self.out, rest) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.gone = true,
            }
            if self.gone {
                return;
            }
        }
    }

    /// The last frame. Waits for the reader as long as there is one: the next daemon reads on where the last one died.
    pub(crate) fn finish(mut self, outcome: &Outcome) -> io::Result<()> {
        self.drain()?;
        self.put(Kind::Outcome, 0, &serde_json::to_vec(outcome)?);
        self.drain()
    }

    fn drain(&mut self) -> io::Result<()> {
        while !self.is_idle() {
            let mut fds = [PollFd::new(&self.out, PollFlags::OUT)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => self.push(),
                Err(error) => return Err(error.into()),
            }
        }
        if self.gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}
