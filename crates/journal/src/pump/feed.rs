//! Where an output's bytes come from: the child's pipe, or a terminal or pipe with a relay in between.
//!
//! A relay is a second pipe that the keeper holds too. A terminal needs one because `splice` wants a pipe on one side. A
//! pipe needs one where the file may stall: the kernel locks the pipe it splices from for as long as the write takes, and
//! a child that waits for that lock can not even be killed. What sits in a relay survives the daemon, and goes first.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ostler_hooks::hook;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{PumpIo, PumpPty};
use crate::raw::Kind;
use crate::sys;

/// A pipe between the child and the file.
pub(crate) struct Relay {
    read: OwnedFd,
    write: OwnedFd,
    /// Nothing is in it. One that a former daemon had may hold bytes.
    empty: bool,
}

impl Relay {
    fn new(read: OwnedFd, write: OwnedFd, resumed: bool) -> Self {
        Self { read, write, empty: !resumed }
    }
}

/// What a feed has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peek {
    Nothing,
    /// Perhaps.
    Bytes,
    End,
}

pub(crate) enum Feed {
    Pipe(OwnedFd),
    Relayed(OwnedFd, Relay),
    Terminal(OwnedFd, Relay),
}

impl Feed {
    /// The feeds of a process: its terminal, or its pipes, each with its relay if there are any. `resumed`: relays may
    /// hold bytes.
    pub(crate) fn of(io: &mut PumpIo, resumed: bool) -> [Option<Self>; 2] {
        if let Some(PumpPty { master, relay_read, relay_write }) = io.pty.take() {
            return [Some(Self::Terminal(master, Relay::new(relay_read, relay_write, resumed))), None];
        }
        let mut relays = std::mem::take(&mut io.relays).into_iter();
        let mut feed = |pipe: Option<OwnedFd>| {
            pipe.map(|pipe| match relays.next().zip(relays.next()) {
                Some((read, write)) => Self::Relayed(pipe, Relay::new(read, write, resumed)),
                None => Self::Pipe(pipe),
            })
        };
        [feed(io.stdout.take()), feed(io.stderr.take())]
    }

    /// Moves up to `len` bytes into `file` at `offset`. `Ok(0)` = the stream has ended.
    pub(crate) fn take(&mut self, file: &File, offset: u64, len: usize) -> Result<usize, Errno> {
        let (from, relay, gone) = match self {
            Self::Pipe(pipe) => return sys::pipe_to_file(pipe.as_fd(), file, offset, len),
            Self::Relayed(pipe, relay) => (pipe, relay, None),
            Self::Terminal(master, relay) => (master, relay, Some(Errno::IO)),
        };
        loop {
            if relay.empty {
                match sys::to_relay(from.as_fd(), relay.write.as_fd(), len) {
                    Ok(0) => return Ok(0),
                    Ok(_) => relay.empty = false,
                    Err(errno) if Some(errno) == gone => return Ok(0),
                    Err(errno) => return Err(errno),
                }
                hook!("pump.relayed");
            }
            match sys::pipe_to_file(relay.read.as_fd(), file, offset, len) {
                Err(Errno::AGAIN) => relay.empty = true,
                other => return other,
            }
        }
    }

    /// What there is to take, without taking any of it: a pipe that has ended silently needs no file.
    pub(crate) fn peek(&self) -> Result<Peek, Errno> {
        let Self::Pipe(pipe) = self else { return Ok(Peek::Bytes) };
        let mut fds = [PollFd::new(pipe, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default()))?;
        let [fd] = fds;
        Ok(match fd.revents() {
            seen if seen.contains(PollFlags::IN) => Peek::Bytes,
            seen if seen.is_empty() => Peek::Nothing,
            _ => Peek::End,
        })
    }

    /// Puts second descriptors of everything into `io`.
    pub(crate) fn duplicate(&self, kind: Kind, io: &mut PumpIo) -> io::Result<()> {
        let (pipe, relay) = match self {
            Self::Pipe(pipe) => (pipe, None),
            Self::Relayed(pipe, relay) => (pipe, Some(relay)),
            Self::Terminal(master, relay) => {
                let (relay_read, relay_write) = (relay.read.try_clone()?, relay.write.try_clone()?);
                io.pty = Some(PumpPty { master: master.try_clone()?, relay_read, relay_write });
                return Ok(());
            }
        };
        if let Some(relay) = relay {
            io.relays.extend([relay.read.try_clone()?, relay.write.try_clone()?]);
        }
        let slot = if kind == Kind::Stderr { &mut io.stderr } else { &mut io.stdout };
        *slot = Some(pipe.try_clone()?);
        Ok(())
    }

    /// A terminal hands out a line or a few pages at a time; a pipe all it has.
    pub(crate) fn short_means_empty(&self) -> bool {
        !matches!(self, Self::Terminal(..))
    }

    pub(crate) fn polled(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(fd) | Self::Relayed(fd, _) | Self::Terminal(fd, _) => fd.as_fd(),
        }
    }
}
