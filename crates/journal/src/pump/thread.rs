//! A pump thread: waits for the descriptors and deadlines of its lanes and serves them one after the other. Only the
//! disk makes it wait.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::Core;
use super::lane::Lane;
use super::load::Verdict;
use super::poller::{Poller, Token, Waker, token};
use crate::lock;

/// Events taken from the kernel at once.
const EVENTS: usize = 64;

/// How long a thread stays awake for the end of a process whose pipes have ended: the keeper tells it within that, and to fall
/// asleep and be woken takes as long again.
const END_SOON: Duration = Duration::from_micros(50);

/// Something else that a pump thread serves: what it hears is mostly for processes of the same thread, and reaches them
/// without waking another.
pub trait Guest: Send {
    /// Readable when a turn has something to do.
    fn fd(&self) -> BorrowedFd<'_>;
    /// When a turn is due, whatever the descriptor says.
    fn due(&self) -> Option<Instant>;
    /// Does what there is to do; must not wait. `false`: that was the last.
    fn turn(&mut self) -> bool;
}

/// What other threads tell this one.
pub(crate) enum Notice {
    /// A guest comes here.
    Guest(Box<dyn Guest>),
    /// There is mail for a lane that is (or was) here.
    Mail(u64),
    /// A lane comes here.
    Arrive(Box<Lane>),
    Stop,
}

/// How other threads reach a pump thread.
pub(crate) struct ThreadHandle {
    notices: Mutex<Vec<Notice>>,
    waker: Waker,
    /// Set by itself.
    thread: OnceLock<ThreadId>,
}

impl ThreadHandle {
    pub(crate) fn notify(&self, notice: Notice) {
        let mut notices = lock(&self.notices);
        notices.push(notice);
        // It looks before it waits, so that it need not be woken by itself.
        if notices.len() == 1 && self.thread.get() != Some(&std::thread::current().id()) {
            self.waker.wake();
        }
    }
}

/// Starts a thread.
pub(crate) fn start(name: String, core: Arc<Core>) -> io::Result<(Arc<ThreadHandle>, JoinHandle<()>)> {
    let handle = Arc::new(ThreadHandle { notices: Mutex::default(), waker: Waker::new()?, thread: OnceLock::new() });
    let thread = Thread {
        poller: Poller::new(handle.waker.fd())?,
        handle: Arc::clone(&handle),
        core,
        lanes: HashMap::new(),
        timers: BTreeSet::new(),
        guests: Vec::new(),
        last_guest: 0,
        awake_until: None,
    };
    let join = std::thread::Builder::new().name(name).spawn(move || thread.run())?;
    Ok((handle, join))
}

struct Thread {
    poller: Poller,
    handle: Arc<ThreadHandle>,
    core: Arc<Core>,
    lanes: HashMap<u64, Box<Lane>>,
    timers: BTreeSet<(Instant, u64)>,
    /// By their numbers.
    guests: Vec<(u64, Box<dyn Guest>)>,
    last_guest: u64,
    /// An end is expected until then.
    awake_until: Option<Instant>,
}

impl Thread {
    fn run(mut self) {
        // Once, here.
        let _ = self.handle.thread.set(std::thread::current().id());
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            if self.poller.wait(&mut events, self.timeout()).is_err() {
                // Cannot happen with a set of our own; never spin if it does.
                std::thread::yield_now();
            }
            let now = Instant::now();
            if self.awake_until.is_some_and(|until| until <= now) {
                self.awake_until = None;
            } else if events.is_empty() && self.awake_until.is_some() {
                // Whoever else could use the processor has it meanwhile.
                std::thread::yield_now();
                continue;
            }
            for event in &events {
                match token(event) {
                    Token::Wake => self.handle.waker.clear(),
                    Token::Guest(number) => self.attend(|of, _| of == number),
                    Token::Lane(id, source) => {
                        self.serve(id, now, |lane, poller| lane.ready(source, poller, now));
                    }
                }
            }
            self.attend(|_, guest| guest.due().is_some_and(|due| due <= now));
            // Last: what a guest has told is served in the same turn, and what the pipes said comes before an exit.
            if self.notices(now).is_break() {
                return;
            }
            while let Some(&(at, id)) = self.timers.first() {
                if at > now {
                    break;
                }
                self.timers.pop_first();
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.timer = None;
                }
                self.serve(id, now, |lane, poller| lane.tick(poller, now));
            }
        }
    }

    /// How long nothing is to be done unless a descriptor says so.
    fn timeout(&self) -> Option<Duration> {
        if self.awake_until.is_some() || !lock(&self.handle.notices).is_empty() {
            return Some(Duration::ZERO);
        }
        let lanes = self.timers.first().map(|(at, _)| *at);
        let due = self.guests.iter().filter_map(|(_, guest)| guest.due()).chain(lanes).min();
        due.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Gives their turn to the guests for which `is_due` says so.
    fn attend(&mut self, is_due: impl Fn(u64, &dyn Guest) -> bool) {
        let poller = &self.poller;
        self.guests.retain_mut(|(number, guest)| {
            let stays = !is_due(*number, &**guest) || guest.turn();
            if !stays {
                poller.remove(guest.fd());
            }
            stays
        });
    }

    fn notices(&mut self, now: Instant) -> std::ops::ControlFlow<()> {
        let notices = std::mem::take(&mut *lock(&self.handle.notices));
        for notice in notices {
            match notice {
                Notice::Guest(mut guest) => {
                    self.last_guest += 1;
                    // One that is not in the set would never be heard; there is always room for one descriptor.
                    let added = self.poller.add_readable(guest.fd(), Token::Guest(self.last_guest)).is_ok();
                    if guest.turn() && added {
                        self.guests.push((self.last_guest, guest));
                    }
                }
                Notice::Mail(id) => self.serve(id, now, |lane, poller| lane.mail(poller, now)),
                Notice::Arrive(lane) => {
                    let id = lane.shared.id;
                    self.lanes.insert(id, lane);
                    self.serve(id, now, |lane, poller| lane.arrive(poller, now));
                }
                Notice::Stop => {
                    for (_, mut lane) in self.lanes.drain() {
                        lane.end(&self.poller);
                    }
                    return std::ops::ControlFlow::Break(());
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Does something with a lane, then sees to its deadline and whether it stays. One that has left is nobody's.
    fn serve(&mut self, id: u64, now: Instant, act: impl FnOnce(&mut Lane, &Poller)) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let open = lane.is_open();
        act(lane, &self.poller);
        if open && lane.awaits_end() {
            self.awake_until = Some(now + END_SOON);
        }
        if lane.is_over() {
            self.awake_until = None;
            self.part(id, |mut lane, thread| {
                if lane.load.is_apart() {
                    thread.core.heavy_free(&thread.handle);
                }
                lane.end(&thread.poller);
            });
            return;
        }
        if lane.wants_files()
            && let Some(target) = self.core.base_thread()
        {
            self.send(id, &target, false, now);
            return;
        }
        // One whose files may stall stays where it harms only its like.
        let may_leave = !lane.shared.journal.is_remote();
        match lane.load.judge(now) {
            Verdict::Apart if self.lanes.len() > 1 && may_leave => {
                if let Some(target) = self.core.heavy_claim() {
                    self.send(id, &target, true, now);
                    return;
                }
            }
            Verdict::Together => {
                if let Some(target) = self.core.base_thread() {
                    self.send(id, &target, false, now);
                    self.core.heavy_free(&self.handle);
                    return;
                }
            }
            _ => {}
        }
        self.note_deadline(id, now);
    }

    fn note_deadline(&mut self, id: u64, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        // Deadlines of the past would be served for ever within one round.
        let deadline = lane.deadline().map(|at| at.max(now + Duration::from_nanos(1)));
        if lane.timer != deadline {
            if let Some(old) = lane.timer.take() {
                self.timers.remove(&(old, id));
            }
            lane.timer = deadline;
            self.timers.extend(deadline.map(|at| (at, id)));
        }
    }

    fn send(&mut self, id: u64, target: &Arc<ThreadHandle>, apart: bool, now: Instant) {
        self.part(id, |mut lane, thread| {
            lane.depart(&thread.poller);
            lane.load.moved_to(apart, now);
            lane.shared.move_to(Arc::clone(target));
            target.notify(Notice::Arrive(lane));
        });
    }

    fn part(&mut self, id: u64, act: impl FnOnce(Box<Lane>, &mut Self)) {
        if let Some(mut lane) = self.lanes.remove(&id) {
            if let Some(at) = lane.timer.take() {
                self.timers.remove(&(at, id));
            }
            act(lane, self);
        }
    }
}
