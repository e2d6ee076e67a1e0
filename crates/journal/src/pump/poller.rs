//! The epoll set of one pump thread. A descriptor must be taken out before it is closed: the keeper holds the same
//! description, so closing ours would leave it in the set for ever.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Which descriptor of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdout,
    Stderr,
    Stdin,
}

/// Something a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Notices from other threads.
    Wake,
    /// A guest, by its number; they count from 1.
    Guest(u64),
    /// A descriptor of the lane with this id.
    Lane(u64, Source),
}

impl Token {
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Wake => 0,
            Self::Guest(number) => number << 2,
            Self::Lane(id, Source::Stdout) => id << 2 | 1,
            Self::Lane(id, Source::Stderr) => id << 2 | 2,
            Self::Lane(id, Source::Stdin) => id << 2 | 3,
        })
    }

    fn from_data(data: u64) -> Self {
        let source = match data & 3 {
            1 => Source::Stdout,
            2 => Source::Stderr,
            3 => Source::Stdin,
            _ if data == 0 => return Self::Wake,
            _ => return Self::Guest(data >> 2),
        };
        Self::Lane(data >> 2, source)
    }
}

pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new(wake: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, wake, Token::Wake.data(), EventFlags::IN)?;
        Ok(Self { epoll })
    }

    /// Reports as long as there is something to read or the other side has gone.
    pub(crate) fn add_readable(&self, fd: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        epoll::add(&self.epoll, fd, token.data(), EventFlags::IN).map_err(Into::into)
    }

    /// Reports once when there is room or the other side has gone; not again before the next call.
    pub(crate) fn arm_writable(&self, fd: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        let flags = EventFlags::OUT | EventFlags::ONESHOT;
        match epoll::modify(&self.epoll, fd, token.data(), flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, fd, token.data(), flags),
            other => other,
        }
        .map_err(Into::into)
    }

    /// Takes a descriptor out; no matter if it was in.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for events; an interrupted wait is an empty one.
    pub(crate) fn wait(&self, into: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        into.clear();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(into), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// What an event is about.
pub(crate) fn token(event: &Event) -> Token {
    let data = event.data;
    Token::from_data(data.u64())
}

/// Wakes a thread out of its wait.
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_kernel() {
        for token in [
            Token::Wake,
            Token::Guest(1),
            Token::Lane(1, Source::Stdout),
            Token::Lane(7, Source::Stderr),
            Token::Lane(u64::MAX >> 2, Source::Stdin),
        ] {
            assert_eq!(Token::from_data(token.data().u64()), token);
        }
    }
}
