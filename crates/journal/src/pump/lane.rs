//! One hosted process on its pump thread: two outputs, the stdin spool, the exit. Exactly one thread has it at a time,
//! so nothing here is locked but the end of the journal, and nothing is ever done twice.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ostler_hooks::hook;
use ostler_story::Exit;
use rustix::io::Errno;

use super::feed::{Feed, Peek};
use super::hosted::{HostedState, Message};
use super::ledger::Ledger;
use super::load::Load;
use super::output::{Flow, Output};
use super::poller::{Poller, Source, Token};
use super::stdin::Spool;
use super::{Core, PumpIo, StdinError};
use crate::raw::{HeldBack, HeldReason, Kind};
use crate::{sync, sys};

/// How long a disk that said no is left alone.
const RETRY: Duration = Duration::from_millis(200);

/// The disk said no. What could not be done is tried again, until then nothing is taken from the child.
struct Trouble {
    held: HeldBack,
    retry_at: Instant,
}

struct Ending {
    status: Exit,
    /// Not later than this, open pipes or not.
    by: Instant,
}

pub(crate) struct Lane {
    pub(crate) shared: Arc<HostedState>,
    core: Arc<Core>,
    outputs: [Option<Output>; 2],
    spool: Spool,
    exit: Option<Ending>,
    exit_done: bool,
    released: bool,
    trouble: Option<Trouble>,
    /// Where it is no files are made: its thread must not wait for them.
    quiet: bool,
    /// It has something to say or to hear.
    wants_files: bool,
    /// Free space is scarce: since when this one is held back for it.
    floor: Option<u64>,
    pub(crate) load: Load,
    /// The deadline the thread has noted for it.
    pub(crate) timer: Option<Instant>,
}

impl Lane {
    pub(crate) fn new(shared: Arc<HostedState>, core: Arc<Core>, mut io: PumpIo, resumed: bool, quiet: bool) -> Self {
        let id = shared.id;
        let journal = &shared.journal;
        let terminal = io.pty.as_ref().and_then(|pty| pty.master.try_clone().ok());
        let sink = (io.stdin.take(), terminal);
        let ledger = Ledger::of(io.ledger.take(), io.hold.take(), &shared);
        let spool = Spool::new(sink, ledger, Token::Lane(id, Source::Stdin), core.config.spool_cap, journal);
        let [stdout, stderr] = Feed::of(&mut io, resumed);
        let exit_done = journal.bounds().exit.is_some();
        let load = Load::new(core.config.heavy_rate, Instant::now());
        Self {
            outputs: [
                stdout.map(|feed| Output::new(feed, Kind::Stdout, id)),
                stderr.map(|feed| Output::new(feed, Kind::Stderr, id)),
            ],
            spool,
            shared,
            core,
            exit: None,
            exit_done,
            released: false,
            trouble: None,
            quiet,
            wants_files: false,
            floor: None,
            load,
            timer: None,
        }
    }

    /// It came to this thread: everything that may be ready is looked at once.
    pub(crate) fn arrive(&mut self, poller: &Poller, now: Instant) {
        self.take_mail(now);
        // What fails is said with the end: until then the keeper knows it.
        let _ = self.shared.journal.describe();
        if self.shared.journal.is_made() {
            self.retry(poller, now);
        } else {
            // Nothing was ever taken from it; what there is now, the poller tells.
            let outcome = self.stdin(poller);
            self.settle(outcome, poller, now);
        }
    }

    /// It is quiet no more, and goes to a thread that may wait for its files.
    pub(crate) fn wants_files(&self) -> bool {
        self.quiet && (self.wants_files || self.shared.journal.is_made())
    }

    /// Whether anybody may still write to its pipes.
    pub(crate) fn is_open(&self) -> bool {
        self.outputs.iter().any(Option::is_some)
    }

    /// It has said nothing, nobody can write to its pipes any more, and how it ended is not known yet.
    pub(crate) fn awaits_end(&self) -> bool {
        self.quiet && !self.is_open() && self.exit.is_none()
    }

    /// It goes to another thread: nothing of it stays behind.
    pub(crate) fn depart(&mut self, poller: &Poller) {
        self.quiet = false;
        for output in self.outputs.iter_mut().flatten() {
            let _ = output.poll(poller, false);
        }
        self.spool.unpoll(poller);
    }

    /// Nothing is left to do for it.
    pub(crate) fn is_over(&self) -> bool {
        self.released || (self.exit_done && !self.is_open())
    }

    /// It is over, or the thread stops: gathered bytes become visible, whoever waits is told.
    pub(crate) fn end(&mut self, poller: &Poller) {
        let over = self.is_over();
        self.depart(poller);
        for slot in 0..self.outputs.len() {
            // What fails here is done by recovery.
            let _ = self.index(slot);
        }
        self.outputs = [None, None];
        self.spool.refuse_all(&StdinError::NotRunning);
        self.shared.close_mail();
        if !over {
            return;
        }
        // Nobody will ever read what is left. (When the thread stops, the next daemon delivers it.)
        self.shared.consumed.store(u64::MAX, Ordering::Relaxed);
        if self.shared.journal.bounds().applied > 0 {
            self.core.sync_of(&self.shared).mark(&self.shared, sync::IN);
        }
        if !self.released {
            hook!("exit.drained");
            self.shared.drained();
        }
    }

    /// A descriptor is ready.
    pub(crate) fn ready(&mut self, source: Source, poller: &Poller, now: Instant) {
        let outcome = match source {
            Source::Stdin => self.stdin(poller),
            // Stale: it was taken out of the set after the kernel had reported it.
            _ if self.is_held() => return,
            Source::Stdout => self.pump(0, poller, now),
            Source::Stderr => self.pump(1, poller, now),
        };
        self.settle(outcome, poller, now);
    }

    /// Messages are there.
    pub(crate) fn mail(&mut self, poller: &Poller, now: Instant) {
        let was_held = self.floor.is_some();
        self.take_mail(now);
        if was_held && self.floor.is_none() {
            self.retry(poller, now);
        } else {
            let outcome = self.stdin(poller);
            self.settle(outcome, poller, now);
        }
    }

    fn take_mail(&mut self, now: Instant) {
        for message in self.shared.take_mail() {
            match message {
                Message::Stdin(request) => self.spool.push(request),
                Message::OnClose(callback) => self.spool.on_close(callback),
                Message::Exited(status) => {
                    let own = self.shared.journal.options.exit_grace;
                    let by = now + own.unwrap_or(self.core.config.exit_grace);
                    self.exit.get_or_insert(Ending { status, by });
                }
                Message::Held(held) => self.spool.held(held, now),
                Message::Floor(held) => self.floor = held.then(sys::now_ns),
                Message::Duplicate(done) => done(self.duplicate()),
                Message::Release => self.released = true,
            }
        }
    }

    fn duplicate(&self) -> io::Result<PumpIo> {
        let (stdin, ledger) = self.spool.duplicate()?;
        let mut io = PumpIo { stdin, ledger, ..PumpIo::default() };
        for output in self.outputs.iter().flatten() {
            output.feed.duplicate(output.kind, &mut io)?;
        }
        Ok(io)
    }

    /// A deadline has passed.
    pub(crate) fn tick(&mut self, poller: &Poller, now: Instant) {
        if self.trouble.is_some() {
            self.retry(poller, now);
            return;
        }
        let outcome = self.gather(poller, now).and_then(|()| self.stdin(poller));
        self.settle(outcome, poller, now);
    }

    /// Indexes gathered bytes that are due, with whatever arrived meanwhile.
    fn gather(&mut self, poller: &Poller, now: Instant) -> io::Result<()> {
        for slot in 0..self.outputs.len() {
            let due = self.outputs.get(slot).and_then(Option::as_ref).and_then(Output::due);
            if due.is_some_and(|due| due <= now) {
                self.pump(slot, poller, now)?;
                self.index(slot)?;
            }
        }
        Ok(())
    }

    /// Tries everything, records first: one that could not be written comes before anything more is taken.
    fn retry(&mut self, poller: &Poller, now: Instant) {
        let outcome = self.everything(poller, now);
        if outcome.is_ok() {
            self.trouble = None;
        }
        self.settle(outcome, poller, now);
    }

    fn everything(&mut self, poller: &Poller, now: Instant) -> io::Result<()> {
        for slot in 0..self.outputs.len() {
            self.index(slot)?;
        }
        for slot in 0..self.outputs.len() {
            if self.floor.is_none() {
                self.pump(slot, poller, now)?;
            }
        }
        self.stdin(poller)
    }

    fn pump(&mut self, slot: usize, poller: &Poller, now: Instant) -> io::Result<()> {
        let Some(entry) = self.outputs.get_mut(slot) else { return Ok(()) };
        let Some(output) = entry else { return Ok(()) };
        let journal = &self.shared.journal;
        if !journal.is_made() {
            match output.feed.peek()? {
                Peek::Nothing => return Ok(()),
                Peek::Bytes if self.quiet => {
                    self.wants_files = true;
                    return Ok(());
                }
                Peek::Bytes => {}
                Peek::End => {
                    output.poll(poller, false)?;
                    *entry = None;
                    return Ok(());
                }
            }
        }
        let files = journal.files()?;
        let mut moved = 0;
        let flow = output.pump(journal, &mut journal.writer(), &files, now, &mut moved);
        if moved > 0 {
            self.load.add(moved);
            let raw = if output.kind == Kind::Stderr { sync::ERR } else { sync::OUT };
            self.core.sync_of(&self.shared).mark(&self.shared, raw | sync::IDX);
        }
        if flow? == Flow::Ended {
            output.poll(poller, false)?;
            *entry = None;
        }
        Ok(())
    }

    /// Indexes everything gathered of one output.
    fn index(&mut self, slot: usize) -> io::Result<()> {
        let Some(Some(output)) = self.outputs.get_mut(slot) else { return Ok(()) };
        let journal = &self.shared.journal;
        if !journal.is_made() {
            return Ok(());
        }
        let files = journal.files()?;
        output.index_all(journal, &mut journal.writer(), &files)?;
        self.core.sync_of(&self.shared).mark(&self.shared, sync::IDX);
        Ok(())
    }

    /// Accepts, delivers, and accepts again what then has room.
    fn stdin(&mut self, poller: &Poller) -> io::Result<()> {
        let journal = &self.shared.journal;
        if !journal.is_made() && !self.spool.has_waiting() {
            return Ok(());
        }
        if self.quiet {
            self.wants_files = true;
            return Ok(());
        }
        let files = journal.files()?;
        let capped = self.exit.is_none();
        let mut outcome = self.spool.serve(journal, &files, capped);
        let mut delivered = self.spool.deliver(journal, poller);
        if outcome.is_ok() && delivered.is_ok() && self.spool.has_waiting() {
            outcome = self.spool.serve(journal, &files, capped);
            delivered = self.spool.deliver(journal, poller);
        }
        if self.spool.take_touched() {
            self.core.sync_of(&self.shared).mark(&self.shared, sync::IN);
        }
        let consumed = self.spool.consumed();
        self.shared.consumed.store(consumed, Ordering::Relaxed);
        if consumed >= self.shared.punched.load(Ordering::Relaxed).saturating_add(sys::PAGE) {
            self.core.sync_of(&self.shared).mark(&self.shared, sync::READ);
        }
        outcome.and(delivered)
    }

    /// Draws the consequences of an attempt: trouble, the exit, what to wait for.
    fn settle(&mut self, outcome: io::Result<()>, poller: &Poller, now: Instant) {
        let outcome = outcome.and_then(|()| self.try_exit(now)).and_then(|()| self.poll(poller));
        if let Err(error) = outcome {
            let held = match &self.trouble {
                Some(before) => before.held,
                None => held_back(&error),
            };
            self.trouble = Some(Trouble { held, retry_at: now + RETRY });
            let _ = self.poll(poller);
        }
        self.publish();
    }

    fn is_held(&self) -> bool {
        self.trouble.is_some() || self.floor.is_some()
    }

    fn poll(&mut self, poller: &Poller) -> io::Result<()> {
        let wanted = !self.is_held();
        self.outputs.iter_mut().flatten().try_for_each(|output| output.poll(poller, wanted))
    }

    fn publish(&self) {
        let floor = self.floor.map(|since_ns| HeldBack { reason: HeldReason::Floor, errno: 0, since_ns });
        let held = self.trouble.as_ref().map(|trouble| trouble.held).or(floor);
        if self.shared.journal.bounds().held_back != held {
            self.shared.journal.update(|bounds| bounds.held_back = held);
        }
    }

    /// Journals the exit when it is known and both pipes have ended, or have had their time.
    fn try_exit(&mut self, now: Instant) -> io::Result<()> {
        let Some(exit) = &self.exit else { return Ok(()) };
        if self.exit_done || self.trouble.is_some() || (self.is_open() && now < exit.by) {
            return Ok(());
        }
        let journal = &self.shared.journal;
        journal.end(exit.status)?;
        if journal.is_made() {
            self.core.sync_of(&self.shared).mark(&self.shared, sync::IDX);
        }
        self.exit_done = true;
        self.spool.refuse_all(&StdinError::NotRunning);
        Ok(())
    }

    /// When it wants to be looked at again, events or not.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if let Some(trouble) = &self.trouble {
            return Some(trouble.retry_at);
        }
        let gathered = self.outputs.iter().flatten().filter_map(Output::due);
        let exit = self.exit.as_ref().filter(|_| !self.exit_done).map(|exit| exit.by);
        // At once, after the others had their turn.
        let stdin = self.spool.due(self.load.since());
        gathered.chain(exit).chain(stdin).chain(self.load.deadline()).min()
    }
}

fn held_back(error: &io::Error) -> HeldBack {
    let errno = error.raw_os_error().unwrap_or(0);
    HeldBack {
        reason: match Errno::from_raw_os_error(errno) {
            Errno::NOSPC => HeldReason::Full,
            Errno::DQUOT => HeldReason::Quota,
            _ => HeldReason::Disk,
        },
        errno,
        since_ns: sys::now_ns(),
    }
}
