//! The connected socket, what waits to be sent, who waits for an answer, and the thread that
//! serves all three. No lock is held while a callback runs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};

use super::adopt;
use crate::channel::{self, Received};
use crate::spec::{Event, Listed, RequestError, Signalled, SpawnError, Spawned, Step, Stray};
use crate::wire::{Answer, Body, PROTOCOL, Request, Verb, encode, split};

/// Pause after the kernel said that too many descriptors are in flight: nothing signals the end of it.
const CROWDED: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// How long an acknowledgement may wait for company after an exit was told: whoever starts one program after the other sends
/// the next request sooner, and the keeper is woken once for both.
const COMPANY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

type Done<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

/// Who waits for an answer.
pub(super) enum Pending {
    Spawn(Done<Spawned, SpawnError>),
    Signal(Done<Signalled, RequestError>),
    List(Vec<Listed>, Done<Vec<Listed>, RequestError>),
    Strays(Done<Vec<Stray>, RequestError>),
    Plain(Done<(), RequestError>),
}

impl Pending {
    fn fail(self, error: SpawnError) {
        let plain = match &error {
            SpawnError::Failed { errno, .. } => RequestError::System(*errno),
            SpawnError::Refused(why) => RequestError::Refused(why.clone()),
            SpawnError::KeeperGone { .. } => RequestError::KeeperGone,
        };
        match self {
            Pending::Spawn(done) => done(Err(error)),
            other => other.fail_plain(plain),
        }
    }

    fn fail_plain(self, error: RequestError) {
        match self {
            Pending::Spawn(done) => done(Err(SpawnError::Refused(error.to_string()))),
            Pending::Signal(done) => done(Err(error)),
            Pending::List(_, done) => done(Err(error)),
            Pending::Strays(done) => done(Err(error)),
            Pending::Plain(done) => done(Err(error)),
        }
    }
}

/// Several requests with one answer: the first refusal, or success after the last.
pub(super) struct Group(Arc<Mutex<GroupState>>);

struct GroupState {
    left: usize,
    first: Result<(), RequestError>,
    done: Option<Done<(), RequestError>>,
}

impl Group {
    pub(super) fn new(size: usize, done: Done<(), RequestError>) -> Group {
        if size == 0 {
            done(Ok(()));
            return Group(Arc::new(Mutex::new(GroupState { left: 0, first: Ok(()), done: None })));
        }
        Group(Arc::new(Mutex::new(GroupState { left: size, first: Ok(()), done: Some(done) })))
    }

    pub(super) fn member(&self) -> Done<(), RequestError> {
        let state = Arc::clone(&self.0);
        Box::new(move |result| {
            let mut state = lock(&state);
            state.left = state.left.saturating_sub(1);
            if state.first.is_ok() {
                state.first = result;
            }
            if state.left == 0
                && let Some(done) = state.done.take()
            {
                let result = state.first.clone();
                drop(state);
                done(result);
            }
        })
    }
}

struct Outgoing {
    id: u64,
    packet: Vec<u8>,
    fds: Vec<OwnedFd>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    queue: VecDeque<Outgoing>,
    /// What waits does so for room in the socket, and the client's thread knows.
    blocked: bool,
    /// The client's thread looks at what waits within [`COMPANY`].
    looks_soon: bool,
    pending: HashMap<u64, Pending>,
    /// Requests that were never sent, because the keeper was gone before.
    unsent: HashSet<u64>,
    /// Answers that need no keeper, to be given on the client's thread like all others.
    refused: Vec<(Pending, SpawnError)>,
    gone: bool,
    /// The daemon said farewell: the end of the connection is no news.
    leaving: bool,
    /// Nobody can ask anything any more.
    released: bool,
}

impl State {
    /// The keeper is gone: what waits will not be sent.
    fn drop_queue(&mut self) {
        self.unsent.extend(self.queue.drain(..).map(|next| next.id));
    }
}

pub(super) struct Link {
    socket: OwnedFd,
    wake: OwnedFd,
    pub(super) pid: u32,
    /// The protocol that the keeper speaks.
    protocol: AtomicU32,
    state: Mutex<State>,
    drained: Condvar,
}

/// Closes the connection when the last clone of a `Keeper` goes.
pub(super) struct Handle(Arc<Link>);

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.0.state).released = true;
        let _ = shutdown(&self.0.socket, Shutdown::Both);
        self.0.wake();
    }
}

impl Handle {
    pub(super) fn link(&self) -> &Link {
        &self.0
    }

    pub(super) fn start(
        socket: OwnedFd,
        buffer: Vec<u8>,
        (pid, protocol): (u32, u32),
        on_event: impl Fn(Event) + Send + Sync + 'static,
    ) -> std::io::Result<Handle> {
        let link = Arc::new(Link {
            socket,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            pid,
            protocol: AtomicU32::new(protocol),
            state: Mutex::default(),
            drained: Condvar::new(),
        });
        let served = Arc::clone(&link);
        std::thread::Builder::new().name("keeper-link".into()).spawn(move || served.serve(buffer, &on_event))?;
        Ok(Handle(link))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Sends a request now, after whatever waits before it; where there is no room for it, when there is.
    pub(super) fn submit(&self, verb: Verb, raw: &[u8], fds: Vec<OwnedFd>, pending: Option<Pending>) {
        self.enqueue(&mut lock(&self.state), verb, raw, fds, pending, false);
    }

    /// Sends what the keeper need not know at once: with the next request, or soon.
    pub(super) fn submit_idly(&self, verb: Verb) {
        let mut state = lock(&self.state);
        let may_wait = state.looks_soon;
        self.enqueue(&mut state, verb, &[], Vec::new(), None, may_wait);
    }

    fn enqueue(
        &self,
        state: &mut State,
        verb: Verb,
        raw: &[u8],
        fds: Vec<OwnedFd>,
        pending: Option<Pending>,
        may_wait: bool,
    ) {
        state.last_id += 1;
        let id = state.last_id;
        if let Some(pending) = pending {
            state.pending.insert(id, pending);
        }
        if state.gone {
            state.unsent.insert(id);
            self.wake();
            return;
        }
        let packet = encode(&Request { id, verb }, raw);
        state.queue.push_back(Outgoing { id, packet, fds });
        if state.blocked || may_wait {
            return;
        }
        self.flush(state);
        if state.blocked {
            self.wake();
        }
    }

    /// Whether the keeper speaks this protocol.
    pub(super) fn speaks(&self, protocol: u32) -> bool {
        self.protocol.load(Ordering::Relaxed) >= protocol
    }

    /// The keeper runs our program.
    pub(super) fn is_renewed(&self) {
        self.protocol.store(PROTOCOL, Ordering::Relaxed);
    }

    /// Answers without asking the keeper.
    pub(super) fn refuse(&self, pending: Pending, error: SpawnError) {
        lock(&self.state).refused.push((pending, error));
        self.wake();
    }

    pub(super) fn leave(&self) {
        lock(&self.state).leaving = true;
    }

    /// Waits until nothing waits to be sent.
    pub(super) fn drain(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = lock(&self.state);
        while !state.queue.is_empty() && !state.gone {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = match self.drained.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Sends what there is room for. `true`: too many descriptors are in flight, try again soon.
    fn flush(&self, state: &mut State) -> bool {
        state.blocked = true;
        while let Some(next) = state.queue.front() {
            let fds: Vec<BorrowedFd<'_>> = next.fds.iter().map(AsFd::as_fd).collect();
            match channel::send(&self.socket, &next.packet, &fds, SendFlags::DONTWAIT) {
                Ok(()) => drop(state.queue.pop_front()),
                Err(Errno::AGAIN) => return false,
                Err(Errno::TOOMANYREFS) => return true,
                // The reader sees the end of the connection and tells everybody.
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => state.drop_queue(),
                // A packet that cannot be sent must not hold up the others.
                Err(errno) => {
                    let failed = SpawnError::Failed { step: Step::Setup, errno: errno.raw_os_error() };
                    let pending = state.queue.pop_front().and_then(|next| state.pending.remove(&next.id));
                    state.refused.extend(pending.map(|pending| (pending, failed)));
                    self.wake();
                }
            }
        }
        state.blocked = false;
        self.drained.notify_all();
        false
    }

    fn serve(&self, mut buffer: Vec<u8>, on_event: &dyn Fn(Event)) {
        let mut crowded = false;
        loop {
            let (blocked, looks_soon) = {
                let state = lock(&self.state);
                (state.blocked, state.looks_soon)
            };
            let mut interest = PollFlags::IN;
            if blocked && !crowded {
                interest |= PollFlags::OUT;
            }
            let mut fds = [PollFd::new(&self.socket, interest), PollFd::new(&self.wake, PollFlags::IN)];
            let until = if crowded { Some(&CROWDED) } else { looks_soon.then_some(&COMPANY) };
            let ready = poll(&mut fds, until);
            self.calm();
            if !self.read_all(&mut buffer, on_event) {
                break;
            }
            {
                let mut state = lock(&self.state);
                // Nothing came for a while: what is said from here on is sent at once.
                state.looks_soon &= ready != Ok(0);
                crowded = self.flush(&mut state);
            }
            self.answer_refused();
        }
        self.lose(on_event);
    }

    /// After the end: everybody who waits, and everybody who still asks, is told so.
    fn lose(&self, on_event: &dyn Fn(Event)) {
        let leaving = {
            let mut state = lock(&self.state);
            state.gone = true;
            state.drop_queue();
            self.drained.notify_all();
            state.leaving || state.released
        };
        if !leaving {
            on_event(Event::KeeperLost);
        }
        loop {
            self.answer_refused();
            let (waiting, unsent, released) = {
                let mut state = lock(&self.state);
                (std::mem::take(&mut state.pending), std::mem::take(&mut state.unsent), state.released)
            };
            for (id, pending) in waiting {
                // What never left us, no keeper has begun.
                let begun = !unsent.contains(&id);
                pending.fail(SpawnError::KeeperGone { begun });
            }
            if released {
                return;
            }
            let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], None);
            self.calm();
        }
    }

    fn calm(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    fn answer_refused(&self) {
        let refused = std::mem::take(&mut lock(&self.state).refused);
        for (pending, error) in refused {
            pending.fail(error);
        }
    }

    /// Reads until there is nothing left. `false`: the connection is over.
    fn read_all(&self, buffer: &mut [u8], on_event: &dyn Fn(Event)) -> bool {
        loop {
            match channel::receive(&self.socket, buffer, RecvFlags::DONTWAIT) {
                Ok(Received::Packet { length, fds, cut: false }) => {
                    let packet = buffer.get(..length).unwrap_or_default();
                    if let Some((head, raw)) = split(packet)
                        && let Ok(answer) = serde_json::from_slice(head)
                    {
                        self.deliver(answer, raw, fds, on_event);
                    }
                }
                Ok(Received::Closed) => return false,
                Err(Errno::AGAIN) => return true,
                Ok(Received::Packet { .. }) | Err(_) => {
                    // Something was lost on the way: only a new adoption can tell what.
                    let _ = shutdown(&self.socket, Shutdown::Both);
                    return false;
                }
            }
        }
    }

    fn deliver(&self, answer: Answer, raw: &[u8], fds: Vec<OwnedFd>, on_event: &dyn Fn(Event)) {
        match answer.body {
            Body::Exited { key, exit } => {
                lock(&self.state).looks_soon = true;
                return on_event(Event::Exited { key, exit });
            }
            Body::Intruder { key, pid } => return on_event(Event::Intruder { key, pid }),
            Body::NeverStarted { key, step, errno } => {
                let error = SpawnError::Failed { step, errno };
                return on_event(Event::SpawnFailed { key, error });
            }
            _ => {}
        }
        let Some(pending) = lock(&self.state).pending.remove(&answer.id) else {
            return;
        };
        match (answer.body, pending) {
            (Body::Spawned(child), Pending::Spawn(done)) => {
                let child = adopt::adopt(child, raw.to_vec(), &mut fds.into());
                done(Ok(Spawned { pid: child.pid, start_ticks: child.start_ticks, io: child.io }));
            }
            (Body::SpawnFailed { step, errno }, pending) => {
                pending.fail(SpawnError::Failed { step, errno });
            }
            (Body::Signalled(what), Pending::Signal(done)) => done(Ok(what)),
            (Body::Strays { strays }, Pending::Strays(done)) => done(Ok(strays)),
            (Body::List { children, more }, Pending::List(mut all, done)) => {
                all.extend(children);
                if more {
                    let pending = Pending::List(all, done);
                    lock(&self.state).pending.insert(answer.id, pending);
                } else {
                    done(Ok(all));
                }
            }
            (Body::Done, Pending::Plain(done)) => done(Ok(())),
            (Body::NoSuchChild, pending) => pending.fail_plain(RequestError::NoSuchChild),
            (Body::AlreadyExited, pending) => pending.fail_plain(RequestError::Exited),
            (Body::System { errno }, pending) => pending.fail_plain(RequestError::System(errno)),
            (Body::Refused { why, .. }, pending) => pending.fail(SpawnError::Refused(why)),
            (_, pending) => pending.fail(SpawnError::Refused("an answer of another kind".into())),
        }
    }
}
