//! The terminal that a person sits at, apart from standard input and output. It is opened anew, so that what we set on our
//! descriptor is nobody else's; its modes are put back whatever happens.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr};

use super::reader::Reader;

/// An open terminal.
pub(super) struct Tty {
    fd: OwnedFd,
}

/// How much the terminal does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Each key at once, unseen; Ctrl-C still ends the daemon.
    Single,
    /// Everything is passed on, Ctrl-C too.
    PassedOn,
}

/// Keys as they are pressed. Puts the terminal's modes back when dropped.
pub(super) struct Typed {
    keys: Reader,
    fd: OwnedFd,
    before: Termios,
}

/// Whether a prompt could be shown at all, and why not.
pub(in crate::names::sudo_proxy) fn check() -> Result<(), String> {
    let tty = open(OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    match tcgetpgrp(&tty) {
        // Touching the terminal from the background would stop the daemon.
        Ok(group) if group != rustix::process::getpgrp() => {
            Err("sudo-proxy runs in the background of its terminal; bring it to the foreground".into())
        }
        _ => Ok(()),
    }
}

/// Writes a short text without waiting.
pub(super) fn say(text: &str) -> io::Result<()> {
    rustix::io::write(open(OFlags::NONBLOCK)?, text.as_bytes())?;
    Ok(())
}

fn open(more: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open("/dev/tty", flags | more, Mode::empty())?)
}

impl Tty {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { fd: open(OFlags::empty())? })
    }

    /// Changes how keys arrive, and listens. What was typed before is thrown away: it was not meant for what is asked now.
    pub(super) fn keys(&self, how: Keys) -> io::Result<Typed> {
        let fd = self.fd.try_clone()?;
        let before = tcgetattr(&fd)?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
        if how == Keys::PassedOn {
            modes.local_modes -= LocalModes::ISIG | LocalModes::IEXTEN;
        }
        let keys = open(OFlags::NONBLOCK)?;
        tcsetattr(&fd, OptionalActions::Now, &modes)?;
        let flushed = tcflush(&fd, QueueSelector::IFlush);
        match flushed.map_err(io::Error::from).and_then(|()| Reader::start(keys)) {
            Ok(keys) => Ok(Typed { keys, fd, before }),
            Err(error) => {
                restore(&fd, &before);
                Err(error)
            }
        }
    }

    /// Writes from a thread that may wait: a person can stop the terminal with Ctrl-S for as long as they like.
    pub(super) async fn write(&self, text: String) -> io::Result<()> {
        let mut file = std::fs::File::from(self.fd.try_clone()?);
        let written = tokio::task::spawn_blocking(move || file.write_all(text.as_bytes()));
        written.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
    }
}

impl Typed {
    /// The next keys; nothing once the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.keys.next().await
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        restore(&self.fd, &self.before);
    }
}

fn restore(fd: &OwnedFd, modes: &Termios) {
    // A terminal that is gone has no modes.
    let _ = tcsetattr(fd, OptionalActions::Now, modes);
}
