//! The descriptors that a child is born with: pipes, or a terminal, and the pipe that tells how its start went.

use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::spec::{ChildIo, Pty, StdioKind};

/// A stdin pipe holds one page: what waits there is lost to nobody, but counts against the user.
const STDIN_PIPE: usize = 4096;
/// What nearly every child asks for.
const PIPES: [StdioKind; 3] = [StdioKind::Pipe; 3];

/// Both sides of a child's descriptors.
pub(super) struct Ends {
    pub(super) ours: ChildIo,
    pub(super) theirs: [Option<OwnedFd>; 3],
    /// Which of them is to control the child's session.
    pub(super) terminal: Option<i32>,
    /// Ours first.
    pub(super) errors: (OwnedFd, OwnedFd),
}

/// Pipes for the next child, made while nobody waits for them.
#[derive(Default)]
pub(super) struct Spare(Option<Ends>);

impl Spare {
    /// What a child asks for.
    pub(super) fn ends(&mut self, stdio: &[StdioKind; 3]) -> Result<Ends, Errno> {
        match self.0.take_if(|_| *stdio == PIPES) {
            Some(spare) => Ok(spare),
            None => Ends::make(stdio),
        }
    }

    /// Makes them, if they are gone. What fails now is tried when a child asks.
    pub(super) fn refill(&mut self) {
        if self.0.is_none() {
            self.0 = Ends::make(&PIPES).ok();
        }
    }
}

impl Ends {
    fn make(stdio: &[StdioKind; 3]) -> Result<Ends, Errno> {
        let errors = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut ends = Ends { ours: ChildIo::default(), theirs: [const { None }; 3], terminal: None, errors };
        let mut slave: Option<OwnedFd> = None;
        for (number, (kind, theirs)) in (0..).zip(stdio.iter().zip(&mut ends.theirs)) {
            match *kind {
                StdioKind::Null | StdioKind::Given(_) => {}
                StdioKind::Pipe => {
                    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                    let (ours, child) = if number == 0 {
                        // One page where the user's pipe budget allows any size at all.
                        let _ = fcntl_setpipe_size(&write, STDIN_PIPE);
                        (write, read)
                    } else {
                        (read, write)
                    };
                    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
                    *theirs = Some(child);
                    match number {
                        0 => ends.ours.stdin = Some(ours),
                        1 => ends.ours.stdout = Some(ours),
                        _ => ends.ours.stderr = Some(ours),
                    }
                }
                StdioKind::Pty { rows, cols } => {
                    let slave = match &slave {
                        Some(slave) => slave,
                        None => {
                            let (pty, peer) = terminal(rows, cols)?;
                            ends.ours.pty = Some(pty);
                            ends.terminal = Some(number);
                            slave.insert(peer)
                        }
                    };
                    *theirs = Some(rustix::io::fcntl_dupfd_cloexec(slave, 3)?);
                }
            }
        }
        Ok(ends)
    }
}

/// A pseudo terminal, its child's end, and the pipe that lies between it and the journal.
fn terminal(rows: u16, cols: u16) -> Result<(Pty, OwnedFd), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let peer = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&peer)?;
    // Erasing a character in line mode erases all of its bytes.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&peer, OptionalActions::Now, &modes)?;
    tcsetwinsize(&master, window(rows, cols))?;
    fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
    let (relay_read, relay_write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let pty = Pty { master, relay_read, relay_write };
    Ok((pty, peer))
}

/// The size of a terminal in characters.
pub(super) fn window(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}
