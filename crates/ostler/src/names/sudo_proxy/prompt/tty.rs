//! The terminal that a person sits at, apart from standard input and output. It is opened anew, so that what we set on our
//! descriptor is nobody else's; its modes are put back whatever happens. Nobody else may open it while this program is in
//! front, ourselves included, so it is opened once.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler_engine::MayWait;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, getpgrp, kill_process_group};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};

use super::reader::Reader;
use crate::exclusive;

/// An open terminal.
pub(super) struct Tty {
    fd: OwnedFd,
}

/// How much the terminal does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// What is typed is not shown, and nobody reads it.
    Unheard,
    /// Each key at once, unseen; Ctrl-C still ends the daemon.
    Single,
    /// Everything is passed on, Ctrl-C too.
    PassedOn,
}

/// What a person did.
pub(super) enum Pressed {
    /// Pressed these keys.
    Keys(Vec<u8>),
    /// Wants to stop the daemon, as Ctrl-Z does elsewhere.
    Stop,
}

/// The modes of the terminal are ours. They are put back when this is dropped.
pub(super) struct Held {
    fd: OwnedFd,
    before: Termios,
}

/// Keys as they are pressed.
pub(super) struct Typed {
    keys: Reader,
    held: Held,
}

/// A program that has not been stopped by then will not be: there is nobody who could continue it.
pub(super) const STOPPED_WITHIN: Duration = Duration::from_millis(300);
/// How often a daemon in the background looks whether it is in the foreground again.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The terminal, opened twice: what is read without waiting has flags of its own.
struct Opened {
    waiting: OwnedFd,
    never_waiting: OwnedFd,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

/// Nobody else opens the terminal from now on, where there is one and this program is in front.
pub(in crate::names::sudo_proxy) fn take() {
    if let Ok(tty) = open(OFlags::empty()) {
        // What goes wrong is told with the first question.
        let _ = exclusive::again(tty);
    }
}

/// Whether a prompt could be shown at all, and why not. Looks at every process there is.
pub(in crate::names::sudo_proxy) fn check() -> Result<(), String> {
    let tty = open(OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    match is_foreground(&tty) {
        true => exclusive::alone(&tty, None),
        // Touching the terminal from the background would stop the daemon.
        false => Err("sudo-proxy runs in the background of its terminal; bring it to the foreground".into()),
    }
}

/// Writes a short text without waiting.
pub(super) fn say(text: &str) -> io::Result<()> {
    rustix::io::write(open(OFlags::NONBLOCK)?, text.as_bytes())?;
    Ok(())
}

/// Stops the daemon as Ctrl-Z does elsewhere, until somebody continues it. Where there is nobody who could, it goes on.
pub(super) fn stop_program() {
    // One's own group is always there.
    let _ = kill_process_group(getpgrp(), Signal::TSTP);
}

fn open(more: OFlags) -> io::Result<OwnedFd> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    // One that is gone says so.
    if opened.as_ref().is_some_and(|opened| tcgetattr(&opened.waiting).is_err()) {
        *opened = None;
    }
    let opened = match &mut *opened {
        Some(opened) => opened,
        none => {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
            let open = |more| rustix::fs::open("/dev/tty", flags | more, Mode::empty());
            none.insert(Opened { waiting: open(OFlags::empty())?, never_waiting: open(OFlags::NONBLOCK)? })
        }
    };
    let wanted = if more.contains(OFlags::NONBLOCK) { &opened.never_waiting } else { &opened.waiting };
    wanted.try_clone()
}

impl Tty {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { fd: open(OFlags::empty())? })
    }

    /// Changes how keys arrive. What was typed before is thrown away: it was not meant for what is asked now.
    pub(super) fn hold(&self, how: Keys) -> io::Result<Held> {
        let fd = self.fd.try_clone()?;
        let before = tcgetattr(&fd)?;
        let held = Held { fd, before };
        held.set(how)?;
        Ok(held)
    }

    /// Columns and rows; what old terminals had when nobody knows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.fd) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// Whether touching the terminal stops nobody.
    pub(super) fn is_foreground(&self) -> bool {
        is_foreground(&self.fd)
    }

    /// Returns once it does.
    pub(super) async fn foreground(&self) {
        while !self.is_foreground() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Throws away what was typed and not read.
    pub(super) fn forget_typed(&self) -> io::Result<()> {
        Ok(tcflush(&self.fd, QueueSelector::IFlush)?)
    }

    /// Writes from a thread that may wait: a person can stop the terminal with Ctrl-S for as long as they like.
    pub(super) async fn write(&self, text: String) -> io::Result<()> {
        let mut file = std::fs::File::from(self.fd.try_clone()?);
        let written = MayWait::pool(move |_| file.write_all(text.as_bytes()));
        written.await.unwrap_or_else(|lost| Err(io::Error::other(lost)))
    }
}

impl Held {
    /// Throws away what was typed, and takes keys in this way from now on.
    pub(super) fn set(&self, how: Keys) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes -= LocalModes::ECHO;
        // Comes as a key: the terminal must be put back before anybody is stopped.
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        if how != Keys::Unheard {
            modes.local_modes -= LocalModes::ICANON;
        }
        if how == Keys::PassedOn {
            modes.local_modes -= LocalModes::ISIG | LocalModes::IEXTEN;
        }
        tcsetattr(&self.fd, OptionalActions::Now, &modes)?;
        Ok(tcflush(&self.fd, QueueSelector::IFlush)?)
    }

    /// Listens to what is typed from now on, and to what nobody has thrown away.
    pub(super) fn listen(self) -> io::Result<Typed> {
        let keys = Reader::start_while(open(OFlags::NONBLOCK)?, is_foreground)?;
        Ok(Typed { keys, held: self })
    }
}

impl Typed {
    /// What is done next; nothing once the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<Pressed> {
        let mut keys = self.keys.next().await?;
        // No key at all is 0.
        match self.held.before.special_codes[SpecialCodeIndex::VSUSP] {
            stop if stop != 0 && keys.contains(&stop) => {
                keys.fill(0);
                Some(Pressed::Stop)
            }
            _ => Some(Pressed::Keys(keys)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A terminal that is gone has no modes, and in the background somebody else has set them.
        if is_foreground(&self.fd) {
            let _ = tcsetattr(&self.fd, OptionalActions::Now, &self.before);
        }
    }
}

/// Whether touching the terminal stops nobody; one that is gone harms nobody either.
fn is_foreground(fd: &OwnedFd) -> bool {
    tcgetpgrp(fd).map_or(true, |group| group == getpgrp())
}
