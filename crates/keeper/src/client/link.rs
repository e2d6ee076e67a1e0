//! The connected socket, what waits to be sent, and who waits for an answer. No lock is held while a callback runs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown, sockopt};

use super::adopt;
use crate::channel::{self, Received};
use crate::procfs;
use crate::spec::{Event, Listed, RequestError, Signalled, SpawnError, Spawned, Step, Stray, Upgrade};
use crate::wire::{Body, Greeting, KeeperMessage, PROTOCOL, Request, Verb, encode, split};

/// Pause after the kernel said that too many descriptors are in flight: nothing signals the end of it.
const CROWDED: Duration = Duration::from_millis(5);

/// How long an acknowledgement may wait for company after an exit was told: whoever starts one program after the other sends
/// the next request sooner, and the keeper is woken once for both.
const COMPANY: Duration = Duration::from_millis(10);

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
    /// The keeper need not know at once.
    idle: bool,
}

#[derive(Default)]
struct State {
    last_id: u64,
    queue: VecDeque<Outgoing>,
    /// What waits does so for room in the socket, and whoever serves knows.
    blocked: bool,
    /// Whoever serves looks at what waits within [`COMPANY`].
    looks_soon: bool,
    pending: HashMap<u64, Pending>,
    /// Requests that were never sent, because the keeper was gone before.
    unsent: HashSet<u64>,
    /// Answers that need no keeper, to be given by whoever serves, like all others.
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
    /// There is something to be read from `wake`.
    rung: AtomicBool,
    /// Both of them, so that there is one descriptor to wait for.
    either: OwnedFd,
    pub(super) process: Process,
    pub(super) entrusted: Vec<u8>,
    /// What became of its change to our program.
    upgrade: Mutex<Option<Upgrade>>,
    /// It may leave a core file.
    pub(super) core_dumps: AtomicBool,
    /// The protocol that the keeper speaks.
    protocol: AtomicU32,
    state: Mutex<State>,
    drained: Condvar,
}

/// The keeper's process: what it says, and what the kernel says.
pub(super) struct Process {
    pub(super) pid: u32,
    /// The file that it ran when it was reached.
    pub(super) file: Option<(u64, u64)>,
    /// The one that listens, by number and start time; nothing where that one was never a keeper.
    listens: Option<(u32, u64)>,
}

impl Process {
    /// Who is at the other end. A connection of `own` was made before the keeper was there, which then says who it is.
    pub(super) fn at(socket: &OwnedFd, keeper: &Greeting, own: bool) -> Process {
        let peer = sockopt::socket_peercred(socket).ok().map(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs());
        let pid = if own { Some(keeper.pid) } else { peer };
        let listens = pid.and_then(|pid| Some((pid, procfs::stat(pid).ok()?.start_ticks)));
        Process { pid: keeper.pid, file: keeper.file, listens }
    }

    pub(super) fn is_the_same_as(&self, other: &Process) -> bool {
        self.listens.is_some() && self.listens == other.listens
    }
}

/// Closes the connection when the last clone of a `Keeper` goes.
pub(super) struct Handle(Arc<Link>);

impl Drop for Handle {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.0.state);
            state.released = true;
            // What waits for company.
            self.0.flush(&mut state);
        }
        let _ = shutdown(&self.0.socket, Shutdown::Both);
        self.0.wake();
    }
}

impl Handle {
    pub(super) fn link(&self) -> &Link {
        &self.0
    }

    pub(super) fn new(
        socket: OwnedFd,
        buffer: Vec<u8>,
        (process, protocol, entrusted): (Process, u32, Vec<u8>),
        on_event: impl Fn(Event) + Send + 'static,
    ) -> std::io::Result<(Handle, Service)> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&either, &socket, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&either, &wake, EventData::new_u64(0), EventFlags::IN)?;
        let link = Arc::new(Link {
            socket,
            wake,
            rung: AtomicBool::new(false),
            either,
            process,
            entrusted,
            protocol: AtomicU32::new(protocol),
            upgrade: Mutex::default(),
            core_dumps: AtomicBool::new(false),
            state: Mutex::default(),
            drained: Condvar::new(),
        });
        let served = Arc::clone(&link);
        let service =
            Service { link: served, buffer, on_event: Box::new(on_event), due: None, wants_room: false, lost: false };
        Ok((Handle(link), service))
    }
}

/// The reading side of a connection, for a thread that serves it: answers are given and news is told in its turns.
pub struct Service {
    link: Arc<Link>,
    buffer: Vec<u8>,
    on_event: Box<dyn Fn(Event) + Send>,
    /// When a turn is due that no descriptor asks for.
    due: Option<Instant>,
    /// Room in the socket is waited for.
    wants_room: bool,
    lost: bool,
}

impl Service {
    /// Readable when a turn has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.link.either.as_fd()
    }

    /// When the next turn is due, whatever the descriptor says.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Does what there is to do; never waits. `false`: nobody can ask anything any more, it was the last.
    pub fn turn(&mut self) -> bool {
        let link = &self.link;
        link.calm();
        if !self.lost && link.read_all(&mut self.buffer, &*self.on_event) {
            let now = Instant::now();
            let overdue = self.due.is_some_and(|due| due <= now);
            let wait = link.send_waiting(overdue);
            self.due = wait.map(|wait| now + wait);
            self.want_room();
            self.link.answer_refused();
            return true;
        }
        if !self.lost {
            (self.lost, self.due) = (true, None);
            // It would be readable for ever.
            let _ = epoll::delete(&link.either, &link.socket);
            link.lose(&*self.on_event);
        }
        !self.link.fail_waiting()
    }

    /// Serves to the end, on the calling thread.
    pub(super) fn run(mut self) {
        while self.turn() {
            let left = self.due.map(|due| due.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // What fails here is tried again: a turn is never wrong.
            let _ = poll(&mut [PollFd::new(&self.link.either, PollFlags::IN)], left.as_ref());
        }
    }

    fn want_room(&mut self) {
        let wanted = lock(&self.link.state).blocked && self.due.is_none();
        if wanted != self.wants_room {
            self.wants_room = wanted;
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, wanted);
            // One that is full is looked at after the next request too.
            let _ = epoll::modify(&self.link.either, &self.link.socket, EventData::new_u64(0), flags);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Sends a request now, after whatever waits before it; where there is no room for it, when there is.
    pub(super) fn submit(&self, verb: Verb, raw: &[u8], fds: Vec<OwnedFd>, pending: Option<Pending>) {
        self.enqueue(verb, raw, fds, pending, false);
    }

    /// Sends what the keeper need not know at once: with the next request, or soon.
    pub(super) fn submit_idly(&self, verb: Verb) {
        self.enqueue(verb, &[], Vec::new(), None, true);
    }

    /// Sends what waits for company.
    pub(super) fn hurry(&self) {
        let mut state = lock(&self.state);
        if !state.blocked && !state.gone {
            self.flush(&mut state);
            if state.blocked {
                self.wake();
            }
        }
    }

    fn enqueue(&self, verb: Verb, raw: &[u8], fds: Vec<OwnedFd>, pending: Option<Pending>, idle: bool) {
        let mut state = lock(&self.state);
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
        let place = match verb {
            // Nobody waits for what is idle, and somebody does for a child.
            Verb::Spawn(_) => state.queue.iter().rposition(|next| !next.idle).map_or(0, |last| last + 1),
            _ => state.queue.len(),
        };
        let packet = encode(&Request { id, verb }, raw);
        state.queue.insert(place, Outgoing { id, packet, fds, idle });
        if state.blocked || (idle && state.looks_soon) {
            return;
        }
        self.flush(&mut state);
        if state.blocked {
            self.wake();
        }
    }

    /// Whether the keeper speaks this protocol.
    pub(super) fn speaks(&self, protocol: u32) -> bool {
        self.protocol.load(Ordering::Relaxed) >= protocol
    }

    /// What became of the keeper's change to our program, if there was one.
    pub(super) fn upgrade(&self) -> Option<Upgrade> {
        *lock(&self.upgrade)
    }

    /// The keeper is to run our program, or does, or will not.
    pub(super) fn upgrades(&self, upgrade: Upgrade) {
        *lock(&self.upgrade) = Some(upgrade);
        if upgrade == Upgrade::Done {
            self.protocol.store(PROTOCOL, Ordering::Relaxed);
        }
    }

    /// Answers without asking the keeper.
    pub(super) fn refuse(&self, pending: Pending, error: SpawnError) {
        lock(&self.state).refused.push((pending, error));
        self.wake();
    }

    pub(super) fn is_there(&self) -> bool {
        let mut watched = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut watched, Some(&Timespec::default())) == Ok(0)
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
        // After it: a turn in between leaves it to be read by the next.
        self.rung.store(true, Ordering::Release);
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
        if state.leaving {
            self.drained.notify_all();
        }
        false
    }

    /// Sends what waits. Says when to do so again without being asked; `overdue`: that time has come.
    fn send_waiting(&self, overdue: bool) -> Option<Duration> {
        let mut state = lock(&self.state);
        // Nothing came for a while: what is said from here on is sent at once.
        state.looks_soon &= !overdue;
        match self.flush(&mut state) {
            true => Some(CROWDED),
            false => (state.looks_soon && !state.blocked).then_some(COMPANY),
        }
    }

    /// After the end: nothing more is sent, and what happened is told.
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
    }

    /// After the end: everybody who waits, and everybody who still asks, is told so. `true`: nobody can ask any more.
    fn fail_waiting(&self) -> bool {
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
        released
    }

    fn calm(&self) {
        if self.rung.swap(false, Ordering::AcqRel) {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
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

    fn deliver(&self, answer: KeeperMessage, raw: &[u8], fds: Vec<OwnedFd>, on_event: &dyn Fn(Event)) {
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

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::client::Keeper;
    use crate::spec::{Scope, SpawnSpec};

    #[test]
    fn a_spawn_overtakes_acknowledgements_and_nothing_else_does() {
        let (ours, keeper) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let process = Process { pid: 1, file: None, listens: None };
        let (handle, _service) = Handle::new(ours, Vec::new(), (process, PROTOCOL, Vec::new()), |_| ()).unwrap();
        // As after an exit.
        lock(&handle.link().state).looks_soon = true;
        let daemon = Keeper { handle: Arc::new(handle) };
        daemon.ack("a");
        daemon.ack("b");
        daemon.spawn("c", &SpawnSpec::default(), Vec::new(), |_| ());
        daemon.ack("d");
        daemon.signal("e", 15, Scope::Group, |_| ());
        let mut heard = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while let Ok(Received::Packet { length, .. }) = channel::receive(&keeper, &mut buffer, RecvFlags::DONTWAIT) {
            heard.push(match serde_json::from_slice::<Request>(split(&buffer[..length]).unwrap().0).unwrap().verb {
                Verb::Ack { key } => format!("ack {key}"),
                Verb::Spawn(spec) => format!("spawn {}", spec.key),
                other => format!("{other:?}"),
            });
        }
        let (last, first) = heard.split_last().unwrap();
        assert_eq!(first, ["spawn c", "ack a", "ack b", "ack d"]);
        assert!(last.starts_with("Signal"), "{last}");
    }
}
