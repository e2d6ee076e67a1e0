//! Lines that are typed while something is followed. The terminal edits and shows them as ever; the keys that interrupt and
//! leave end a line at once.

use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::terminal::{self, Mode, Raw};
use crate::config::DetachKey;
use crate::verbs::session::Gone;

/// More than a terminal gives in one line.
const LINE_MAX: usize = 8 * 1024;
const CTRL_C: u8 = 3;

/// The terminal, read by lines.
pub(in crate::verbs) struct Lines {
    key: DetachKey,
    _mode: Raw,
}

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    Nothing,
    Interrupt,
    Leave,
    HungUp,
}

impl Lines {
    /// This key leaves.
    pub(in crate::verbs) fn read_with(key: DetachKey) -> io::Result<Self> {
        Ok(Self { key, _mode: Raw::enter(Mode::Lines { leave: key.byte() })? })
    }

    pub(super) fn read(&self) -> io::Result<Line> {
        let mut buffer = [0; LINE_MAX];
        let stdin = rustix::stdio::stdin();
        match rustix::io::read(stdin, &mut buffer) {
            Ok(0) if terminal::is_gone(stdin) => Ok(Line::HungUp),
            Err(Errno::IO) => Ok(Line::HungUp),
            // Ctrl-D.
            Ok(0) => Ok(Line::Leave),
            Ok(count) => Ok(self.meant(buffer.get(..count).unwrap_or_default())),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Line::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// While nobody is there who could be told anything: whether somebody leaves.
    pub(super) fn leaves_within(&self, wait: Duration) -> io::Result<Option<Gone>> {
        let stdin = rustix::stdio::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Timespec::try_from(wait).ok().as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(match self.read()? {
            Line::Leave | Line::Interrupt => Some(Gone::Left),
            Line::HungUp => Some(Gone::Signal(signal_hook::consts::SIGHUP)),
            Line::Nothing => None,
            Line::Text(_) => {
                let _ = writeln!(io::stderr(), "ostler: it was not sent: nobody is connected");
                None
            }
        })
    }

    fn meant(&self, typed: &[u8]) -> Line {
        if typed.contains(&self.key.byte()) {
            return Line::Leave;
        }
        if typed.contains(&CTRL_C) {
            return Line::Interrupt;
        }
        match String::from_utf8_lossy(typed).trim() {
            "" => Line::Nothing,
            text => Line::Text(text.to_owned()),
        }
    }
}
