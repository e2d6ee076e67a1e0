//! What a connection owes its client: bytes ready to be written, answers still being worked on, and the cursors that
//! feed it. Everything here is bounded by the connection's limits.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ostler_engine::Process;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::Watch;
use crate::signal::Signal;

/// An answer that was worked on elsewhere.
pub struct Later<Tag> {
    /// The bytes of the reply; may be empty.
    pub reply: Vec<u8>,
    /// What to watch from now on, after the reply has been queued.
    pub watch: Option<Watch<Tag>>,
    /// What the reply must not overtake.
    pub after: Option<After>,
    /// What it took to make the reply; given back when the connection has taken that.
    pub held: Option<OwnedSemaphorePermit>,
    /// How much of which allowance it gives back.
    weight: Weight,
}

/// What an answer in flight counts for.
#[derive(Debug, Clone, Copy)]
enum Weight {
    /// A request with a line of this length.
    Request(usize),
    /// So many bytes for a process.
    Input(usize),
}

/// A place in a process's output.
#[derive(Debug, Clone)]
pub struct After {
    /// The process's generation id.
    pub process: String,
    /// The frame.
    pub seq: u64,
}

impl<Tag> Later<Tag> {
    /// Just a reply.
    pub fn reply(reply: Vec<u8>) -> Self {
        Self { reply, watch: None, after: None, held: None, weight: Weight::Request(0) }
    }
}

/// A session's view of its connection.
pub struct Outbox<Tag> {
    /// Bytes for the client, in order.
    pub ready: Vec<u8>,
    pub(crate) watches: Vec<Watch<Tag>>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    /// Pieces and bytes that wait for processes to take their input.
    pub(crate) input: (usize, usize),
    /// Bytes of replies that wait for a frame.
    pub(crate) held_back: usize,
    sender: mpsc::Sender<Later<Tag>>,
    /// The length of the line being handled.
    pub(crate) weight: usize,
}

impl<Tag: Send + 'static> Outbox<Tag> {
    pub(crate) fn new(sender: mpsc::Sender<Later<Tag>>, signal: Arc<Signal>) -> Self {
        Self {
            ready: Vec::new(),
            watches: Vec::new(),
            signal,
            in_flight: 0,
            in_flight_bytes: 0,
            input: (0, 0),
            held_back: 0,
            sender,
            weight: 0,
        }
    }

    /// Takes a place among the answers in flight; the returned function delivers, once, from any thread.
    pub fn later(&mut self) -> impl FnOnce(Later<Tag>) + Send + 'static + use<Tag> {
        self.in_flight += 1;
        self.in_flight_bytes += self.weight;
        self.deliver(Weight::Request(self.weight))
    }

    /// The same for the answer to `bytes` of input, which comes when the process has taken them: a process that does not read
    /// holds up nothing else.
    pub fn later_input(&mut self, bytes: usize) -> impl FnOnce(Later<Tag>) + Send + 'static + use<Tag> {
        self.input.0 += 1;
        self.input.1 += bytes;
        self.deliver(Weight::Input(bytes))
    }

    fn deliver(&self, weight: Weight) -> impl FnOnce(Later<Tag>) + Send + 'static + use<Tag> {
        let sender = self.sender.clone();
        move |mut later| {
            later.weight = weight;
            // The channel has a place for every answer in flight, so this fails only when the connection is gone.
            let _ = sender.try_send(later);
        }
    }

    /// Whether an answer is still being worked on.
    pub(crate) fn expects(&self) -> bool {
        self.in_flight > 0 || self.input.0 > 0
    }

    /// Works on an answer beside the connection. What it can do without waiting is done at once: who is asked for the rest
    /// begins with it while a task is made for the answer.
    pub fn spawn(&mut self, work: impl Future<Output = Later<Tag>> + Send + 'static) {
        let deliver = self.later();
        let mut work = Box::pin(work);
        // Nobody is told by this waker; the task looks once more.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(later) => deliver(later),
            Poll::Pending => drop(tokio::spawn(async move { deliver(work.await) })),
        }
    }

    /// Works on an answer on a thread that may wait for disks and programs.
    pub fn spawn_blocking(&mut self, work: impl FnOnce() -> Later<Tag> + Send + 'static) {
        let deliver = self.later();
        tokio::task::spawn_blocking(move || deliver(work()));
    }

    /// The watch on this process, if there is one.
    pub fn watch_of(&mut self, process: &Process) -> Option<&mut Watch<Tag>> {
        self.watches.iter_mut().find(|watch| watch.id() == process.id())
    }

    /// Watches from now on.
    pub fn watch(&mut self, mut watch: Watch<Tag>) {
        watch.begin(&self.signal);
        self.watches.push(watch);
        self.signal.raise();
    }

    /// Ends the watch on what has this id; what waited for its frames goes out. `false` if there was none.
    pub fn unwatch(&mut self, id: &str) -> bool {
        let Some(index) = self.watches.iter().position(|watch| watch.id() == id) else { return false };
        self.held_back -= self.watches.swap_remove(index).finish(&mut self.ready);
        true
    }

    /// A reply that must not overtake `after`; at once if this connection does not wait for that frame.
    pub fn reply_after(&mut self, reply: Vec<u8>, after: &After) {
        let watch = self.watches.iter_mut().find(|watch| watch.id() == after.process);
        match watch.filter(|watch| watch.position() < after.seq) {
            Some(watch) => {
                self.held_back += reply.len();
                watch.hold_back(after.seq, reply);
            }
            None => self.ready.extend_from_slice(&reply),
        }
    }

    pub(crate) fn arrived(&mut self, later: Later<Tag>) {
        match later.weight {
            Weight::Request(bytes) => {
                self.in_flight -= 1;
                self.in_flight_bytes -= bytes;
            }
            Weight::Input(bytes) => {
                self.input.0 -= 1;
                self.input.1 -= bytes;
            }
        }
        match &later.after {
            Some(after) => self.reply_after(later.reply, after),
            None => self.ready.extend_from_slice(&later.reply),
        }
        if let Some(watch) = later.watch {
            self.watch(watch);
        }
    }
}
