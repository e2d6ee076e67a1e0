//! The daemon's requests, one by one. A request that makes no sense is answered by name; one that
//! breaks the order of the conversation ends it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::termios::tcsetwinsize;

use super::Server;
use super::child::Child;
use super::daemon::Broken;
use super::stdio::window;
use crate::channel::{self, Received};
use crate::custody::Target;
use crate::shield;
use crate::spec::{Scope, Signalled};
use crate::sys;
use crate::wire::{BATCH_BYTES, Body, ENTRUSTED_MAX, Numbered, Request, Verb, split};

/// Packets read before everybody else has a turn.
const PACKETS_PER_TURN: usize = 64;
/// More packets than a socket holds.
const LAST_WORDS_MAX: usize = 4096;
/// Children forgotten before their memory is given back to the machine.
const FORGOTTEN_PER_TRIM: u32 = 256;

impl Server {
    /// Reads what the daemon says.
    pub(super) fn hear_daemon(&mut self) {
        for _ in 0..PACKETS_PER_TURN {
            let Some(daemon) = &self.daemon else { return };
            if !daemon.is_listening() {
                return;
            }
            let received = channel::receive(&daemon.socket, &mut self.buffer, RecvFlags::DONTWAIT);
            let outcome = match received {
                Ok(Received::Packet { length, fds, cut }) => self.hear(length, fds, cut),
                Err(Errno::AGAIN) => return,
                Ok(Received::Closed) | Err(_) => Err(Broken),
            };
            if outcome.is_err() {
                return self.lose_daemon();
            }
        }
    }

    /// Obeys what a daemon had said that takes no answers any more: what it knows to be over, and that it leaves.
    pub(super) fn hear_last_words(&mut self) {
        for _ in 0..LAST_WORDS_MAX {
            let Some(daemon) = &self.daemon else { return };
            let received = channel::receive(&daemon.socket, &mut self.buffer, RecvFlags::DONTWAIT);
            let Ok(Received::Packet { length, fds, cut }) = received else { return };
            if self.hear(length, fds, cut).is_err() {
                return;
            }
        }
    }

    fn hear(&mut self, length: usize, fds: Vec<OwnedFd>, cut: bool) -> Result<(), Broken> {
        // Taken out for the time of the request: answering borrows the rest of us.
        let buffer = std::mem::take(&mut self.buffer);
        let outcome = match buffer.get(..length).and_then(split) {
            Some((head, raw)) => match serde_json::from_slice::<Request>(head) {
                Ok(request) if cut => {
                    let errno = Errno::MFILE.raw_os_error();
                    self.answer(request.id, Body::System { errno });
                    Ok(())
                }
                Ok(request) => self.obey(request, raw, fds),
                Err(error) => match serde_json::from_slice::<Numbered>(head) {
                    Ok(Numbered { id }) => {
                        self.refuse(id, &error.to_string());
                        Ok(())
                    }
                    Err(_) => Err(Broken),
                },
            },
            None => Err(Broken),
        };
        self.buffer = buffer;
        outcome
    }

    fn obey(&mut self, request: Request, raw: &[u8], fds: Vec<OwnedFd>) -> Result<(), Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Err(Broken);
        };
        let id = request.id;
        if daemon.is_adopting() {
            return match request.verb {
                Verb::Adopted => daemon.acknowledged(),
                _ => Err(Broken),
            };
        }
        match request.verb {
            Verb::Hello(_) | Verb::Daemon | Verb::Adopted => return Err(Broken),
            Verb::Spawn(spec) => self.spawn(id, spec, raw, fds),
            Verb::List => self.list(id),
            Verb::Strays => self.survey(id),
            Verb::Signal { key, signal, scope } => self.signal(id, &key, signal, scope),
            Verb::CloseStdin { key } => {
                if let Some(child) = self.children.get_mut(&key) {
                    child.io.stdin = None;
                }
            }
            Verb::Resize { key, rows, cols } => {
                if let Some((_, child)) = self.children.get(&key)
                    && let Some(pty) = &child.io.pty
                {
                    let _ = tcsetwinsize(&pty.master, window(rows, cols));
                }
            }
            Verb::Abandon { key } => self.forget(&key),
            Verb::Ack { key } => {
                let gone = |child: &Child| child.exit.is_some();
                if self.children.get(&key).is_some_and(|(_, child)| gone(child)) {
                    self.forget(&key);
                }
            }
            Verb::Guard => self.guard.set(fds.into_iter().next()),
            Verb::CoreDumps { allowed: true } => shield::lower(),
            Verb::CoreDumps { allowed: false } => shield::raise(),
            Verb::Farewell => {
                self.guard.set(None);
                if let Some(daemon) = &mut self.daemon {
                    daemon.farewell = true;
                }
            }
            Verb::Reexec => match fds.into_iter().next() {
                Some(program) => self.probe(id, program),
                None => self.refuse(id, "no program"),
            },
            Verb::Import(child) => self.import(id, child, raw, fds),
            Verb::Hold { key } => self.hold(id, &key, fds),
            Verb::Entrust if raw.len() <= ENTRUSTED_MAX => self.entrusted = raw.to_vec(),
            Verb::Entrust => self.refuse(id, "too much to keep"),
            Verb::Note => self.note = fds.into_iter().next(),
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, key: &str) {
        let child = self.children.remove(key);
        self.groups.release(child.and_then(|child| child.group));
        self.forgotten = self.forgotten.wrapping_add(1);
        if self.forgotten.is_multiple_of(FORGOTTEN_PER_TRIM) {
            sys::trim();
        }
    }

    fn hold(&mut self, id: u64, key: &str, fds: Vec<OwnedFd>) {
        let body = match (self.children.get_mut(key), fds.into_iter().next()) {
            (None, _) => Body::NoSuchChild,
            (Some(_), None) => Body::Refused { why: "no descriptor".to_owned(), again: false },
            (Some(child), Some(fd)) => {
                if child.io.held.is_empty() {
                    child.io.held.push(fd);
                }
                Body::Done
            }
        };
        self.answer(id, body);
    }

    pub(super) fn answer(&mut self, id: u64, body: Body) {
        if let Some(daemon) = &mut self.daemon {
            daemon.answer(id, body);
        }
    }

    pub(super) fn refuse(&mut self, id: u64, why: &str) {
        let why = why.to_owned();
        self.answer(id, Body::Refused { why, again: false });
    }

    fn list(&mut self, id: u64) {
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        let mut children = Vec::new();
        let mut size = 0;
        for (key, child) in self.children.iter() {
            if size > BATCH_BYTES {
                let children = std::mem::take(&mut children);
                daemon.answer(id, Body::List { children, more: true });
                size = 0;
            }
            size += key.len() + 256;
            children.push(child.list(key));
        }
        let more = false;
        daemon.answer(id, Body::List { children, more });
    }

    /// Ends helpers whose time is over, with all that they started. Nobody waits for the answer.
    pub(super) fn end_overdue(&mut self, now: Instant) {
        for key in self.children.overdue(now) {
            if self.children.get(&key).is_some_and(|(_, child)| child.exit.is_none()) {
                self.signal(0, &key, libc::SIGKILL, Scope::Tree);
            }
        }
    }

    fn signal(&mut self, id: u64, key: &str, signal: i32, scope: Scope) {
        let Some((_, child)) = self.children.get(key) else {
            return self.answer(id, Body::NoSuchChild);
        };
        if !(0..=libc::SIGRTMAX()).contains(&signal) {
            return self.refuse(id, "no such signal");
        }
        if scope == Scope::Tree {
            self.groups.aim(child.group);
        }
        let alive = child.exit.is_none();
        let target = Target {
            id,
            key: key.to_owned(),
            pid: child.pid,
            start_ticks: child.start_ticks,
            group_only: scope == Scope::Group,
            signal,
            group: self.groups.path(child.group).or_else(|| child.inherited.clone()).filter(|_| scope == Scope::Tree),
        };
        if alive {
            let reached = match (scope, signal) {
                // Stopped first, so that nothing forks and the tree can still be read.
                (Scope::Tree, libc::SIGKILL) => reach(child, libc::SIGSTOP, scope),
                _ => reach(child, signal, scope),
            };
            match (reached, scope) {
                (_, Scope::Tree) => self.add_target(target),
                (Ok(()), _) => self.answer(id, Body::Signalled(Signalled::default())),
                (Err(errno), _) => {
                    let errno = errno.raw_os_error();
                    self.answer(id, Body::System { errno });
                }
            }
        } else if scope == Scope::Process {
            self.answer(id, Body::AlreadyExited);
        } else {
            self.add_target(target);
        }
    }
}

/// Signals a child that was not reaped, or its group.
pub(super) fn reach(child: &Child, signal: i32, scope: Scope) -> Result<(), Errno> {
    let pid = i32::try_from(child.pid).unwrap_or(0);
    match (&child.watch, scope) {
        _ if pid <= 1 => Err(Errno::SRCH),
        (None, Scope::Process) => sys::kill(pid, signal),
        (None, _) => match sys::kill(-pid, signal) {
            // It did not get as far as leading its group.
            Err(Errno::SRCH) => sys::kill(pid, signal),
            other => other,
        },
        (Some(watch), Scope::Process) => sys::pidfd_signal(watch, signal, false),
        (Some(watch), _) => match sys::pidfd_signal(watch, signal, true) {
            // An older kernel: the descriptor proves that the number is still its own.
            Err(Errno::INVAL) => sys::pidfd_signal(watch, 0, false).and_then(|()| sys::kill(-pid, signal)),
            other => other,
        },
    }
}
