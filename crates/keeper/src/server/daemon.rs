//! The connected daemon: what waits to be sent to it, and how far its adoption got. The queue is
//! bounded: requests are not read while it is long, and exits wait in the table of children.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::child::Children;
use crate::channel;
use crate::wire::{BATCH_BYTES, Body, FDS_MAX, KeeperMessage, Role, encode};

/// Answers that may wait before requests are left unread.
const QUEUE_FULL: usize = 256;
/// Answers that may wait at all: late ones of spawns and tree kills come on top. A daemon this far
/// behind is dropped; it learns the truth when it adopts again.
const QUEUE_MAX: usize = 16 * 1024;
/// Pause after the kernel said that too many descriptors are in flight.
const CROWDED: Duration = Duration::from_millis(5);

/// A packet on its way.
enum Outgoing {
    Packet(Vec<u8>),
    /// The answer to a spawn: described when it is sent, so that its descriptors are not held twice.
    Spawned {
        id: u64,
        key: Rc<str>,
    },
}

/// How far the adoption got.
enum Adoption {
    /// The batch after this key is due.
    Due(Option<Rc<str>>),
    /// The batch up to this key was sent and is not acknowledged.
    Sent(Option<Rc<str>>),
    /// That was the last one.
    Last,
    Over,
}

pub(super) struct Daemon {
    pub(super) socket: OwnedFd,
    pub(super) pid: u32,
    /// Its process descriptor: a lost connection is not yet a dead daemon.
    pub(super) life: Option<OwnedFd>,
    /// It leaves on purpose.
    pub(super) farewell: bool,
    queue: VecDeque<Outgoing>,
    /// Children whose exit is to be told.
    untold: VecDeque<Rc<str>>,
    adoption: Adoption,
    crowded: Option<Instant>,
}

/// The connection is of no use any more.
pub(super) struct Broken;

impl Daemon {
    /// A daemon that was just greeted.
    pub(super) fn greeted(socket: OwnedFd, pid: u32, life: Option<OwnedFd>) -> Daemon {
        Daemon { adoption: Adoption::Due(None), ..Daemon::resumed(socket, pid, life) }
    }

    /// A daemon whose connection outlived the keeper's program before us.
    pub(super) fn resumed(socket: OwnedFd, pid: u32, life: Option<OwnedFd>) -> Daemon {
        Daemon {
            socket,
            pid,
            life,
            farewell: false,
            queue: VecDeque::new(),
            untold: VecDeque::new(),
            adoption: Adoption::Over,
            crowded: None,
        }
    }

    /// Its number, which is its own for as long as it has not ended.
    pub(super) fn living(&self) -> Option<u32> {
        let ended = |life: &OwnedFd| poll(&mut [PollFd::new(life, PollFlags::IN)], Some(&Timespec::default())) != Ok(0);
        (!self.life.as_ref().is_some_and(ended)).then_some(self.pid)
    }

    pub(super) fn answer(&mut self, id: u64, body: Body) {
        self.queue.push_back(Outgoing::Packet(encode(&KeeperMessage { id, body }, &[])));
    }

    pub(super) fn answer_spawned(&mut self, id: u64, key: Rc<str>) {
        self.queue.push_back(Outgoing::Spawned { id, key });
    }

    /// The exit of this child is news.
    pub(super) fn tell_exit(&mut self, key: Rc<str>) {
        self.untold.push_back(key);
    }

    /// A process that this child started was sent away. One that tries again and again is not told of every time.
    pub(super) fn tell_intruder(&mut self, key: &str, pid: u32) {
        if self.is_listening() && !self.is_adopting() {
            self.answer(0, Body::Intruder { key: key.to_owned(), pid });
        }
    }

    pub(super) fn is_adopting(&self) -> bool {
        !matches!(self.adoption, Adoption::Over)
    }

    /// The daemon has the batch it was sent last.
    pub(super) fn acknowledged(&mut self) -> Result<(), Broken> {
        self.adoption = match std::mem::replace(&mut self.adoption, Adoption::Over) {
            Adoption::Sent(last) => Adoption::Due(last),
            Adoption::Last => Adoption::Over,
            Adoption::Due(_) | Adoption::Over => return Err(Broken),
        };
        Ok(())
    }

    /// Requests may be read.
    pub(super) fn is_listening(&self) -> bool {
        self.queue.len() < QUEUE_FULL
    }

    /// Something waits that only room in the socket can move.
    pub(super) fn wants_room(&self, now: Instant) -> bool {
        self.crowded.is_none_or(|until| until <= now) && self.has_more()
    }

    /// When to try again without being told.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.crowded.filter(|_| self.has_more())
    }

    /// Everything was sent.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_adopting() && !self.has_more()
    }

    fn has_more(&self) -> bool {
        match self.adoption {
            Adoption::Due(_) => true,
            Adoption::Over => !self.queue.is_empty() || !self.untold.is_empty(),
            Adoption::Sent(_) | Adoption::Last => !self.queue.is_empty(),
        }
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, children: &mut Children, now: Instant) -> Result<(), Broken> {
        if self.crowded.is_some_and(|until| until > now) {
            return Ok(());
        }
        self.crowded = None;
        let sent = self
            .flush_queue(children)
            .and_then(|()| self.flush_batch(children))
            .and_then(|()| self.flush_exits(children));
        match sent {
            Ok(()) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {}
            Err(Errno::TOOMANYREFS) => self.crowded = Some(now + CROWDED),
            Err(_) => return Err(Broken),
        }
        if self.queue.len() > QUEUE_MAX {
            return Err(Broken);
        }
        Ok(())
    }

    fn send(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        channel::send(&self.socket, packet, fds, SendFlags::DONTWAIT)
    }

    fn flush_queue(&mut self, children: &Children) -> Result<(), Errno> {
        while let Some(next) = self.queue.front() {
            match next {
                Outgoing::Packet(packet) => self.send(packet, &[])?,
                Outgoing::Spawned { id, key } => {
                    if let Some((key, child)) = children.get(key) {
                        let fds = child.fds();
                        let body = Body::Spawned(child.describe(key, &fds));
                        let packet = encode(&KeeperMessage { id: *id, body }, &child.meta);
                        let fds: Vec<_> = fds.into_iter().map(|(_, fd)| fd).collect();
                        self.send(&packet, &fds)?;
                    } else {
                        let body = Body::NoSuchChild;
                        self.send(&encode(&KeeperMessage { id: *id, body }, &[]), &[])?;
                    }
                }
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Sends the batch that is due: as many children as fit into one message.
    fn flush_batch(&mut self, children: &mut Children) -> Result<(), Errno> {
        let Adoption::Due(last) = &self.adoption else {
            return Ok(());
        };
        let mut batch = Vec::new();
        let mut raw = Vec::new();
        let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
        let mut size = 0;
        let mut more = false;
        let mut keys: Vec<Rc<str>> = Vec::new();
        for (key, child) in children.after(last.as_deref()) {
            let own: Vec<(Role, BorrowedFd<'_>)> = child.fds();
            if fds.len() + own.len() > FDS_MAX || size > BATCH_BYTES {
                more = true;
                break;
            }
            batch.push(child.describe(key, &own));
            raw.extend_from_slice(&child.meta);
            size += key.len() + child.meta.len() + 256;
            fds.extend(own.into_iter().map(|(_, fd)| fd));
            keys.push(Rc::clone(key));
        }
        let body = Body::Batch { children: batch, more };
        self.send(&encode(&KeeperMessage { id: 0, body }, &raw), &fds)?;
        drop(fds);
        for key in &keys {
            if let Some(child) = children.get_mut(key) {
                child.told = child.exit.is_some();
                if let Some(start) = &mut child.start {
                    start.announced = true;
                }
            }
        }
        self.adoption = if more { Adoption::Sent(keys.pop()) } else { Adoption::Last };
        Ok(())
    }

    fn flush_exits(&mut self, children: &mut Children) -> Result<(), Errno> {
        if self.is_adopting() {
            return Ok(());
        }
        while let Some(key) = self.untold.front() {
            if let Some(child) = children.get_mut(key)
                && let Some(exit) = child.exit
                && !child.told
            {
                let body = Body::Exited { key: key.to_string(), exit };
                channel::send(&self.socket, &encode(&KeeperMessage { id: 0, body }, &[]), &[], SendFlags::DONTWAIT)?;
                child.told = true;
            }
            self.untold.pop_front();
        }
        Ok(())
    }
}
