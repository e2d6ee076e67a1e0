//! What a connection owes its client: bytes ready to be written, answers still being worked on, and the cursors that
//! feed it. Everything here is bounded by the connection's limits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use ostler_engine::{MayWait, Process};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::inline_task::InlineTask;
use crate::signal::Signal;
use crate::{Nudge, Share, Watch};

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
    /// Nothing follows it: the connection ends once the reply was offered to the socket.
    pub last: bool,
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
        Self { reply, watch: None, after: None, held: None, last: false, weight: Weight::Request(0) }
    }

    /// A reply that ends the connection.
    pub fn farewell(reply: Vec<u8>) -> Self {
        Self { last: true, ..Self::reply(reply) }
    }
}

/// Writes an answer on the thread that has it. Gives it back where the connection's task has to see to it.
type WriteNow<Tag> = Box<dyn Fn(Later<Tag>) -> Option<Later<Tag>> + Send + Sync>;

/// Work on an answer, boxed: what carries it to a task or a thread is compiled once, and not for every method.
type Task<Tag> = Pin<Box<dyn Future<Output = Later<Tag>> + Send>>;
type Work<Tag> = Box<dyn FnOnce(&MayWait) -> Later<Tag> + Send>;

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
    /// The last reply has come.
    pub(crate) over: bool,
    sender: mpsc::Sender<Later<Tag>>,
    /// What is tried before that.
    write_now: Arc<OnceLock<WriteNow<Tag>>>,
    /// The length of the line being handled.
    pub(crate) weight: usize,
    share: Arc<Share>,
    /// There once the session has asked for it.
    pub(crate) nudge: Option<Nudge>,
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
            over: false,
            sender,
            write_now: Arc::default(),
            weight: 0,
            share: Arc::default(),
            nudge: None,
        }
    }

    /// The bell that has [`Session::nudged`](crate::Session::nudged) called.
    pub fn nudge(&mut self) -> Nudge {
        self.nudge.get_or_insert_with(|| Nudge::new(Arc::clone(&self.signal))).clone()
    }

    /// Sets what is tried first with an answer.
    pub(crate) fn answers_go_to(&self, write_now: impl Fn(Later<Tag>) -> Option<Later<Tag>> + Send + Sync + 'static) {
        // Once, before anything is asked.
        let _ = self.write_now.set(Box::new(write_now));
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
        let (sender, write_now) = (self.sender.clone(), Arc::clone(&self.write_now));
        move |mut later| {
            later.weight = weight;
            let left = match write_now.get() {
                Some(write_now) => write_now(later),
                None => Some(later),
            };
            if let Some(later) = left {
                // The channel has a place for every answer in flight, so this fails only when the connection is gone.
                let _ = sender.try_send(later);
            }
        }
    }

    /// How many answers are still being worked on.
    pub(crate) fn expected(&self) -> usize {
        self.in_flight + self.input.0
    }

    /// Whether an answer is still being worked on.
    pub(crate) fn expects(&self) -> bool {
        self.expected() > 0
    }

    /// Works on an answer beside the connection. What it can do without waiting is done at once: who is asked for the rest
    /// begins with it while a task is made for the answer.
    pub fn spawn(&mut self, work: impl Future<Output = Later<Tag>> + Send + 'static) {
        self.as_a_task(Box::pin(work));
    }

    fn as_a_task(&mut self, mut work: Task<Tag>) {
        let deliver = self.later();
        // Nobody is told by this waker; the task looks once more.
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(later) => deliver(later),
            Poll::Pending => drop(tokio::spawn(async move { deliver(work.await) })),
        }
    }

    /// As [`spawn`](Self::spawn), and what comes after a wait is done by the thread that ends it. For work that never holds a
    /// thread up, and that nobody wakes with a lock in hand.
    pub fn spawn_inline(&mut self, work: impl Future<Output = Later<Tag>> + Send + 'static) {
        let deliver = self.later();
        InlineTask::start(async move { deliver(work.await) });
    }

    /// What its client may have under way on threads.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// From now on it has what all connections of one client have together.
    pub fn set_share(&mut self, share: Arc<Share>) {
        self.share = share;
    }

    /// Works on an answer on a thread that may wait for disks and programs, when one of the client's is free.
    pub fn spawn_blocking(&mut self, work: impl FnOnce(&MayWait) -> Later<Tag> + Send + 'static) {
        self.on_a_thread(Box::new(work));
    }

    fn on_a_thread(&mut self, work: Work<Tag>) {
        let deliver = self.later();
        let (share, threads) = (Arc::clone(&self.share), Arc::clone(&self.share.threads));
        let on_a_thread = move |place: Option<OwnedSemaphorePermit>| {
            drop(MayWait::pool(move |wait| {
                let later = work(wait);
                drop((place, share));
                deliver(later);
            }));
        };
        match Arc::clone(&threads).try_acquire_owned() {
            Ok(place) => on_a_thread(Some(place)),
            Err(_) => drop(tokio::spawn(async move { on_a_thread(threads.acquire_owned().await.ok()) })),
        }
    }

    /// The watch on this process, if there is one.
    pub fn watch_of(&mut self, process: &Process) -> Option<&mut Watch<Tag>> {
        self.watches.iter_mut().find(|watch| watch.id() == process.id())
    }

    /// Watches from now on.
    pub fn watch(&mut self, watch: Watch<Tag>) {
        self.begin(watch);
        self.signal.raise();
    }

    /// Watches from now on; the caller looks at what there is already.
    pub(crate) fn begin(&mut self, mut watch: Watch<Tag>) {
        watch.begin(&self.signal);
        self.watches.push(watch);
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
        if let Some(watch) = self.take(later) {
            self.watch(watch);
        }
    }

    /// Takes the reply of an answer that has come, and gives back what is to be watched from now on.
    pub(crate) fn take(&mut self, later: Later<Tag>) -> Option<Watch<Tag>> {
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
        self.over |= later.last;
        match &later.after {
            Some(after) => self.reply_after(later.reply, after),
            None => self.ready.extend_from_slice(&later.reply),
        }
        later.watch
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};

    use super::*;
    use crate::share::THREADS;

    #[tokio::test]
    async fn a_client_that_waits_for_much_holds_few_threads_on_all_its_connections_and_is_answered_all_the_same() {
        const MANY: usize = 100;
        let (sender, mut answers) = mpsc::channel(MANY);
        let mut outs: [Outbox<()>; 2] = std::array::from_fn(|_| Outbox::new(sender.clone(), Arc::default()));
        let share = Arc::<Share>::default();
        outs.iter_mut().for_each(|out| out.set_share(Arc::clone(&share)));
        let (begun, disk) = (Arc::new(AtomicUsize::new(0)), Arc::new((Mutex::new(false), Condvar::new())));
        for number in 0..MANY {
            let (begun, disk) = (Arc::clone(&begun), Arc::clone(&disk));
            outs[number % 2].spawn_blocking(move |_| {
                begun.fetch_add(1, Ordering::SeqCst);
                drop(disk.1.wait_while(disk.0.lock().unwrap(), |back| !*back).unwrap());
                Later::reply(Vec::new())
            });
        }
        while begun.load(Ordering::SeqCst) < THREADS {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        // Whoever came beyond that would be here by now.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(begun.load(Ordering::SeqCst), THREADS);
        *disk.0.lock().unwrap() = true;
        disk.1.notify_all();
        for _ in 0..MANY {
            answers.recv().await.unwrap();
        }
    }
}
