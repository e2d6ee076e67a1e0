//! Our terminal: in raw mode for as long as every key is read as it is pressed, and put back on every way out, panics
//! included; and whether it is still there.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use ostler_api::WinSize;
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was; in a static, so that a panic finds it.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// How keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verbs) enum Mode {
    /// Every key as it is, for a program with a terminal of its own.
    Raw,
    /// Keys are not shown and not waited for; Ctrl-C and new lines mean what they always mean.
    Quiet,
    /// Keys are not shown and not waited for, and Ctrl-C is one of them; new lines and Ctrl-Z mean what they always mean.
    Lines,
}

/// Another mode for as long as this lives.
pub(super) struct Raw(());

impl Raw {
    pub(super) fn enter(mode: Mode) -> io::Result<Self> {
        static HOOK: std::sync::Once = std::sync::Once::new();
        HOOK.call_once(|| {
            let then = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                then(panic);
            }));
        });
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        match mode {
            Mode::Raw => raw.make_raw(),
            Mode::Quiet => raw.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON),
            Mode::Lines => {
                raw.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
                raw.special_codes[SpecialCodeIndex::VINTR] = 0;
            }
        }
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        // At once: waiting for output to drain could wait for ever on a terminal that is stopped or gone.
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // There is nobody left to tell if even that fails.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Whether this is a terminal, also one that is gone.
pub(super) fn is_one(fd: impl AsFd) -> bool {
    matches!(tcgetattr(fd), Ok(_) | Err(Errno::IO))
}

/// Whether this was a terminal and nobody holds its other end any more.
pub(super) fn is_gone(fd: impl AsFd) -> bool {
    matches!(tcgetattr(fd), Err(Errno::IO))
}

/// Whether the terminal that we read from is gone.
pub(in crate::verbs) fn hung_up() -> bool {
    is_gone(io::stdin())
}

/// Whether the terminal that we write to is gone.
pub(super) fn was_lost() -> bool {
    is_gone(io::stdout()) || is_gone(io::stderr())
}

/// The terminal's size, from whichever standard stream is one.
pub(in crate::verbs) fn size() -> Option<WinSize> {
    let found =
        tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).or_else(|_| tcgetwinsize(io::stderr()));
    let found = found.ok().filter(|size| size.ws_row > 0 && size.ws_col > 0)?;
    Some(WinSize { rows: found.ws_row, cols: found.ws_col })
}
