//! The terminal at which a person decides, closed to everybody else while something is asked there: other programs of the
//! same user could open it, read a password and draw another question.
//!
//! The flag outlives whoever set it. It is taken away on every way out; after SIGKILL the next command of ours on that
//! terminal does it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{LazyLock, Mutex, PoisonError};

use ostler_engine::access::{own_multiplexer, shares_terminal_with};
/// Whether a person sits here, as the kernel tells it; the same words for every verb.
pub(crate) use ostler_engine::access::{own_place, terminal_is_ours_alone};
use rustix::process::{getpgrp, getsid};
use rustix::termios::{tcgetpgrp, tcgetsid};

/// The terminal is taken; given back when this is dropped.
pub(crate) struct Taken(());

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Nobody else opens this terminal from now on. In the background it stays the shell's, until something is asked.
pub(crate) fn take(terminal: impl AsFd) -> std::io::Result<Taken> {
    let taken = Taken(());
    again(terminal)?;
    // What keeps it from being asked on is told with the first question.
    let _ = look(None);
    Ok(taken)
}

/// Takes it once more, after it was lent or given back.
pub(crate) fn again(terminal: impl AsFd) -> std::io::Result<()> {
    if tcgetpgrp(&terminal).is_ok_and(|group| group != getpgrp()) {
        return Ok(());
    }
    Ok(ostler_keeper::take_terminal(terminal)?)
}

/// Others may open it again.
pub(crate) fn give_back() {
    ostler_keeper::give_terminal_back();
}

/// Takes the terminal and makes sure that no hosted process has had it from before; who does, in words. Before every
/// question. `daemon` is a connection to the daemon that asks.
pub(crate) fn alone(terminal: impl AsFd, daemon: Option<BorrowedFd<'_>>) -> Result<(), String> {
    again(terminal).map_err(|error| format!("cannot lock this terminal: {error}"))?;
    look(daemon)
}

/// Who could still read along, in words: it stands in every request.
static COULD_READ: Mutex<Option<String>> = Mutex::new(None);

/// Looks who has this terminal.
fn look(daemon: Option<BorrowedFd<'_>>) -> Result<(), String> {
    let peer = daemon.and_then(|socket| rustix::net::sockopt::socket_peercred(socket).ok());
    let daemon = peer.map(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs());
    let hidden = terminal_is_ours_alone(daemon).map_err(|who| crate::output::spelled(&who.to_string()))?;
    let words = hidden.first().map(|first| {
        let more = if hidden.len() > 1 { format!(" and {} more", hidden.len() - 1) } else { String::new() };
        let words = format!(
            "pid {} ({}){more} in ostler hides which files it has open; it could read what you type here",
            first.pid, first.name
        );
        crate::output::spelled(&words)
    });
    *COULD_READ.lock().unwrap_or_else(PoisonError::into_inner) = words;
    Ok(())
}

/// What somebody should know who decides on this terminal.
pub(crate) fn warnings() -> Vec<String> {
    let could_read = COULD_READ.lock().unwrap_or_else(PoisonError::into_inner).clone();
    pane().into_iter().chain(could_read).collect()
}

/// What somebody should know who decides in a window of such a program.
pub(crate) fn pane() -> Option<String> {
    // Nobody moves from one terminal to another.
    static PROGRAM: LazyLock<Option<&'static str>> = LazyLock::new(own_multiplexer);
    let program = (*PROGRAM)?;
    Some(format!("this is a {program} window: any program of your user can type into it, agents too"))
}

/// Takes away what one of us left that was killed. Nothing is opened for it: that is what cannot be done.
pub(crate) fn clear_left_over() {
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let all: [BorrowedFd<'_>; 3] = [input.as_fd(), output.as_fd(), errors.as_fd()];
    let own = |fd: &BorrowedFd<'_>| tcgetsid(fd).is_ok_and(|session| getsid(None) == Ok(session));
    let Some(terminal) = all.into_iter().find(own) else { return };
    if ostler_keeper::is_exclusive(terminal) != Ok(true) {
        return;
    }
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let mut names: Vec<&str> = crate::names::names().collect();
    names.extend(["ostler", own.trim()]);
    if !shares_terminal_with(&names) {
        // Whoever needs it says so itself.
        let _ = rustix::termios::ioctl_tiocnxcl(terminal);
    }
}
