//! Bringing a crashed daemon back. Only a daemon that died (not one that merely lost its
//! connection) is restarted, each time a little later, at most five times a minute; then the guard
//! says so in the log and leaves it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

use super::Server;
use super::errand::Task;
use super::spawn::nowhere;
use crate::blob;
use crate::sys::{self, Plan, Pointers};

/// Restarts allowed within [`WINDOW`].
const STARTS_MAX: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Delay before the first restart; doubled for each further one within the window.
const FIRST_DELAY: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Guard {
    /// The sealed command.
    pub(super) command: Option<OwnedFd>,
    /// The process descriptor of a daemon that lost its connection and may still live.
    pub(super) lost: Option<OwnedFd>,
    /// The daemon we started, until it is reaped.
    pub(super) running: Option<u32>,
    /// When to start it again.
    pub(super) due: Option<Instant>,
    starts: VecDeque<Instant>,
}

impl Guard {
    /// The guard of the program before us.
    pub(super) fn resumed(command: Option<OwnedFd>, running: Option<u32>) -> Guard {
        Guard { command, running, ..Guard::default() }
    }

    /// Sets or clears the command.
    pub(super) fn set(&mut self, command: Option<OwnedFd>) {
        self.command = command;
        self.due = None;
        self.lost = None;
    }

    /// A daemon may yet come of it: one is due, on its way, or not known to be dead.
    pub(super) fn is_active(&self) -> bool {
        self.due.is_some() || self.running.is_some() || self.lost.is_some()
    }

    /// Whether there will be a daemon again; `died`: the last one has only just.
    pub(super) fn brings_back(&self, died: bool) -> bool {
        self.command.is_some() && (died || self.is_active())
    }

    /// A daemon is connected: nothing is due.
    pub(super) fn relieve(&mut self) {
        self.due = None;
        self.lost = None;
    }

    /// The daemon died.
    fn schedule(&mut self, now: Instant) {
        self.lost = None;
        if self.command.is_none() {
            return;
        }
        while self.starts.front().is_some_and(|start| now.duration_since(*start) > WINDOW) {
            self.starts.pop_front();
        }
        let delay = match u32::try_from(self.starts.len()) {
            Ok(starts) if self.starts.len() < STARTS_MAX => FIRST_DELAY * 2_u32.pow(starts),
            // It will not be started again; that is said at once.
            _ => Duration::ZERO,
        };
        self.due = Some(now + delay);
    }
}

impl Server {
    /// The connection ended without a farewell.
    pub(super) fn guard_lost(&mut self, life: Option<OwnedFd>) {
        if self.guard.command.is_some() {
            match life {
                Some(life) => self.guard.lost = Some(life),
                None => self.guard.schedule(Instant::now()),
            }
        }
    }

    /// The daemon whose connection ended is dead now.
    pub(super) fn lost_died(&mut self) {
        self.guard.schedule(Instant::now());
    }

    /// A process we do not know otherwise was reaped.
    pub(super) fn guarded_died(&mut self, pid: u32) {
        if self.guard.running == Some(pid) {
            self.guard.running = None;
            // It died before it connected; else the end of its connection tells.
            if self.daemon.is_none() && self.guard.lost.is_none() && self.guard.due.is_none() {
                self.guard.schedule(Instant::now());
            }
        }
    }

    /// Starts the daemon again if it is time.
    pub(super) fn watch_over(&mut self, now: Instant) {
        if self.daemon.is_some() || self.guard.due.is_none_or(|due| due > now) {
            return;
        }
        self.guard.due = None;
        let Some(command) = &self.guard.command else {
            return;
        };
        let Ok(bytes) = blob::open(command) else {
            return;
        };
        let Some(mapped) = blob::parse(&bytes) else {
            return;
        };
        if self.guard.starts.len() >= STARTS_MAX {
            let log = mapped.log.to_owned();
            return self.send_errand(Task::Log, || {
                say(log.to_bytes());
                Vec::new()
            });
        }
        self.guard.starts.push_back(now);
        let Ok((_, errors)) = pipe_with(PipeFlags::CLOEXEC) else {
            return self.guard.schedule(now);
        };
        let plan = Plan {
            program: mapped.program,
            argv: Pointers::new(mapped.argv.iter().copied()),
            env: Pointers::new(mapped.env.iter().copied()),
            cwd: mapped.cwd,
            stdio: nowhere(&self.null),
            errors: errors.as_fd(),
            session: true,
            terminal: None,
            umask: None,
            nofile: self.origin.nofile,
            limits: &[],
            oom: self.origin.oom.as_deref(),
            log: (!mapped.log.is_empty()).then_some(mapped.log),
            shares: false,
            group: None,
        };
        match sys::spawn(&plan) {
            Ok((pid, _)) => self.guard.running = Some(pid),
            Err(_) => self.guard.schedule(now),
        }
    }
}

/// The line for the person who wonders where the daemon went.
fn say(log: &[u8]) {
    let path = Path::new(std::ffi::OsStr::from_bytes(log));
    let line = "ostler-keeper: the daemon died five times within a minute; it is not started \
                again. Its children live on; start it by hand to take them over.\n";
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Ok(mut file) = file {
        let _ = std::io::Write::write_all(&mut file, line.as_bytes());
    }
}
