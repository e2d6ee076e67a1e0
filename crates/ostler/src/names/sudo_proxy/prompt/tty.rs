//! The terminal that a person sits at, apart from standard input and output. It is opened anew, so that what we set on our
//! descriptor is nobody else's; its modes are put back whatever happens.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, getpgrp, kill_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr,
};
use signal_hook::consts::SIGCONT;
use tokio::signal::unix::{SignalKind, signal};

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

/// What a person did.
pub(super) enum Pressed {
    /// Pressed these keys.
    Keys(Vec<u8>),
    /// Stopped the daemon with Ctrl-Z, and continued it: what was on the screen may be gone.
    Resumed,
}

/// Keys as they are pressed. Puts the terminal's modes back when dropped.
pub(super) struct Typed {
    keys: Reader,
    fd: OwnedFd,
    before: Termios,
    modes: Termios,
}

/// A program that has not been stopped by then will not be: there is nobody who could continue it.
const STOPPED_WITHIN: Duration = Duration::from_millis(300);
/// How often a daemon in the background looks whether it is in the foreground again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether a prompt could be shown at all, and why not.
pub(in crate::names::sudo_proxy) fn check() -> Result<(), String> {
    let tty = open(OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    match tcgetpgrp(&tty) {
        // Touching the terminal from the background would stop the daemon.
        Ok(group) if group != getpgrp() => {
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
        // Comes as a key: the terminal must be put back before anybody is stopped.
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        if how == Keys::PassedOn {
            modes.local_modes -= LocalModes::ISIG | LocalModes::IEXTEN;
        }
        let keys = open(OFlags::NONBLOCK)?;
        tcsetattr(&fd, OptionalActions::Now, &modes)?;
        let flushed = tcflush(&fd, QueueSelector::IFlush);
        match flushed.map_err(io::Error::from).and_then(|()| Reader::start(keys)) {
            Ok(keys) => Ok(Typed { keys, fd, before, modes }),
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
    /// What is done next; nothing once the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Pressed> {
        let mut keys = self.keys.next().await?;
        // No key at all is 0.
        match self.before.special_codes[SpecialCodeIndex::VSUSP] {
            stop if stop != 0 && keys.contains(&stop) => {
                keys.fill(0);
                self.stop().await;
                Some(Pressed::Resumed)
            }
            _ => Some(Pressed::Keys(keys)),
        }
    }

    /// Stops the daemon as the key does elsewhere: with the terminal as it was, until somebody continues it and brings it to
    /// the foreground.
    async fn stop(&self) {
        restore(&self.fd, &self.before);
        let continued = signal(SignalKind::from_raw(SIGCONT));
        let stopped = kill_process_group(getpgrp(), Signal::TSTP);
        if let (Ok(mut continued), Ok(())) = (continued, stopped) {
            let _ = tokio::time::timeout(STOPPED_WITHIN, continued.recv()).await;
        }
        while !is_foreground(&self.fd) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        // A terminal that is gone has no modes; the next read tells.
        let _ = tcsetattr(&self.fd, OptionalActions::Now, &self.modes);
        let _ = tcflush(&self.fd, QueueSelector::IFlush);
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        restore(&self.fd, &self.before);
    }
}

/// Whether touching the terminal stops nobody; one that is gone harms nobody either.
fn is_foreground(fd: &OwnedFd) -> bool {
    tcgetpgrp(fd).map_or(true, |group| group == getpgrp())
}

fn restore(fd: &OwnedFd, modes: &Termios) {
    // A terminal that is gone has no modes, and in the background somebody else has set them.
    if is_foreground(fd) {
        let _ = tcsetattr(fd, OptionalActions::Now, modes);
    }
}
