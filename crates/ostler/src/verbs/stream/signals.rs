//! Signals as something to poll for.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ostler_keeper::procfs;
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, getppid, getsid, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};

/// What a signal asks of a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Ctrl-C.
    Interrupt,
    /// Somebody wants this program gone; the number is the signal's.
    End(i32),
    /// The terminal has another size.
    Resized,
    /// Ctrl-Z from outside.
    Suspend,
    /// Back from a stop.
    Continued,
}

const WISHES: &[(i32, Wish)] = &[
    (SIGTERM, Wish::End(SIGTERM)),
    (SIGHUP, Wish::End(SIGHUP)),
    // Ctrl-\, where the terminal has to be put back first.
    (SIGQUIT, Wish::End(SIGQUIT)),
    (SIGINT, Wish::Interrupt),
    (SIGTSTP, Wish::Suspend),
    (SIGCONT, Wish::Continued),
    (SIGWINCH, Wish::Resized),
];

/// Stops this program as Ctrl-Z does, and says whether it did. Where no shell is above it (`ssh -t HOST ostler watch`) nobody
/// could continue it: there it goes on, as the kernel has it for programs that do not hear that key themselves.
pub(in crate::verbs) fn stop() -> bool {
    has_shell() && kill_process(getpid(), Signal::STOP).is_ok()
}

/// Whether somebody of this session stands above our group of processes.
fn has_shell() -> bool {
    let Ok(session) = getsid(None) else { return false };
    let parent = |pid: Pid| procfs::stat(pid.as_raw_nonzero().get().unsigned_abs()).ok()?.parent.try_into().ok();
    let mut above = getppid();
    while let Some(pid) = above.filter(|pid| getsid(Some(*pid)) == Ok(session)) {
        if getpgid(Some(pid)).is_ok_and(|group| group != getpgrp()) {
            return true;
        }
        above = parent(pid).and_then(Pid::from_raw);
    }
    false
}

pub(super) struct Signals {
    wake: UnixStream,
    raised: Vec<(Wish, Arc<AtomicBool>)>,
    registered: Vec<signal_hook::SigId>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let (wake, writer) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let mut signals = Self { wake, raised: Vec::new(), registered: Vec::new() };
        for (signal, wish) in WISHES {
            let flag = Arc::new(AtomicBool::new(false));
            // The flag first: the wake-up must find it raised.
            signals.registered.push(signal_hook::flag::register(*signal, Arc::clone(&flag))?);
            signals.registered.push(signal_hook::low_level::pipe::register(*signal, writer.try_clone()?)?);
            signals.raised.push((*wish, flag));
        }
        Ok(signals)
    }

    /// What was asked since the last time, the most urgent first.
    pub(super) fn take(&mut self) -> Vec<Wish> {
        let mut scratch = [0; 64];
        while matches!(self.wake.read(&mut scratch), Ok(count) if count > 0) {}
        self.raised.iter().filter(|(_, flag)| flag.swap(false, Ordering::AcqRel)).map(|(wish, _)| *wish).collect()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
