//! The terminal on the runner's stdin. The runner leads its session and lends it to sudo; it never reads it, so what is
//! typed there reaches sudo and nobody else.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, getpgrp, getsid};
use rustix::termios::{tcgetpgrp, tcgetsid, tcsetpgrp};

use crate::failure::Failure;
use crate::outcome::FailKind;

/// A terminal to ask on.
pub(crate) struct Terminal(BorrowedFd<'static>);

impl Terminal {
    /// Stdin, if it is the terminal of our session and we are in its foreground.
    pub(crate) fn stdin() -> Result<Self, Failure> {
        let stdin = rustix::stdio::stdin();
        let ours = tcgetsid(stdin).ok() == getsid(None).ok() && tcgetpgrp(stdin).ok() == Some(getpgrp());
        if ours { Ok(Self(stdin)) } else { Err(Self::none("the runner's stdin is not its terminal")) }
    }

    /// Makes `group` the one that may read, and that keys such as ^C mean. Can be done once: afterwards we are in the
    /// background ourselves, from where nobody can give the terminal away.
    pub(crate) fn lend(&self, group: Pid) -> Result<(), Failure> {
        tcsetpgrp(self.0, group).map_err(|error| Self::none(&format!("the terminal could not be handed over: {error}")))
    }

    /// For messages to the person who types.
    pub(crate) fn writer(&self) -> Result<OwnedFd, Failure> {
        self.0.try_clone_to_owned().map_err(|error| Failure::system("duplicating the terminal", error))
    }

    fn none(why: &str) -> Failure {
        Failure::new(FailKind::NoTerminal, format!("no terminal for sudo to ask on: {why}"))
    }
}
