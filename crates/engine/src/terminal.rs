//! The terminal of a command that may have to ask for a password. What passes through it is held in memory for as long as it
//! takes to pass, and is never journaled, logged or traced.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The master of a pseudo terminal that a keeper made; non-blocking.
#[derive(Debug)]
pub struct Terminal {
    master: OwnedFd,
}

/// What a look at the terminal brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Silence,
    /// Nobody has the other end open any more.
    End,
}

impl Terminal {
    /// The terminal behind this master, which does not block.
    pub fn new(master: OwnedFd) -> Self {
        Self { master }
    }

    /// Waits for output of the terminal, at most this long.
    pub fn read(&self, buffer: &mut [u8], wait: Duration) -> io::Result<Heard> {
        if !self.ready(PollFlags::IN, wait)? {
            return Ok(Heard::Silence);
        }
        match rustix::io::read(&self.master, buffer) {
            // EIO is how a pseudo terminal says that its last user is gone.
            Ok(0) | Err(Errno::IO) => Ok(Heard::End),
            Ok(length) => Ok(Heard::Bytes(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Heard::Silence),
            Err(error) => Err(error.into()),
        }
    }

    /// Types into the terminal; waits at most this long for it to take more.
    pub fn write(&self, mut bytes: &[u8], wait: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            if !self.ready(PollFlags::OUT, wait)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match rustix::io::write(&self.master, bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn ready(&self, what: PollFlags, wait: Duration) -> io::Result<bool> {
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.master, what)], Some(&wait)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
