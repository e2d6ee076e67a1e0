//! The daemon's side: launching a keeper, connecting to it, and the verbs. Every verb only sends;
//! answers arrive on the thread that serves the connection, where a callback must not block.

mod adopt;
mod launch;
mod link;
mod listener;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;

pub(crate) use adopt::take;
pub use adopt::{Serves, connect, connect_unserved, daemon_of};
pub(crate) use launch::BACKLOG;
pub use launch::{Launched, launch};
pub use link::Service;
use link::{Handle, Pending};
pub use listener::{GUARDED, check as check_listener};

use crate::blob::{self, Command};
use crate::shield;
use crate::spec::{
    GuardSpec, Import, Listed, RequestError, Scope, Signalled, SpawnError, SpawnSpec, Spawned, Step, Stray, Upgrade,
};
use crate::wire::{ChildWire, HELD_MAX, KEY_MAX, META_MAX, Role, SpawnWire, Verb};

/// How long [`Keeper::farewell`] waits for what was said before to leave: on a busy machine the keeper may not have its turn
/// for a while, and what it does not hear it keeps.
const FAREWELL: Duration = Duration::from_secs(5);

/// A connection to the keeper. Clones share it; the last one to go closes it.
#[derive(Clone)]
pub struct Keeper {
    handle: Arc<Handle>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("pid", &self.pid()).finish()
    }
}

impl Keeper {
    /// The keeper's process id: hosted processes descend from it.
    pub fn pid(&self) -> u32 {
        self.handle.link().process.pid
    }

    /// Whether this is the same process as that one, as the kernel tells it; what it says of itself does not count.
    pub fn is_the_same_as(&self, other: &Keeper) -> bool {
        self.handle.link().process.is_the_same_as(&other.handle.link().process)
    }

    /// Whether it has not ended, or left us: the kernel knows before anybody hears of it.
    pub fn is_there(&self) -> bool {
        self.handle.link().is_there()
    }

    /// What the daemon before us wanted us to know.
    pub fn entrusted(&self) -> &[u8] {
        &self.handle.link().entrusted
    }

    /// Has the keeper remember these few bytes, in place of those before, for the daemon after us. An old keeper cannot.
    pub fn entrust(&self, bytes: &[u8]) {
        self.submit(Verb::Entrust, bytes, Vec::new(), None);
    }

    /// Has the keeper hold a file that says that somebody is hosted, and empty it when it ends with nobody left. An old keeper
    /// cannot, and leaves it as it is.
    pub fn note(&self, file: OwnedFd) {
        self.submit(Verb::Note, &[], vec![file], None);
    }

    /// Whether it can be given such a file.
    pub fn notes(&self) -> bool {
        self.handle.link().speaks(4)
    }

    /// Starts a child, or returns the one that already has this key. `held` descriptors are kept
    /// with it and come back at adoption.
    pub fn spawn(
        &self,
        key: &str,
        spec: &SpawnSpec,
        held: Vec<OwnedFd>,
        done: impl FnOnce(Result<Spawned, SpawnError>) + Send + 'static,
    ) {
        let done = Box::new(done);
        match prepare(key, spec, held.len(), self.handle.link().speaks(2)) {
            Ok((command, given)) => {
                let verb = Verb::Spawn(SpawnWire {
                    key: key.to_owned(),
                    stdio: spec.stdio,
                    umask: spec.umask,
                    own: spec.own,
                    nofile: spec.nofile,
                    limits: spec.limits.clone(),
                    given: given.len(),
                    void_exit: spec.void_exit,
                    within_ms: spec.within.map(|within| u64::try_from(within.as_millis()).unwrap_or(u64::MAX)),
                    command: match &command {
                        Prepared::Packed(bytes) => Some(bytes.len()),
                        Prepared::Sealed(_) => None,
                    },
                });
                let (mut fds, mut raw) = (Vec::new(), spec.meta.clone());
                match command {
                    Prepared::Packed(bytes) => raw.extend(bytes),
                    Prepared::Sealed(file) => fds.push(file),
                }
                fds.extend(given);
                fds.extend(held);
                self.submit(verb, &raw, fds, Some(Pending::Spawn(done)));
            }
            Err(error) => self.handle.link().refuse(Pending::Spawn(done), error),
        }
    }

    /// Signals a child. Signal 0 asks whether it can be reached.
    pub fn signal(
        &self,
        key: &str,
        signal: i32,
        scope: Scope,
        done: impl FnOnce(Result<Signalled, RequestError>) + Send + 'static,
    ) {
        let key = key.to_owned();
        self.submit(Verb::Signal { key, signal, scope }, &[], Vec::new(), Some(Pending::Signal(Box::new(done))));
    }

    /// Whether it can be given descriptors to hold after a child was started.
    pub fn holds_later(&self) -> bool {
        self.handle.link().speaks(2)
    }

    /// Has a descriptor held with a child, to come back at adoption. A child that has one keeps that.
    pub fn hold(&self, key: &str, fd: OwnedFd, done: impl FnOnce(Result<(), RequestError>) + Send + 'static) {
        let pending = Pending::Plain(Box::new(done));
        self.submit(Verb::Hold { key: key.into() }, &[], vec![fd], Some(pending));
    }

    /// Closes the keeper's copy of the child's stdin; the daemon closes its own.
    pub fn close_stdin(&self, key: &str) {
        self.tell(Verb::CloseStdin { key: key.into() });
    }

    /// Changes the size of the child's terminal.
    pub fn resize(&self, key: &str, rows: u16, cols: u16) {
        let key = key.to_owned();
        self.tell(Verb::Resize { key, rows, cols });
    }

    /// Closes the keeper's ends and forgets the child, which lives on.
    pub fn abandon(&self, key: &str) {
        self.tell(Verb::Abandon { key: key.into() });
    }

    /// The exit and all output are journaled: forget the child and its pipes. One that still runs is not forgotten. Said with
    /// the next request, or within some milliseconds.
    pub fn ack(&self, key: &str) {
        self.handle.link().submit_idly(Verb::Ack { key: key.into() });
    }

    /// Says now what was left for later.
    pub fn hurry(&self) {
        self.handle.link().hurry();
    }

    /// Sets or clears the command that brings the daemon back when it dies without a farewell.
    pub fn guard(&self, spec: Option<GuardSpec>) -> std::io::Result<()> {
        let command = spec.map(|spec| {
            blob::seal(&Command {
                program: spec.program.as_os_str(),
                cwd: spec.cwd.as_os_str(),
                log: spec.log.as_os_str(),
                argv: &spec.argv,
                env: &spec.env,
            })
        });
        let fds = command.transpose()?.into_iter().collect();
        self.submit(Verb::Guard, &[], fds, None);
        Ok(())
    }

    /// Whether the keeper may leave a core file, and be looked into for it. It forgets that when its program is replaced, and
    /// is told again.
    pub fn allow_core_dumps(&self, allowed: bool) {
        self.handle.link().core_dumps.store(allowed, Ordering::Relaxed);
        self.tell(Verb::CoreDumps { allowed });
    }

    /// The daemon leaves on purpose: no restart, and the keeper ends once it has no child left.
    /// Returns when everything said before has left (or after five seconds).
    pub fn farewell(&self) {
        self.handle.link().leave();
        self.tell(Verb::Farewell);
        self.handle.link().drain(FAREWELL);
    }

    /// Whether the keeper runs another program than this process.
    pub fn is_another_program(&self) -> bool {
        let theirs = self.handle.link().process.file;
        theirs.is_some() && shield::own_file().is_some_and(|ours| theirs != Some(ours))
    }

    /// What became of the keeper's change to our program, if one was asked for.
    pub fn upgrade(&self) -> Option<Upgrade> {
        self.handle.link().upgrade()
    }

    /// Replaces the keeper's program by ours, children and connection kept. `done` is called once
    /// the new program serves, or with the reason why the old one stayed.
    pub fn reexec(&self, done: impl FnOnce(Result<(), RequestError>) + Send + 'static) {
        let handle = Arc::downgrade(&self.handle);
        self.handle.link().upgrades(Upgrade::Pending);
        let done = Pending::Plain(Box::new(move |outcome: Result<(), RequestError>| {
            if let Some(handle) = handle.upgrade() {
                let link = handle.link();
                link.upgrades(if outcome.is_ok() { Upgrade::Done } else { Upgrade::Failed });
                if link.core_dumps.load(Ordering::Relaxed) {
                    link.submit(Verb::CoreDumps { allowed: true }, &[], Vec::new(), None);
                }
            }
            done(outcome);
        }));
        match std::fs::File::open("/proc/self/exe") {
            Ok(program) => self.submit(Verb::Reexec, &[], vec![program.into()], Some(done)),
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                self.handle.link().refuse(done, failed(Step::Setup, errno));
            }
        }
    }

    /// Hands living children to a keeper that replaces a dead one. Keys it knows are left alone.
    /// `done` is called once, after the last, with the first refusal if there was one.
    pub fn import(&self, children: Vec<Import>, done: impl FnOnce(Result<(), RequestError>) + Send + 'static) {
        let group = link::Group::new(children.len(), Box::new(done));
        for child in children {
            let mut fds = Vec::new();
            let mut roles = Vec::new();
            let mut add = |role, fd: Option<OwnedFd>| {
                if let Some(fd) = fd {
                    roles.push(role);
                    fds.push(fd);
                }
            };
            add(Role::Stdin, child.io.stdin);
            add(Role::Stdout, child.io.stdout);
            add(Role::Stderr, child.io.stderr);
            if let Some(pty) = child.io.pty {
                add(Role::Master, Some(pty.master));
                add(Role::RelayRead, Some(pty.relay_read));
                add(Role::RelayWrite, Some(pty.relay_write));
            }
            for fd in child.io.held {
                add(Role::Held, Some(fd));
            }
            let verb = Verb::Import(ChildWire {
                key: child.key,
                pid: child.pid,
                start_ticks: child.start_ticks,
                meta: child.meta.len(),
                fds: roles,
                exit: child.exit,
                starting: false,
                group: child.group,
            });
            self.submit(verb, &child.meta, fds, Some(Pending::Plain(group.member())));
        }
    }

    /// The keeper's children as it knows them, without descriptors.
    pub fn list(&self, done: impl FnOnce(Result<Vec<Listed>, RequestError>) + Send + 'static) {
        let pending = Pending::List(Vec::new(), Box::new(done));
        self.submit(Verb::List, &[], Vec::new(), Some(pending));
    }

    /// Processes that descend from hosted children but left their groups: reparented to the keeper
    /// or known by their cookie.
    pub fn strays(&self, done: impl FnOnce(Result<Vec<Stray>, RequestError>) + Send + 'static) {
        let pending = Pending::Strays(Box::new(done));
        self.submit(Verb::Strays, &[], Vec::new(), Some(pending));
    }

    fn tell(&self, verb: Verb) {
        self.submit(verb, &[], Vec::new(), None);
    }

    fn submit(&self, verb: Verb, raw: &[u8], fds: Vec<OwnedFd>, pending: Option<Pending>) {
        self.handle.link().submit(verb, raw, fds, pending);
    }
}

fn failed(step: Step, errno: Errno) -> SpawnError {
    SpawnError::Failed { step, errno: errno.raw_os_error() }
}

/// A command on its way.
enum Prepared {
    Packed(Vec<u8>),
    Sealed(OwnedFd),
}

/// Checks what the keeper would refuse and seals the command, unless it is short enough for the packet.
fn prepare(key: &str, spec: &SpawnSpec, held: usize, may_pack: bool) -> Result<(Prepared, Vec<OwnedFd>), SpawnError> {
    let refuse = |why: &str| Err(SpawnError::Refused(why.to_owned()));
    if key.is_empty() || key.len() > KEY_MAX || key.contains('\0') {
        return refuse("a key has 1 to 128 bytes and no NUL");
    }
    if spec.meta.len() > META_MAX {
        return refuse("too much metadata");
    }
    if held > HELD_MAX || spec.given.len() > HELD_MAX {
        return refuse("too many descriptors");
    }
    blob::pack(&Command {
        program: spec.program.as_os_str(),
        cwd: spec.cwd.as_os_str(),
        log: Path::new("").as_os_str(),
        argv: &spec.argv,
        env: &spec.env,
    })
    .and_then(|bytes| match may_pack && bytes.len() <= blob::PACKED_MAX {
        true => Ok(Prepared::Packed(bytes)),
        false => blob::sealed(&bytes).map(Prepared::Sealed),
    })
    .and_then(|command| Ok((command, spec.given.iter().map(OwnedFd::try_clone).collect::<std::io::Result<_>>()?)))
    .map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        failed(Step::Setup, errno)
    })
}
