//! Taking over children of a keeper that died, from the daemon that still holds their descriptors.
//! They are not ours to reap: a process descriptor tells when they end, and the kernel or nobody
//! tells how.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use ostler_story::Exit;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Server;
use super::child::Child;
use crate::client::take;
use crate::procfs;
use crate::wire::{Body, ChildWire, HELD_MAX, KEY_MAX, META_MAX, Role};

impl Server {
    pub(super) fn import(&mut self, id: u64, wire: ChildWire, meta: &[u8], fds: Vec<OwnedFd>) {
        let held = wire.fds.iter().filter(|role| **role == Role::Held).count();
        if wire.key.is_empty() || wire.key.len() > KEY_MAX || meta.len() > META_MAX {
            return self.refuse(id, "key or metadata too long");
        }
        if held > HELD_MAX {
            return self.refuse(id, "too many descriptors");
        }
        if self.children.get(&wire.key).is_some() {
            return self.answer(id, Body::Done);
        }
        let watch = if wire.exit.is_none() { living(wire.pid, wire.start_ticks) } else { None };
        let exit = match &watch {
            Some(_) => None,
            // Gone between the death of the old keeper and now: nobody saw how.
            None => Some(wire.exit.unwrap_or(Exit::Unknown)),
        };
        let child = Child {
            pid: wire.pid,
            start_ticks: wire.start_ticks,
            meta: meta.into(),
            io: take(&wire.fds, &mut fds.into()),
            exit,
            told: false,
            start: None,
            watch,
            group: None,
            void_exit: None,
            until: None,
            inherited: wire.group,
        };
        let key: Rc<str> = wire.key.into();
        self.children.insert(Rc::clone(&key), child);
        self.answer(id, Body::Done);
        if exit.is_some()
            && let Some(daemon) = &mut self.daemon
        {
            daemon.tell_exit(key);
        }
    }
}

/// The process descriptor of exactly that process, if it still lives (or waits to be reaped).
fn living(pid: u32, start_ticks: u64) -> Option<OwnedFd> {
    let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let fd = pidfd_open(raw, PidfdFlags::empty()).ok()?;
    let stat = procfs::stat(pid).ok()?;
    (stat.start_ticks == start_ticks).then_some(fd)
}
