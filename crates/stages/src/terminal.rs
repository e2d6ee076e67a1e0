//! The runner's terminal. The runner leads its session and lends it to sudo; it never reads it, so what is typed there
//! reaches sudo and nobody else. Other programs of the user may not open it (TIOCEXCL; sudo may, it is root's), and nothing
//! is asked if one of them was quicker.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::process::{Pid, getpgrp, getsid};
use rustix::termios::{ioctl_tiocexcl, tcgetpgrp, tcgetsid, tcsetpgrp};

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
        if !ours {
            return Err(Self::none("the runner's terminal is not its own"));
        }
        if root_opens_anything() {
            ioctl_tiocexcl(&terminal).map_err(|error| Self::none(&format!("it cannot be locked: {error}")))?;
        }
        match stranger() {
            Some(pid) => Err(Self::none(&format!("pid {pid} has opened the runner's terminal"))),
            None => Ok(Self(terminal)),
        }
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

/// CAP_SYS_ADMIN, by its number: what lets root open a locked terminal.
const SYS_ADMIN: u32 = 21;

/// Whether root here may open a locked terminal. In a container that keeps this from root, sudo could not ask.
fn root_opens_anything() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    bounds.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> SYS_ADMIN & 1 == 1)
}

/// Somebody outside of our session who has its terminal open, as far as can be seen. Nobody joins a session from outside; who
/// started us may well have it, because it made it.
fn stranger() -> Option<u32> {
    let own = Seen::of("self")?;
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let outside =
        |pid: &u32| *pid != own.parent && Seen::of(&pid.to_string()).is_some_and(|it| it.session != own.session);
    pids.filter(outside).find(|pid| {
        let mut open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.any(|entry| device(&entry.path()) == Some(own.terminal))
    })
}

/// What `/proc` says of a process and its terminal.
struct Seen {
    parent: u32,
    session: u32,
    terminal: (u32, u32),
}

impl Seen {
    fn of(process: &str) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{process}/stat")).ok()?)
    }

    /// Its name is between brackets and may hold anything, brackets too.
    fn parse(stat: &[u8]) -> Option<Self> {
        let after = stat.iter().rposition(|byte| *byte == b')')? + 4;
        let mut fields = std::str::from_utf8(stat.get(after..)?).ok()?.split_ascii_whitespace();
        let (parent, session) = (fields.next()?.parse().ok()?, fields.nth(1)?.parse().ok()?);
        let device = fields.next()?.parse::<i32>().ok()?.cast_unsigned();
        let terminal = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
        Some(Self { parent, session, terminal })
    }
}

/// The device that a file is, without asking a file system that may not answer.
fn device(path: &Path) -> Option<(u32, u32)> {
    let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some((found.stx_rdev_major, found.stx_rdev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_read_behind_any_name() {
        let seen = Seen::parse(b"7 (a) S 1 (b)) S 5 6 9 34819 -1 0").unwrap();
        assert_eq!((seen.parent, seen.session, seen.terminal), (5, 9, (136, 3)));
        assert!(Seen::parse(b"7 (cut").is_none());
    }
}
