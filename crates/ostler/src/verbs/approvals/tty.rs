//! The person's own terminal, `/dev/tty`: never standard input, which a program can feed. It is put back on every way out,
//! panics included. Where something is decided nobody else may open it, ourselves included: what is open is kept.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, kill_process_group};
use rustix::termios::{
    OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};

use crate::exclusive::{self, Taken};
use crate::output::{CommandError, Kind};

/// The screen that full-screen programs draw on, without a cursor; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// How the terminal was, and whether it shows the other screen; in a static, so that a panic finds it.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    modes: Termios,
    full: bool,
    terminal: File,
}

/// The signal that asks this program to end; none is 0.
static ENDED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// This program was stopped, and goes on.
static CONTINUED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// A program that has not been stopped by then will not be: there is nobody who could continue it.
const STOPPED_WITHIN: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(10);

pub(in crate::verbs) struct Tty {
    file: File,
    /// Nobody else may open it.
    taken: Option<Taken>,
}

/// The terminal gives every key at once and shows none, for as long as this lives.
pub(in crate::verbs) struct Raw(());

impl Tty {
    pub(in crate::verbs) fn open() -> io::Result<Self> {
        let opened = File::options().read(true).write(true).open("/dev/tty");
        let busy = |error: io::Error| match error.kind() {
            io::ErrorKind::ResourceBusy => io::Error::other("another ostler is asking on this terminal"),
            _ => error,
        };
        Ok(Self { file: opened.map_err(busy)?, taken: None })
    }

    /// One on which something is decided: nobody else opens it for as long as this lives.
    pub(in crate::verbs) fn deciding() -> io::Result<Self> {
        let mut tty = Self::open()?;
        tty.taken = Some(exclusive::take(&tty.file)?);
        Ok(tty)
    }

    /// Makes sure, before every question, that nobody hosted has this terminal open from before.
    pub(in crate::verbs) fn alone(&self, daemon: impl AsFd) -> Result<(), CommandError> {
        let refused = |why| CommandError::new(Kind::Refused, format!("not asked here: {why}"));
        exclusive::alone(&self.file, Some(daemon.as_fd())).map_err(refused)
    }

    /// Another program has the terminal meanwhile.
    pub(in crate::verbs) fn lend<T>(&self, to: impl FnOnce() -> T) -> T {
        exclusive::give_back();
        let done = to();
        if self.taken.is_some() {
            // Before the next question it is taken again, and an error is told there.
            let _ = exclusive::again(&self.file);
        }
        done
    }

    pub(in crate::verbs) fn raw(&self) -> io::Result<Raw> {
        self.enter(false)
    }

    /// Raw, and on a screen of its own.
    pub(in crate::verbs) fn full_screen(&self) -> io::Result<Raw> {
        self.enter(true)
    }

    fn enter(&self, full: bool) -> io::Result<Raw> {
        static ONCE: Once = Once::new();
        ONCE.call_once(mind_ends);
        let before = tcgetattr(&self.file)?;
        let mut raw = before.clone();
        raw.make_raw();
        let terminal = self.file.try_clone()?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before { modes: before, full, terminal });
        let guard = Raw(());
        tcsetattr(&self.file, OptionalActions::Now, &raw)?;
        if full {
            self.write(ENTER)?;
        }
        Ok(guard)
    }

    /// Whether somebody pressed the key that stops a program.
    pub(in crate::verbs) fn is_stop(keys: &[u8]) -> bool {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        // No key at all is 0.
        before.as_ref().is_some_and(|before| match before.modes.special_codes[SpecialCodeIndex::VSUSP] {
            0 => false,
            key => keys.contains(&key),
        })
    }

    /// Stops this program as that key does elsewhere: with the terminal as it was, until somebody continues it.
    pub(in crate::verbs) fn stop(&self) -> io::Result<()> {
        self.stop_by(|| Ok(kill_process_group(getpgrp(), Signal::TSTP)?))
    }

    /// The same by other means, for a program that hears that signal itself.
    pub(in crate::verbs) fn stop_by(&self, stop: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let full = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|before| before.full);
        restore();
        CONTINUED.store(false, Ordering::Release);
        stop()?;
        let until = Instant::now() + STOPPED_WITHIN;
        while !CONTINUED.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        // Whoever had the terminal raw before still has it so, and puts it back.
        std::mem::forget(self.enter(full)?);
        self.forget_typed()
    }

    /// Forgets what was typed before now.
    pub(in crate::verbs) fn forget_typed(&self) -> io::Result<()> {
        Ok(tcflush(&self.file, QueueSelector::IFlush)?)
    }

    /// The exit code of a program that was asked to end.
    pub(in crate::verbs) fn ended() -> Option<u8> {
        match ENDED.load(Ordering::Acquire) {
            0 => None,
            signal => Some(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
        }
    }

    /// Ctrl-C on a terminal that another program had was meant for that program.
    pub(in crate::verbs) fn forget_interrupt() {
        let interrupt = usize::try_from(SIGINT).unwrap_or(0);
        // Another signal stays: that one asks us.
        let _ = ENDED.compare_exchange(interrupt, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether something was typed, waiting at most this long. A signal to end is an error, after which nothing is waited for.
    pub(in crate::verbs) fn typed(&self, wait: Duration) -> io::Result<bool> {
        if Self::ended().is_some() {
            return Err(io::Error::other("ended by a signal"));
        }
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&wait)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What was typed; nothing at all when the terminal is gone.
    pub(in crate::verbs) fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let count = (&self.file).read(buffer)?;
        Ok(buffer.get(..count).unwrap_or_default())
    }

    pub(in crate::verbs) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut &self.file, bytes)
    }

    /// Columns and rows; what old terminals had when nobody knows.
    pub(in crate::verbs) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.file) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    pub(in crate::verbs) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// From now on neither a panic nor a signal leaves the terminal as it is.
fn mind_ends() {
    let then = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        exclusive::give_back();
        then(panic);
    }));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        let number = usize::try_from(signal).unwrap_or(0);
        // Fails for signals that cannot be caught, and these can.
        let _ = signal_hook::flag::register_usize(signal, Arc::clone(&ENDED), number);
    }
    let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&CONTINUED));
}

fn restore() {
    let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    // There is nobody left to tell if even that fails.
    if before.full {
        let _ = io::Write::write_all(&mut &before.terminal, LEAVE);
    }
    let _ = tcsetattr(&before.terminal, OptionalActions::Now, &before.modes);
}
