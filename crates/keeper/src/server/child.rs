//! The table of children: what the keeper holds of each, by key and by pid. An entry leaves it only
//! by acknowledgement, abandonment, or because its program never started.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use crate::spec::{ChildIo, Listed, Step};
use crate::sys::Launch;
use crate::wire::{ChildWire, Role};
use ostler_story::Exit;

/// Requests that may wait for one spawn: a daemon asks once, its impatient retry again.
pub(super) const WAITERS_MAX: usize = 8;

/// A hosted child.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    pub(super) meta: Box<[u8]>,
    pub(super) io: ChildIo,
    pub(super) exit: Option<Exit>,
    /// The connected daemon knows the exit.
    pub(super) told: bool,
    /// Between fork and exec.
    pub(super) start: Option<Start>,
    /// How we watch a child that is not ours: its process descriptor.
    pub(super) watch: Option<OwnedFd>,
    /// The number of its control group, where there are any.
    pub(super) group: Option<u32>,
    /// The exit that says that it did nothing.
    pub(super) void_exit: Option<i32>,
    /// When it must be over, if it is a short helper.
    pub(super) until: Option<Instant>,
    /// The control group in which another keeper had put it.
    pub(super) inherited: Option<PathBuf>,
}

/// A child whose program does not run yet.
#[derive(Debug)]
pub(super) struct Start {
    /// Says which step failed, or ends when exec succeeded.
    pub(super) errors: OwnedFd,
    /// Requests of the connected daemon to be answered then.
    pub(super) waiters: Vec<u64>,
    /// The connected daemon was told of it at adoption.
    pub(super) announced: bool,
    /// The step that failed, once it was told.
    pub(super) failed: Option<(Step, i32)>,
    /// What it reads until its program runs.
    pub(super) launch: Launch,
}

impl Child {
    /// It ended, and nobody will ever ask how.
    pub(super) fn is_void(&self) -> bool {
        self.void_exit.is_some_and(|code| self.exit == Some(Exit::Code(code)))
            || (self.until.is_some() && self.exit.is_some())
    }

    /// Its descriptors and what they are for.
    pub(super) fn fds(&self) -> Vec<(Role, BorrowedFd<'_>)> {
        let io = &self.io;
        let pty = io.pty.as_ref();
        let single = [
            (Role::Stdin, io.stdin.as_ref()),
            (Role::Stdout, io.stdout.as_ref()),
            (Role::Stderr, io.stderr.as_ref()),
            (Role::Master, pty.map(|pty| &pty.master)),
            (Role::RelayRead, pty.map(|pty| &pty.relay_read)),
            (Role::RelayWrite, pty.map(|pty| &pty.relay_write)),
        ];
        let held = io.held.iter().map(|fd| (Role::Held, Some(fd)));
        single.into_iter().chain(held).filter_map(|(role, fd)| Some((role, fd?.as_fd()))).collect()
    }

    /// How it is described to the daemon.
    pub(super) fn describe(&self, key: &str, fds: &[(Role, BorrowedFd<'_>)]) -> ChildWire {
        ChildWire {
            key: key.to_owned(),
            pid: self.pid,
            start_ticks: self.start_ticks,
            meta: self.meta.len(),
            fds: fds.iter().map(|(role, _)| *role).collect(),
            exit: self.exit,
            starting: self.start.is_some(),
            group: None,
        }
    }

    pub(super) fn list(&self, key: &str) -> Listed {
        Listed {
            key: key.to_owned(),
            pid: self.pid,
            start_ticks: self.start_ticks,
            exit: self.exit,
            starting: self.start.is_some(),
            imported: self.watch.is_some(),
        }
    }
}

/// All children.
#[derive(Debug, Default)]
pub(super) struct Children {
    by_key: BTreeMap<Rc<str>, Child>,
    /// Our own children that were not reaped yet.
    by_pid: HashMap<u32, Rc<str>>,
    /// Those between fork and exec: few, and polled.
    starting: Vec<Rc<str>>,
    /// Those of another parent: polled.
    watched: Vec<Rc<str>>,
    /// Short helpers, and when each must be over.
    timed: Vec<(Instant, Rc<str>)>,
}

impl Children {
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) fn get(&self, key: &str) -> Option<(&Rc<str>, &Child)> {
        self.by_key.get_key_value(key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Child> {
        self.by_key.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Rc<str>, &Child)> {
        self.by_key.iter()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Child> {
        self.by_key.values_mut()
    }

    /// The children whose keys follow `last`.
    pub(super) fn after(&self, last: Option<&str>) -> impl Iterator<Item = (&Rc<str>, &Child)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_key.range::<str, _>((from, Bound::Unbounded))
    }

    pub(super) fn starting(&self) -> &[Rc<str>] {
        &self.starting
    }

    pub(super) fn watched(&self) -> &[Rc<str>] {
        &self.watched
    }

    pub(super) fn insert(&mut self, key: Rc<str>, child: Child) {
        match (&child.watch, child.exit) {
            (_, Some(_)) => {}
            (Some(_), None) => self.watched.push(Rc::clone(&key)),
            (None, None) => drop(self.by_pid.insert(child.pid, Rc::clone(&key))),
        }
        if child.start.is_some() {
            self.starting.push(Rc::clone(&key));
        }
        self.timed.extend(child.until.map(|until| (until, Rc::clone(&key))));
        self.by_key.insert(key, child);
    }

    /// When the next helper must be over.
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        self.timed.iter().map(|(until, _)| *until).min()
    }

    /// The helpers whose time is over, each of them once.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Rc<str>> {
        self.timed.extract_if(.., |(until, _)| *until <= now).map(|(_, key)| key).collect()
    }

    /// Ends the start of a child, one way or the other.
    pub(super) fn started(&mut self, key: &str) -> Option<Start> {
        self.starting.retain(|other| **other != *key);
        self.by_key.get_mut(key)?.start.take()
    }

    /// Ends the watch of a child that is not ours.
    pub(super) fn unwatch(&mut self, key: &str) {
        self.watched.retain(|other| **other != *key);
    }

    /// The living child of ours with this pid.
    pub(super) fn alive(&self, pid: u32) -> Option<&Rc<str>> {
        self.by_pid.get(&pid)
    }

    /// The child that was just reaped; its pid is free for others from now on.
    pub(super) fn reaped(&mut self, pid: u32) -> Option<Rc<str>> {
        self.by_pid.remove(&pid)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Child> {
        let child = self.by_key.remove(key)?;
        self.starting.retain(|other| **other != *key);
        self.watched.retain(|other| **other != *key);
        self.timed.retain(|(_, other)| **other != *key);
        if child.exit.is_none() && child.watch.is_none() {
            self.by_pid.remove(&child.pid);
        }
        Some(child)
    }
}
