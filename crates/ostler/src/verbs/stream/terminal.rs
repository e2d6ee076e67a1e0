//! The terminal in raw mode: every key goes to the child. It is put back on every way out, panics included.

use std::io;
use std::sync::{Mutex, PoisonError};

use ostler_api::WinSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was; in a static, so that a panic finds it.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Raw mode for as long as this lives.
pub(super) struct Raw(());

impl Raw {
    pub(super) fn enter() -> io::Result<Self> {
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
        raw.make_raw();
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

/// The terminal's size, from whichever standard stream is one.
pub(in crate::verbs) fn size() -> Option<WinSize> {
    let found =
        tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin())).or_else(|_| tcgetwinsize(io::stderr()));
    let found = found.ok().filter(|size| size.ws_row > 0 && size.ws_col > 0)?;
    Some(WinSize { rows: found.ws_row, cols: found.ws_col })
}
