//! The thread that drives a session while there is something to do: one for each agent that lives, and it alone talks to the
//! agent. It may wait for the disk, never for a client.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ostler_hooks::hook;
use ostler_story::{EndReason, ErrorKind, Event, Exit, Fact, Intent, Lifetime, Said};

use super::desk::Pen;
use super::running::{Heard, News, Running, Stage};
use super::sessions::SessionsInner;
use super::state::REBOOTED;
use super::{Session, rebuild};
use crate::{MayWait, Scope};

/// A look at least this often: nobody rings for a disk that has room again, or an engine that is gone.
const TICK: Duration = Duration::from_secs(1);
/// How long an agent may take to stop its turn when it is asked.
const ASKED_FOR: Duration = Duration::from_secs(10);
/// How long it may take to leave by itself.
const CLOSING_FOR: Duration = Duration::from_secs(10);
/// How long between TERM and KILL: what the documents of the doors say.
const TERMED_FOR: Duration = Duration::from_secs(5);
const TERM: i32 = 15;
const KILL: i32 = 9;

/// What the session wants of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// To go on.
    Nothing,
    /// The turn to stop.
    StopTurn,
    /// To leave when it likes, soon.
    Leave,
    /// To be gone.
    End,
}

pub(super) struct Driver<'a> {
    pub(super) wait: &'a MayWait,
    pub(super) session: Session,
    pub(super) running: Option<Running>,
    /// Nothing was looked up in the inbox yet.
    pub(super) fresh: bool,
    /// Since when nothing was asked of the agent.
    idle: Instant,
}

impl Session {
    /// Has a thread drive it, if none does.
    pub(super) fn drive(&self, wait: &MayWait) {
        let mut desk = self.pen(wait);
        if desk.driven {
            drop(desk);
            self.inner.bell.ring();
            return;
        }
        let session = self.clone();
        let drive = move |wait: &MayWait| {
            Driver { wait, session, running: None, fresh: true, idle: Instant::now() }.run();
        };
        match MayWait::thread("session", drive) {
            Ok(_) => desk.change(|desk| desk.driven = true),
            // What was accepted waits in the journal until the next prompt or start.
            Err(error) => tracing::error!("{}: not driven: {error}", self.inner.id),
        }
    }
}

impl Driver<'_> {
    fn run(mut self) {
        loop {
            let Some(shared) = self.session.inner.shared.upgrade() else { return };
            let deadline = match self.step(&shared) {
                Ok(deadline) => deadline,
                Err(error) => {
                    // A full disk: everything is where it was, and goes on when there is room.
                    tracing::error!("{}: {error}", self.session.inner.id);
                    None
                }
            };
            if self.leave(&shared) {
                return;
            }
            drop(shared);
            self.session.inner.bell.wait(deadline, TICK);
        }
    }

    /// Ends the thread if nothing is left to do.
    fn leave(&mut self, shared: &SessionsInner) -> bool {
        let mut desk = self.session.pen(self.wait);
        let held = desk.state.held || desk.waits;
        let more = desk.state.is_busy() && !held && !desk.state.closed && !shared.is_halting();
        if self.running.is_some() || desk.state.living.is_some() || more {
            return false;
        }
        // Before anybody sees that it rests, and may delete it.
        self.session.remember(&desk);
        desk.change(|desk| (desk.driven, desk.end) = (false, false));
        drop(desk);
        self.session.inner.folder.rest();
        self.session.inner.rests.notify_waiters();
        true
    }

    /// Everything that can be done now; when to look again.
    fn step(&mut self, shared: &Arc<SessionsInner>) -> io::Result<Option<Instant>> {
        if self.running.is_none() && self.session.look().state.living.is_some() {
            self.running = rebuild::take_up(self.wait, &self.session, shared)?;
        }
        self.listen(shared)?;
        self.settle_asks(shared)?;
        self.turn(shared)?;
        let wish = self.wish(shared);
        self.climb(wish);
        let idle_at = self.idle + shared.config().idle_stop;
        let start_by = self.running.as_ref().map(|running| running.started + shared.config().start_timeout);
        let due = self.running.as_ref().and_then(|running| running.stage.deadline());
        // Deadlines that are over have had their step; the tick looks again.
        Ok([Some(idle_at), start_by, due].into_iter().flatten().filter(|at| *at > Instant::now()).min())
    }

    /// Takes in everything that the agent has said.
    fn listen(&mut self, shared: &Arc<SessionsInner>) -> io::Result<()> {
        loop {
            self.keep(shared)?;
            let Some(running) = &mut self.running else { return Ok(()) };
            match running.listen(self.wait)? {
                News::Lines => {}
                News::Nothing => return rebuild::settle(self.wait, &self.session, running),
                News::Over(exit) => return self.over(exit, shared),
            }
        }
    }

    /// Puts what was understood into the journal, then does what follows from it.
    fn keep(&mut self, shared: &Arc<SessionsInner>) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        while let Some(heard) = running.heard.front() {
            let source = running.source;
            match heard {
                Heard::Line { end, lined } => {
                    derive(self.wait, &self.session, shared, (source, *end), &lined.events)?;
                    hook!("session.derived");
                }
                Heard::Stderr(to) => tell_stderr(self.wait, &self.session, source, *to)?,
            }
            if let Some(Heard::Line { lined, .. }) = running.heard.pop_front() {
                running.write(&self.session, lined.reply);
            }
        }
        Ok(())
    }

    /// The process is over, and so is everything that it had to say.
    fn over(&mut self, exit: Exit, shared: &Arc<SessionsInner>) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        // It may have been a launcher: the agent that it started must not speak into the next one's turn.
        running.process.end_tree();
        let (source, stderr, unasked) = (running.source, running.last_words(), running.stage == Stage::Live);
        let mut last = running.adapter.ended();
        let how = ending(exit, &stderr);
        let name = self.session.look().state.created.agent.name().to_owned();
        if self.session.look().state.held {
            last.iter_mut().for_each(rebooted);
        } else if unasked && exit != Exit::Unknown {
            let spoke = running.spoke;
            last.iter_mut().for_each(|event| explain(event, &name, spoke, &how));
        }
        derive(self.wait, &self.session, shared, (source, u64::MAX), &last)?;
        let mut desk = self.session.pen(self.wait);
        let served = desk.state.living.as_ref().is_some_and(|living| living.prompted.is_some());
        self.session.tell(&mut desk, Fact::Exited { source, exit, stderr })?;
        desk.change(|desk| {
            desk.process = None;
            desk.end = desk.end && desk.state.closed;
        });
        // It never took the prompt, and nobody had it leave: there is no turn of the agent's that could have ended. One that
        // nobody saw end may never have begun, because a daemon died while it was started, and one that took others before was
        // ended between two of them: the next process takes the prompt.
        let unsent = desk.state.turn.as_ref().is_some_and(|turn| turn.sent.is_none() && !turn.ended);
        if unsent && unasked && !served && exit != Exit::Unknown && !desk.state.closed {
            fail(&self.session, &mut desk, format!("{name} ended before it accepted the prompt{how}"))?;
        }
        drop(desk);
        self.running = None;
        self.idle = Instant::now();
        Ok(())
    }

    /// Begins the next turn, and gets its prompt to the agent.
    fn turn(&mut self, shared: &Arc<SessionsInner>) -> io::Result<()> {
        let session = self.session.clone();
        let mut desk = session.pen(self.wait);
        if desk.state.turn.is_none()
            && !desk.state.held
            && !desk.waits
            && !desk.state.closed
            && !shared.is_halting()
            && let Some(next) = desk.state.queue.front().map(|queued| queued.number)
        {
            session.tell(&mut desk, Fact::Turn { number: next })?;
        }
        let Some(turn) = desk.state.turn.as_ref() else { return Ok(()) };
        self.idle = Instant::now();
        if turn.sent.is_some() || turn.ended {
            return Ok(());
        }
        if turn.interrupt.is_some() || desk.state.closed {
            let event = Event::TurnEnded { reason: EndReason::Interrupted, message: None };
            session.tell(&mut desk, Fact::Said { event })?;
            return Ok(());
        }
        if desk.state.held {
            return Ok(());
        }
        let (number, blocks) = (turn.prompt.number, turn.prompt.blocks.clone());
        let Some(running) = &mut self.running else {
            let joiner = desk.state.created.joiner.as_deref();
            if shared.is_halting() || desk.waits || joiner.is_some_and(|name| shared.registry.joiners.may_come(name)) {
                return Ok(());
            }
            drop(desk);
            return self.start(shared);
        };
        let living = desk.state.living.as_ref();
        let gone_soon = living.is_some_and(|living| living.stale || living.broken);
        // It can not be lived with, and another process would say the same, unless this one was only told to go on with a
        // conversation that is gone, or with settings that are no longer wanted.
        let forgot = desk.state.settings.agent_session.is_none();
        let hopeless =
            living.is_some_and(|living| living.broken && !living.stale && !(living.resume.is_some() && forgot));
        if hopeless && running.stage == Stage::Live {
            let message = desk.state.outcome.as_ref().and_then(|(_, why)| why.clone());
            let event = Event::TurnEnded { reason: EndReason::Failed, message };
            session.tell(&mut desk, Fact::Said { event })?;
            return Ok(());
        }
        if gone_soon || running.stage != Stage::Live || running.held.is_some() {
            return Ok(());
        }
        if running.process.has_left() {
            // Its end is told soon. Whoever still listens at its pipes, the agent behind a launcher, goes with it.
            return Ok(());
        }
        if !running.adapter.can_prompt() {
            if running.started.elapsed() >= shared.config().start_timeout {
                let seconds = shared.config().start_timeout.as_secs();
                let name = desk.state.created.agent.name().to_owned();
                let words = Some(running.last_words()).filter(|words| !words.is_empty());
                let words = words.map_or(String::new(), |words| format!(": {words}"));
                fail(&session, &mut desk, format!("{name} did not accept a prompt within {seconds} s{words}"))?;
                desk.change(|desk| desk.end = true);
            }
            return Ok(());
        }
        match running.adapter.prompt(&blocks) {
            Ok(bytes) => {
                let intent = Intent { at: running.ledger, len: bytes.len() as u64 };
                let ticks = Some(ostler_keeper::procfs::now_ticks());
                session.tell(&mut desk, Fact::Sent { number, source: running.source, ticks, intent })?;
                drop(desk);
                hook!("session.sent");
                running.write(&session, bytes);
                if running.closes {
                    running.close_stdin();
                }
            }
            Err(error) => fail(&session, &mut desk, error.to_string())?,
        }
        Ok(())
    }

    /// What the session wants of its process at this moment.
    fn wish(&self, shared: &Arc<SessionsInner>) -> Wish {
        let Some(running) = &self.running else { return Wish::Nothing };
        let desk = self.session.look();
        let state = &desk.state;
        if desk.end || state.closed || running.is_deaf() {
            return Wish::End;
        }
        let waits = state.turn.as_ref().is_some_and(|turn| turn.sent.is_none() && !turn.ended);
        let living = state.living.as_ref();
        match &state.turn {
            Some(turn) if !turn.ended && turn.interrupt == Some(true) => return Wish::End,
            Some(turn) if !turn.ended && turn.interrupt == Some(false) => return Wish::StopTurn,
            Some(turn) if turn.ended && state.lifetime() == Lifetime::Turn => return Wish::Leave,
            _ => {}
        }
        if living.is_some_and(|living| living.broken || (living.stale && waits)) {
            return Wish::Leave;
        }
        let idle = state.turn.is_none() && (state.screen.is_some() || self.idle.elapsed() >= shared.config().idle_stop);
        if idle { Wish::Leave } else { Wish::Nothing }
    }

    /// One step of the ladder that leads to what is wished.
    fn climb(&mut self, wish: Wish) {
        let prompted = self.session.look().state.living.as_ref().and_then(|living| living.prompted);
        let Some(running) = &mut self.running else { return };
        let now = Instant::now();
        if matches!((running.stage, wish), (Stage::Asked(_), Wish::Nothing | Wish::Leave))
            && let Some(ticks) = prompted.filter(|_| running.adapter.leaves_tools())
        {
            // Its turn was stopped, and it says so. What it runs for that turn does not know.
            running.process.end_since(ticks);
        }
        let late = running.stage.deadline().is_some_and(|at| at <= now);
        running.stage = match (running.stage, wish) {
            // The turn is over: it stays.
            (Stage::Asked(_), Wish::Nothing) => Stage::Live,
            (Stage::Live, Wish::Nothing) => Stage::Live,
            (Stage::Live, Wish::StopTurn) => match running.adapter.interrupt() {
                Some(bytes) => {
                    running.write(&self.session, bytes);
                    Stage::Asked(now + ASKED_FOR)
                }
                None => running.term(now),
            },
            (Stage::Live | Stage::Asked(_), Wish::Leave) => {
                running.close_stdin();
                Stage::Closing(now + CLOSING_FOR)
            }
            (Stage::Live | Stage::Asked(_) | Stage::Closing(_), Wish::End) => running.term(now),
            (Stage::Asked(_) | Stage::Closing(_), _) if late => running.term(now),
            (Stage::Termed(_) | Stage::Killed(_), _) if late => {
                running.process.signal(KILL, Scope::Tree);
                Stage::Killed(now + TERMED_FOR)
            }
            (stage, _) => stage,
        };
    }
}

impl Running {
    fn term(&self, now: Instant) -> Stage {
        self.process.signal(TERM, Scope::Group);
        Stage::Termed(now + TERMED_FOR)
    }

    /// After everything that was handed over.
    pub(super) fn close_stdin(&self) {
        self.process.end_feed_then(|_| {});
    }
}

/// How a process ended, and what it had to say about it.
fn ending(exit: Exit, stderr: &str) -> String {
    let how = match exit {
        Exit::Code(code) => format!(" (exit code {code})"),
        Exit::Signal(signal) => format!(" (signal {signal})"),
        Exit::Unknown => String::new(),
    };
    if stderr.is_empty() { how } else { format!("{how}: {stderr}") }
}

/// A turn that ends because the process did says so. One that never said a word has failed at its start.
fn explain(event: &mut Event, name: &str, spoke: bool, how: &str) {
    if let Event::TurnEnded { reason: reason @ EndReason::Interrupted, message: message @ None } = event {
        let when = if spoke { "in the middle of the turn" } else { "before it said anything" };
        *message = Some(format!("{name} ended {when}{how}"));
        *reason = if spoke { EndReason::Interrupted } else { EndReason::Failed };
    }
}

/// A turn that ended with the machine says so.
fn rebooted(event: &mut Event) {
    if let Event::TurnEnded { reason: EndReason::Interrupted, message: message @ None } = event {
        *message = Some(REBOOTED.to_owned());
    }
}

/// Ends the turn with an error of the engine's own.
pub(super) fn fail(session: &Session, desk: &mut Pen<'_>, message: String) -> io::Result<()> {
    let event = Event::Error { message, fatal: false, kind: ErrorKind::Agent };
    session.tell(desk, Fact::Said { event })?;
    let event = Event::TurnEnded { reason: EndReason::Failed, message: None };
    session.tell(desk, Fact::Said { event }).map(drop)
}

/// Journals the events of one raw line, unless they are there already, and tells the inbox what is no longer waited for.
fn derive(
    wait: &MayWait,
    session: &Session,
    shared: &Arc<SessionsInner>,
    (source, end): (u32, u64),
    events: &[Event],
) -> io::Result<()> {
    let journal = session.inner.folder.journal(wait)?;
    let mut desk = session.pen(wait);
    let events = &*desk.state.priced(events);
    let payload = ostler_story::payload(events);
    let Some(record) = journal.append(source, end, &payload)? else { return Ok(()) };
    if events.is_empty() {
        session.inner.last.store(record, Ordering::Release);
        session.noted(record, &[]);
        return Ok(());
    }
    let before = desk.state.asks.len();
    let asked: Vec<String> = match before {
        0 => Vec::new(),
        _ => desk.state.asks.iter().filter_map(|open| open.approval.clone()).collect(),
    };
    let said: Vec<Said> = events.iter().cloned().map(Said::Event).collect();
    session.take(&mut desk, record, (source, end), &said);
    let still: Vec<String> = desk.state.asks.iter().filter_map(|open| open.approval.clone()).collect();
    let ended = events.iter().any(|event| matches!(event, Event::TurnEnded { .. }));
    session.changed(&desk);
    if ended {
        session.inner.folder.note(&desk.state, record);
    }
    drop(desk);
    for approval in asked.iter().filter(|id| !still.contains(id)) {
        super::ask::withdraw(wait, shared.inbox(), approval, "the agent no longer waits for it");
    }
    Ok(())
}

/// Writes down that the agent wrote to stderr, unless that is known.
fn tell_stderr(wait: &MayWait, session: &Session, source: u32, to: u64) -> io::Result<()> {
    let mut desk = session.pen(wait);
    let known = desk.state.living.as_ref().filter(|living| living.source == source).map(|living| living.stderr);
    if let Some(from) = known.filter(|from| *from < to) {
        session.tell(&mut desk, Fact::Stderr { source, from, to })?;
    }
    Ok(())
}
