//! Making a child: descriptors, fork, and the wait for its exec. A failure leaves nothing behind,
//! and a directory or binary that hangs keeps only its own child waiting.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ostler_hooks::hook;
use rustix::io::Errno;

use super::Server;
use super::child::{Child, Start, WAITERS_MAX};
use super::stdio::Ends;
use crate::custody::COOKIE;
use crate::spec::{Own, StdioKind, Step};
use crate::sys::{self, Plan, Pointers};
use crate::wire::{Body, HELD_MAX, KEY_MAX, META_MAX, SpawnWire};
use crate::{blob, procfs};

/// Descriptors left free, so that a full table still lets a daemon connect and ask.
const SPARE_FDS: u64 = 32;

/// The longest that a helper may ask for.
const HELPER_MAX: Duration = Duration::from_secs(3600);

/// Why a spawn failed before there was a process to tell it.
enum Failure {
    Refused(&'static str),
    Failed(Step, Errno),
}

fn at(step: Step) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::Failed(step, errno)
}

impl Server {
    /// Answers now if the child exists or cannot be made, else when it runs.
    pub(super) fn spawn(&mut self, id: u64, spec: SpawnWire, raw: &[u8], fds: Vec<OwnedFd>) {
        if let Some(child) = self.children.get_mut(&spec.key) {
            if let Some(start) = &mut child.start {
                if start.waiters.len() < WAITERS_MAX {
                    start.waiters.push(id);
                } else {
                    self.refuse(id, "too many ask for this child");
                }
                return;
            }
            child.told = false;
            let exited = child.exit.is_some();
            let key: Rc<str> = spec.key.into();
            if let Some(daemon) = &mut self.daemon {
                daemon.answer_spawned(id, Rc::clone(&key));
                if exited {
                    daemon.tell_exit(key);
                }
            }
            return;
        }
        match self.make(spec, raw, fds) {
            Ok((key, mut child)) => {
                if let Some(start) = &mut child.start {
                    start.waiters.push(id);
                }
                self.children.insert(key, child);
            }
            Err(Failure::Refused(why)) => self.refuse(id, why),
            Err(Failure::Failed(step, errno)) => {
                let errno = errno.raw_os_error();
                self.answer(id, Body::SpawnFailed { step, errno });
            }
        }
    }

    fn make(&mut self, spec: SpawnWire, raw: &[u8], fds: Vec<OwnedFd>) -> Result<(Rc<str>, Child), Failure> {
        let packed = spec.command.unwrap_or(0);
        let split = raw.len().checked_sub(packed).and_then(|meta| raw.split_at_checked(meta));
        let (meta, packed) = split.ok_or(Failure::Refused("less than announced"))?;
        if spec.key.is_empty() || spec.key.len() > KEY_MAX || meta.len() > META_MAX {
            return Err(Failure::Refused("key or metadata too long"));
        }
        let cookie =
            CString::new(format!("{COOKIE}={}", spec.key)).map_err(|_| Failure::Refused("a key contains no NUL"))?;
        let mut fds = VecDeque::from(fds);
        let sealed = match spec.command {
            Some(_) => None,
            None => Some(fds.pop_front().ok_or(Failure::Refused("no command"))?),
        };
        if spec.given > fds.len() {
            return Err(Failure::Refused("fewer descriptors than announced"));
        }
        let held: Vec<OwnedFd> = fds.split_off(spec.given).into();
        if held.len() > HELD_MAX {
            return Err(Failure::Refused("too many descriptors"));
        }
        let given: Vec<OwnedFd> = fds.into();

        let opened = sealed.as_ref().map(blob::open).transpose().map_err(at(Step::Setup))?;
        let command = blob::parse(opened.as_deref().unwrap_or(packed)).ok_or(Failure::Refused("not a command"))?;
        if command.argv.is_empty() {
            return Err(Failure::Refused("an empty argument vector"));
        }
        let Ends { ours: mut io, theirs, terminal, errors } = self.spare.ends(&spec.stdio).map_err(at(Step::Pipe))?;
        let (errors, errors_theirs) = errors;
        if u64::from(errors_theirs.as_raw_fd().unsigned_abs()) + SPARE_FDS > self.origin.fds_max {
            return Err(Failure::Failed(Step::Pipe, Errno::MFILE));
        }

        self.step_back();
        let mut stdio = [self.null.as_fd(); 3];
        for ((slot, kind), theirs) in stdio.iter_mut().zip(spec.stdio).zip(&theirs) {
            *slot = match (kind, theirs) {
                (StdioKind::Given(index), _) => given.get(index).ok_or(Failure::Refused("no such descriptor"))?.as_fd(),
                (_, Some(theirs)) => theirs.as_fd(),
                (_, None) => continue,
            };
        }
        let group = self.groups.make();
        let plan = Plan {
            program: command.program,
            argv: Pointers::new(command.argv.iter().copied()),
            env: Pointers::new(environment(&command.env, &cookie)),
            cwd: command.cwd,
            stdio,
            errors: errors_theirs.as_fd(),
            session: spec.own == Own::Session || terminal.is_some(),
            terminal,
            umask: spec.umask,
            nofile: spec.nofile.unwrap_or(self.origin.nofile),
            limits: &spec.limits,
            oom: None,
            log: None,
            shares: true,
            group: group.as_ref().map(|group| group.folder.as_fd()),
        };
        let born = procfs::born(|| sys::spawn(&plan));
        let number = group.as_ref().map(|group| group.number);
        if let Some(group) = group {
            self.groups.born(group);
        }
        let (pid, start_ticks, launch) = born.map_err(|errno| {
            self.groups.release(number);
            Failure::Failed(Step::Fork, errno)
        })?;
        hook!("keeper.forked");
        io.held = held;
        let child = Child {
            pid,
            start_ticks,
            meta: meta.into(),
            io,
            exit: None,
            told: false,
            start: Some(Start { errors, waiters: Vec::with_capacity(1), announced: false, failed: None, launch }),
            watch: None,
            group: number,
            void_exit: spec.void_exit,
            until: spec.within_ms.map(|within| Instant::now() + Duration::from_millis(within).min(HELPER_MAX)),
            inherited: None,
        };
        Ok((spec.key.into(), child))
    }

    /// Looks at the error pipe of a child that is starting.
    pub(super) fn look_at_start(&mut self, key: &str) {
        let Some(start) = self.children.get_mut(key).and_then(|child| child.start.as_mut()) else { return };
        loop {
            let mut report = [0; 8];
            match rustix::io::read(&start.errors, &mut report) {
                Err(Errno::AGAIN | Errno::INTR) => return,
                // It still stands on memory of ours; when the pipe ends it does not.
                Ok(8) => start.failed = Some(sys::failure(report)),
                _ => break,
            }
        }
        match start.failed {
            Some(failed) => self.never_started(key, failed),
            // Nothing was written before the pipe closed: exec did it (or a signal, which the exit
            // then tells).
            None => self.has_started(key),
        }
    }

    fn has_started(&mut self, key: &str) {
        let Some(start) = self.children.started(key) else {
            return;
        };
        let Some((key, _)) = self.children.get(key) else {
            return;
        };
        start.launch.over();
        if let Some(daemon) = &mut self.daemon {
            for id in start.waiters {
                daemon.answer_spawned(id, Rc::clone(key));
            }
        }
    }

    fn never_started(&mut self, key: &str, (step, errno): (Step, i32)) {
        let Some(start) = self.children.started(key) else {
            return;
        };
        start.launch.over();
        let child = self.children.remove(key);
        self.groups.release(child.and_then(|child| child.group));
        for id in start.waiters {
            self.answer(id, Body::SpawnFailed { step, errno });
        }
        if start.announced {
            let key = key.to_owned();
            self.answer(0, Body::NeverStarted { key, step, errno });
        }
    }
}

/// The daemon's environment with our cookie instead of any it inherited itself.
fn environment<'a>(env: &'a [&'a CStr], cookie: &'a CStr) -> impl Iterator<Item = &'a CStr> {
    let is_cookie =
        |entry: &CStr| entry.to_bytes().strip_prefix(COOKIE.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
    env.iter().copied().filter(move |entry| !is_cookie(entry)).chain(std::iter::once(cookie))
}

/// The descriptors of a plan that needs none of a child's.
pub(super) fn nowhere(null: &OwnedFd) -> [BorrowedFd<'_>; 3] {
    [null.as_fd(); 3]
}
