//! The runner's terminal. The runner leads its session and lends it to sudo; it never reads it, so what is typed there
//! reaches sudo and nobody else.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, getpgrp, getsid};
use rustix::termios::{tcgetpgrp, tcgetsid, tcsetpgrp};

use crate::failure::Failure;
use crate::outcome::FailKind;

/// A terminal to ask on.
pub(crate) struct Terminal(OwnedFd);

impl Terminal {
    /// The terminal of our session, if we lead it and are in its foreground.
    pub(crate) fn own() -> Result<Self, Failure> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::open("/dev/tty", flags, Mode::empty());
        let terminal = opened.map_err(|error| Self::none(&format!("the runner has none: {error}")))?;
        let ours = tcgetsid(&terminal).ok() == getsid(None).ok() && tcgetpgrp(&terminal).ok() == Some(getpgrp());
        if ours { Ok(Self(terminal)) } else { Err(Self::none("the runner's terminal is not its own")) }
    }

    /// Makes `group` the one that may read, and that keys such as ^C mean. Can be done once: afterwards we are in the
    /// background ourselves, from where nobody can give the terminal away.
    pub(crate) fn lend(&self, group: Pid) -> Result<(), Failure> {
        tcsetpgrp(&self.0, group)
            .map_err(|error| Self::none(&format!("the terminal could not be handed over: {error}")))
    }

    /// For messages to the person who types.
    pub(crate) fn writer(&self) -> Result<OwnedFd, Failure> {
        self.0.try_clone().map_err(|error| Failure::system("duplicating the terminal", error))
    }

    fn none(why: &str) -> Failure {
        Failure::new(FailKind::NoTerminal, format!("no terminal for sudo to ask on: {why}"))
    }
}
