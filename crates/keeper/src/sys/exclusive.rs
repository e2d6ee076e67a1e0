//! A terminal that nobody else may open for as long as this program asks a person there (TIOCEXCL). The flag is the
//! terminal's and outlives whoever set it, so it is taken away on every way out: the signals that end or stop a program are
//! minded here, in a handler, because most of them are nobody else's business.

use std::ffi::c_int;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::io::Errno;

use super::check;

/// Whatever ends or stops a program that does not mind it. A stop too: the shell that has the terminal then starts programs
/// that open it.
const SIGNALS: [c_int; 23] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSYS,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// The terminal, open until this program ends: a handler must find it.
static TERMINAL: AtomicI32 = AtomicI32::new(-1);
/// It is ours now.
static HELD: AtomicBool = AtomicBool::new(false);

/// Lets nobody else open this terminal until [`give_terminal_back`]. Who has it open keeps it. A program has one terminal:
/// the first that is given stays the one.
pub fn take_terminal(terminal: impl AsFd) -> Result<(), Errno> {
    if TERMINAL.load(Ordering::Acquire) < 0 {
        let kept = super::duplicate(terminal.as_fd().as_raw_fd())?;
        keep(kept);
    }
    HELD.store(true, Ordering::Release);
    set(true)
}

/// Keeps the descriptor, and minds the signals that nobody minds.
fn keep(terminal: OwnedFd) {
    let fd = terminal.into_raw_fd();
    if TERMINAL.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // Another thread was first.
        // SAFETY: just made, and nobody else knows it.
        unsafe { libc::close(fd) };
        return;
    }
    for signal in SIGNALS {
        // SAFETY: the structures are plain data, and the handler makes only calls that a handler may make.
        unsafe {
            let mut now: libc::sigaction = zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_DFL {
                let mut ours: libc::sigaction = zeroed();
                ours.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
                ours.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, &raw const ours, null_mut());
            }
        }
    }
}

/// Others may open the terminal again.
pub fn give_terminal_back() {
    if HELD.swap(false, Ordering::AcqRel) {
        // A terminal that is gone is nobody's.
        let _ = set(false);
    }
}

/// Whether others may not open this terminal.
pub fn is_exclusive(terminal: impl AsFd) -> Result<bool, Errno> {
    let mut flag: c_int = 0;
    // SAFETY: the kernel writes one number.
    check(unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCGEXCL, &raw mut flag) })?;
    Ok(flag != 0)
}

fn set(exclusive: bool) -> Result<(), Errno> {
    let request = if exclusive { libc::TIOCEXCL } else { libc::TIOCNXCL };
    // SAFETY: a flag of an open terminal changes; the descriptor is never closed.
    check(unsafe { libc::ioctl(TERMINAL.load(Ordering::Acquire), request) })
}

/// Gives the terminal back and does what the signal does to a program that does not mind it. Whoever was only stopped, and
/// is in front again, takes it again.
extern "C" fn on_signal(signal: c_int) {
    // SAFETY: calls that a handler may make, on memory of its own.
    unsafe {
        let error = *libc::__errno_location();
        let mut now: libc::sigaction = zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now);
        if now.sa_sigaction != on_signal as extern "C" fn(c_int) as usize {
            // Somebody minds it meanwhile, and only calls us because we were first.
            *libc::__errno_location() = error;
            return;
        }
        let fd = TERMINAL.load(Ordering::Acquire);
        if HELD.load(Ordering::Acquire) {
            libc::ioctl(fd, libc::TIOCNXCL);
        }
        let (mut default, mut ours): (libc::sigaction, libc::sigaction) = (zeroed(), zeroed());
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const default, &raw mut ours);
        let (mut only, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::raise(signal);
        // It waited for this: here we end, or stop.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, &raw mut before);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
        libc::sigaction(signal, &raw const ours, null_mut());
        if HELD.load(Ordering::Acquire) && libc::tcgetpgrp(fd) == libc::getpgrp() {
            libc::ioctl(fd, libc::TIOCEXCL);
        }
        *libc::__errno_location() = error;
    }
}
