//! Strangers: connections that have not said hello. One of them becomes the daemon if there is
//! none; a stranger that says nothing is sent away, and one of another user is not let in. One that only asks which process
//! the daemon is hears that and leaves.
//! Nobody who is hosted here becomes the daemon: not by descent, and not by the cookie in its environment, which a helper
//! looks for because that may block.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, sockopt};
use rustix::process::{PidfdFlags, geteuid, pidfd_open};

use super::Server;
use super::daemon::Daemon;
use super::errand::{Errand, Task};
use crate::channel::{self, Received};
use crate::custody;
use crate::procfs;
use crate::shield::own_file;
use crate::sys;
use crate::wire::{Body, Greeting, KeeperMessage, OLDEST, PROTOCOL, Request, Verb, encode, split};

/// How long a stranger may stay silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most strangers at a time.
const STRANGERS_MAX: usize = 8;
/// Pause when there is no descriptor left for a stranger.
const DEAF: Duration = Duration::from_millis(100);

pub(super) struct Stranger {
    pub(super) socket: OwnedFd,
    pub(super) deadline: Instant,
    pid: u32,
    /// It, whoever has its number.
    life: OwnedFd,
    /// What it showed of its environment, which we may not be able to look at ourselves.
    environ: Option<OwnedFd>,
}

/// What an orphan descends from: the kernel gives us every process below us that loses its parent.
const ORPHAN: &str = "a process that has ended";

/// What a hosted process is told.
fn hosted(pid: u32, host: &str) -> String {
    format!(
        "pid {pid} is hosted here (it descends from {host}) and may not be the daemon: start or restart ostler from a terminal that it does not host"
    )
}

impl Server {
    pub(super) fn let_in(&mut self) {
        self.deaf_until = None;
        if self.strangers.len() >= STRANGERS_MAX {
            send_away(&self.strangers.remove(0), 0, "others wait too");
        }
        let socket = match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                self.deaf_until = Some(Instant::now() + DEAF);
                return;
            }
            Err(_) => return,
        };
        let Ok(peer) = sockopt::socket_peercred(&socket) else {
            return;
        };
        let life = match sys::peer_process(&socket) {
            Err(Errno::NOPROTOOPT) => pidfd_open(peer.pid, PidfdFlags::empty()),
            // Who is gone is nobody to talk to, and its number may be another's.
            held => held,
        };
        let Ok(life) = life else {
            return;
        };
        let stranger = Stranger {
            socket,
            deadline: Instant::now() + PATIENCE,
            pid: peer.pid.as_raw_nonzero().get().unsigned_abs(),
            life,
            environ: None,
        };
        if peer.uid != geteuid() && !peer.uid.is_root() {
            let why = "this keeper belongs to another user".to_owned();
            let _ = tell(&stranger, 0, Body::Refused { why, again: false });
            return;
        }
        self.strangers.push(stranger);
    }

    /// The child that this process is or descends from, if any; an error where its parents cannot be told, which is not the
    /// same as none.
    fn host_of(&self, pid: u32) -> Result<Option<Rc<str>>, Errno> {
        for step in procfs::lineage(pid) {
            let (current, _) = step?;
            if let Some(key) = self.children.alive(current) {
                return Ok(Some(Rc::clone(key)));
            }
            // The daemon that we brought back is our child, and no hosted one.
            if self.guard.running == Some(current) {
                return Ok(None);
            }
            if current == std::process::id() {
                return Ok(Some(ORPHAN.into()));
            }
        }
        Ok(None)
    }

    pub(super) fn send_strangers_away(&mut self, now: Instant) {
        for stranger in self.strangers.extract_if(.., |stranger| stranger.deadline <= now) {
            send_away(&stranger, 0, "it said nothing");
        }
    }

    pub(super) fn hear_stranger(&mut self, index: usize) {
        if index >= self.strangers.len() {
            return;
        }
        let mut stranger = self.strangers.remove(index);
        let received = channel::receive(&stranger.socket, &mut self.buffer, RecvFlags::DONTWAIT);
        let length = match received {
            Ok(Received::Packet { length, fds, .. }) => {
                stranger.environ = fds.into_iter().next();
                length
            }
            Err(Errno::AGAIN) => return self.strangers.push(stranger),
            Ok(Received::Closed) | Err(_) => return,
        };
        let packet = self.buffer.get(..length).unwrap_or_default();
        let request = split(packet).and_then(|(head, _)| serde_json::from_slice(head).ok());
        let (id, hello) = match request {
            Some(Request { id, verb: Verb::Hello(hello) }) => (id, hello),
            Some(Request { id, verb: Verb::Daemon }) => {
                let pid = self.daemon.as_ref().and_then(Daemon::living);
                // One that is connected and dead was not noticed yet.
                let soon = pid.is_none() && self.guard.brings_back(self.daemon.is_some());
                // Who does not take its answer needs none.
                let _ = tell(&stranger, id, Body::Daemon { pid, soon });
                return;
            }
            _ => return,
        };
        match self.host_of(stranger.pid) {
            Ok(None) => {}
            Ok(host) => return self.greet(stranger, id, host),
            Err(_) => return self.not_looked(&stranger, id),
        }
        if hello.protocol < OLDEST || hello.oldest > PROTOCOL {
            // Who does not take its answer needs none.
            let _ = tell(&stranger, id, Body::Version { protocol: PROTOCOL });
            return;
        }
        if self.lookers().count() < STRANGERS_MAX {
            let (pid, shown) = (stranger.pid, stranger.environ.as_ref().and_then(|environ| environ.try_clone().ok()));
            let has_shown = shown.is_some();
            self.start_errand(Task::Look { stranger, id }, |out| {
                sys::helper(out, shown.as_ref().map(AsFd::as_fd), || custody::carried(pid, has_shown).into_bytes())
            });
        } else {
            send_away(&stranger, id, "others wait too");
        }
    }

    fn lookers(&self) -> impl Iterator<Item = &Errand> {
        self.errands.iter().filter(|errand| matches!(errand.task, Task::Look { .. }))
    }

    /// Somebody who said hello waits to be let in.
    pub(super) fn is_looking(&self) -> bool {
        self.lookers().next().is_some()
    }

    /// A helper has looked for the cookie that a stranger, or whoever started it, carries.
    pub(super) fn looked(&mut self, stranger: Stranger, id: u64, cookie: &[u8]) {
        let known = std::str::from_utf8(cookie).ok().and_then(|key| self.children.get(key));
        let host = known.map(|(key, _)| Rc::clone(key));
        self.greet(stranger, id, host);
    }

    /// A helper could not look: nobody is let in unseen, and an honest daemon tries again.
    pub(super) fn not_looked(&mut self, stranger: &Stranger, id: u64) {
        send_away(stranger, id, "it could not be looked at");
    }

    fn greet(&mut self, stranger: Stranger, id: u64, host: Option<Rc<str>>) {
        let body = match (&host, &self.daemon) {
            (Some(host), _) => Body::Refused { why: hosted(stranger.pid, host), again: false },
            (None, Some(daemon)) => Body::Busy { pid: daemon.pid },
            (None, None) => Body::Hello(Greeting {
                protocol: PROTOCOL,
                oldest: OLDEST,
                pid: std::process::id(),
                program: format!("ostler-keeper {}", env!("CARGO_PKG_VERSION")),
                file: own_file(),
                entrusted: self.entrusted.clone(),
            }),
        };
        if let (Some(host), Some(daemon)) = (host, &mut self.daemon) {
            daemon.tell_intruder(&host, stranger.pid);
        }
        let welcome = matches!(body, Body::Hello(_));
        if tell(&stranger, id, body) && welcome {
            for child in self.children.values_mut() {
                child.told = false;
            }
            self.daemon = Some(Daemon::greeted(stranger.socket, stranger.pid, Some(stranger.life)));
            self.guard.relieve();
            self.left = false;
        }
    }

    /// The connection is over; what the daemon asked for but did not hear is told to the next one.
    pub(super) fn lose_daemon(&mut self) {
        let Some(daemon) = self.daemon.take() else {
            return;
        };
        self.idle_since = Instant::now();
        self.successor = None;
        self.orphan_errands();
        for child in self.children.values_mut() {
            if let Some(start) = &mut child.start {
                start.waiters.clear();
                start.announced = false;
            }
        }
        if daemon.farewell {
            self.left = true;
        } else {
            self.guard_lost(daemon.life);
        }
        self.forget_void();
        sys::trim();
    }
}

/// Tells a stranger to come again: who hears nothing might take us for gone.
fn send_away(stranger: &Stranger, id: u64, why: &str) {
    let why = format!("pid {} was sent away: {why}; try again", stranger.pid);
    // Who does not take its answer needs none.
    let _ = tell(stranger, id, Body::Refused { why, again: true });
}

/// Whether a stranger has taken its answer.
fn tell(stranger: &Stranger, id: u64, body: Body) -> bool {
    let packet = encode(&KeeperMessage { id, body }, &[]);
    channel::send(&stranger.socket, &packet, &[], SendFlags::DONTWAIT).is_ok()
}
