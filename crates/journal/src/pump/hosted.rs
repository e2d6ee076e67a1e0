//! The handle of a hosted process, and the mailbox between it and the pump thread that serves the process.
//!
//! A verb is a message; nothing here waits for the disk or the child. The mailbox is bounded by what may wait for
//! stdin: the only messages that a client can send many of.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::thread::{Notice, ThreadHandle};
use super::{Appended, PumpConfig, PumpIo, StdinError};
use crate::lock;
use crate::raw::{Journal, somebody, terminal};
use ostler_story::Exit;

/// Called once with the outcome, on a pump thread; must not block.
pub type AppendDone = Box<dyn FnOnce(Result<Appended, StdinError>) + Send>;

/// Called once with second descriptors of everything a process has here.
pub type DuplicateDone = Box<dyn FnOnce(io::Result<PumpIo>) + Send>;

/// Called once: whether the keeper has it. Called on any thread; must not block.
pub type HoldDone = Box<dyn FnOnce(bool) + Send>;

/// Hands the keeper a description of `in`. Called on a pump thread; must not block.
pub type Hold = Box<dyn Fn(std::os::fd::OwnedFd, HoldDone) + Send>;

/// Bytes that may wait for room in the spool, per process: eight spools full.
const WAITING_SPOOLS: u64 = 8;

/// Bytes for stdin that are not in the ledger yet.
pub(crate) struct Append {
    pub(crate) offset: Option<i64>,
    /// Whose they are: the offset counts in all that this sender ever sent.
    pub(crate) sender: Option<u64>,
    pub(crate) data: Vec<u8>,
    done: AppendDone,
    shared: Arc<HostedState>,
    /// What it counts for in the bound.
    size: u64,
}

impl Append {
    pub(crate) fn answer(self, outcome: Result<Appended, StdinError>) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        self.shared.waiting_bytes.fetch_sub(self.size, Ordering::Relaxed);
        (self.done)(outcome);
    }

    /// The same without its first `n` bytes, which are in the ledger: the rest goes to the end.
    pub(crate) fn rest(mut self, n: usize) -> Self {
        self.data.drain(..n.min(self.data.len()));
        self.offset = None;
        self
    }
}

/// Something that waits for its turn at the spool.
pub(crate) enum Request {
    Append(Append),
    Close(AppendDone),
}

impl Request {
    pub(crate) fn is_append(&self) -> bool {
        matches!(self, Self::Append(_))
    }

    pub(crate) fn answer(self, outcome: Result<Appended, StdinError>) {
        match self {
            Self::Append(append) => append.answer(outcome),
            Self::Close(done) => done(outcome),
        }
    }
}

/// What a pump thread is told about a process.
pub(crate) enum Message {
    Stdin(Request),
    OnClose(Box<dyn FnOnce() + Send>),
    Exited(Exit),
    /// Whether the keeper holds the ledger that it was given.
    Held(bool),
    /// Free space is scarce and this process writes the most (or: no longer).
    Floor(bool),
    Duplicate(DuplicateDone),
    Release,
}

struct Mail {
    queue: Vec<Message>,
    thread: Option<Arc<ThreadHandle>>,
    /// Nobody reads it any more.
    closed: bool,
    drain: Drain,
}

/// Whether everything the process will ever say is in its journal.
enum Drain {
    /// Not yet; this is called when it is.
    Open(Option<Box<dyn FnOnce() + Send>>),
    Done,
}

/// What the handle, the pump thread and the sync thread know of a hosted process.
pub(crate) struct HostedState {
    pub(crate) id: u64,
    pub(crate) journal: Arc<Journal>,
    mail: Mutex<Mail>,
    waiting: AtomicUsize,
    waiting_bytes: AtomicU64,
    waiting_max: usize,
    waiting_bytes_max: u64,
    /// Stdin before this was read by the child.
    pub(crate) consumed: AtomicU64,
    /// Stdin before this was punched out; the largest number where it is kept.
    pub(crate) punched: AtomicU64,
    /// Output bytes when the sync thread last looked.
    pub(crate) seen_bytes: AtomicU64,
}

impl HostedState {
    pub(crate) fn new(id: u64, journal: Arc<Journal>, thread: Option<Arc<ThreadHandle>>, config: &PumpConfig) -> Self {
        let bounds = journal.bounds();
        let keep = journal.options.keep_stdin;
        Self {
            id,
            journal,
            mail: Mutex::new(Mail { queue: Vec::new(), closed: thread.is_none(), thread, drain: Drain::Open(None) }),
            waiting: AtomicUsize::new(0),
            waiting_bytes: AtomicU64::new(0),
            waiting_max: config.spool_waiters,
            waiting_bytes_max: config.spool_cap.saturating_mul(WAITING_SPOOLS),
            consumed: AtomicU64::new(0),
            punched: AtomicU64::new(if keep { u64::MAX } else { 0 }),
            seen_bytes: AtomicU64::new(bounds.out_end + bounds.err_end),
        }
    }

    /// Leaves a message for whichever thread serves the process.
    pub(crate) fn post(&self, message: Message) {
        let mut mail = lock(&self.mail);
        if mail.closed {
            drop(mail);
            refuse(message);
            return;
        }
        mail.queue.push(message);
        if let (1, Some(thread)) = (mail.queue.len(), &mail.thread) {
            thread.notify(Notice::Mail(self.id));
        }
    }

    pub(crate) fn take_mail(&self) -> Vec<Message> {
        std::mem::take(&mut lock(&self.mail).queue)
    }

    /// From now on `thread` is told of mail. What came before is found by the first `take_mail` there.
    pub(crate) fn move_to(&self, thread: Arc<ThreadHandle>) {
        lock(&self.mail).thread = Some(thread);
    }

    /// Nobody serves the process any more.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.mail).closed
    }

    /// Nobody serves the process any more; what waits is refused.
    pub(crate) fn close_mail(&self) {
        let queue = {
            let mut mail = lock(&self.mail);
            mail.closed = true;
            std::mem::take(&mut mail.queue)
        };
        queue.into_iter().for_each(refuse);
    }

    /// The exit is journaled and every output has ended.
    pub(crate) fn drained(&self) {
        let before = std::mem::replace(&mut lock(&self.mail).drain, Drain::Done);
        if let Drain::Open(Some(callback)) = before {
            callback();
        }
    }

    fn on_drained(&self, callback: Box<dyn FnOnce() + Send>) {
        let mut mail = lock(&self.mail);
        match &mut mail.drain {
            Drain::Open(slot) => *slot = Some(callback),
            Drain::Done => {
                drop(mail);
                callback();
            }
        }
    }
}

fn refuse(message: Message) {
    match message {
        Message::Stdin(request) => request.answer(Err(StdinError::NotRunning)),
        Message::Duplicate(done) => done(Ok(PumpIo::default())),
        Message::OnClose(_) | Message::Exited(_) | Message::Held(_) | Message::Floor(_) | Message::Release => {}
    }
}

/// A process whose stdio is pumped. Every verb is a message to its pump thread and returns at once.
#[derive(Clone)]
pub struct Hosted {
    pub(crate) shared: Arc<HostedState>,
}

impl Hosted {
    /// Accepts stdin at `offset` (`None` = at the end). `done` is called on a pump thread when the bytes are in the
    /// ledger: later if the spool is full, in order, and when the child exits.
    pub fn append_stdin(&self, offset: Option<i64>, data: Vec<u8>, done: AppendDone) {
        self.append(None, offset, data, done);
    }

    /// The same for one of several senders: `offset` is a place in all that it ever sent, whatever others add.
    pub fn append_stdin_of(&self, sender: u64, offset: i64, data: Vec<u8>, done: AppendDone) {
        self.append(Some(somebody(sender)), Some(offset), data, done);
    }

    /// Accepts the answer to the question that ends at this offset of the output; once, however often it is given.
    pub fn answer_terminal(&self, asked: u64, data: Vec<u8>, done: AppendDone) {
        self.append(Some(terminal(asked)), Some(0), data, done);
    }

    fn append(&self, sender: Option<u64>, offset: Option<i64>, data: Vec<u8>, done: AppendDone) {
        let shared = &self.shared;
        let size = data.len() as u64;
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed);
        let bytes = shared.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        let append = Append { offset, sender, data, done, shared: Arc::clone(shared), size };
        // One always may: a bound must not refuse what could never fit.
        if waiting >= shared.waiting_max || (waiting > 0 && bytes + size > shared.waiting_bytes_max) {
            append.answer(Err(StdinError::Busy));
            return;
        }
        shared.post(Message::Stdin(Request::Append(append)));
    }

    /// Closes stdin after everything accepted so far was delivered. `done` is called when that is recorded.
    pub fn close_stdin(&self, done: AppendDone) {
        self.shared.post(Message::Stdin(Request::Close(done)));
    }

    /// Sets what is called (once, on a pump thread) when stdin was closed here, so that the keeper closes its copy too.
    pub fn on_close_stdin(&self, callback: Box<dyn FnOnce() + Send>) {
        self.shared.post(Message::OnClose(callback));
    }

    /// The keeper reaped the child. The exit is journaled when its pipes have ended, or after a grace.
    pub fn child_exited(&self, status: Exit) {
        self.shared.post(Message::Exited(status));
    }

    /// Sets what is called (once, on a pump thread, or at once) when the exit is journaled and every output has ended:
    /// from then on nobody needs the pipes. Never called for a process that was released, or when the threads stop.
    pub fn on_drained(&self, callback: Box<dyn FnOnce() + Send>) {
        self.shared.on_drained(callback);
    }

    /// Gives second descriptors of everything it has, for a keeper that replaces a dead one. None of them are read here.
    pub fn duplicate(&self, done: DuplicateDone) {
        self.shared.post(Message::Duplicate(done));
    }

    /// Drops every descriptor without an exit record (abandon).
    pub fn release(&self) {
        self.shared.post(Message::Release);
    }

    /// Its journal.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.shared.journal
    }
}
