//! Reads terminal programs' journals for their claims: one thread for all of them, which sleeps while nothing is written.
//!
//! The question whether their terminal knows the status protocol is answered here, once, whoever is attached. The answer is
//! input that the journal knows to be nobody's: each question is known by its place in the output, so that a daemon that
//! dies in between neither forgets the answer nor gives it twice.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use ostler_hooks::hook;
use ostler_journal::{Cursor, Kind, Step, Subscription};

use super::super::{Inner, Process, Registry, WinSize};
use super::{Claim, Fold, Query};

/// How far back a daemon that takes over reads: far more than a program writes between two reports.
const TAIL: u64 = 1 << 20;
/// Frames that are read of one program before the others have their turn.
const TURN: usize = 64;
/// Questions that are answered in the life of a process: a program asks once, and a shell may start many.
const ANSWERS_MAX: u32 = 1024;
/// Between two answers at least. What follows sooner is likely the answer itself, echoed by a terminal that is not in raw mode.
const ANSWER_EVERY_MS: u64 = 500;

/// Who asked longer ago has given up, or is gone: what comes then is typed into something else.
const ANSWER_WITHIN_MS: u64 = 10_000;

/// A terminal program's place in this.
#[derive(Default)]
pub(in super::super) struct Following {
    /// It waits to be looked at.
    due: AtomicBool,
    reading: Mutex<Option<Reading>>,
    fold: Mutex<Fold>,
}

struct Reading {
    cursor: Cursor,
    subscription: Subscription,
    answered_ms: u64,
    /// The size of its terminal that is on the disk.
    noted: Option<WinSize>,
}

/// Who waits to be looked at; at most every terminal program once.
#[derive(Default)]
pub(in super::super) struct Claims {
    due: Mutex<VecDeque<Weak<Inner>>>,
    news: Condvar,
}

impl Claims {
    fn push(&self, inner: Weak<Inner>) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).push_back(inner);
        self.news.notify_one();
    }

    fn pop(&self) -> Weak<Inner> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match due.pop_front() {
                Some(inner) => return inner,
                None => due = self.news.wait(due).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The thread ends when the registry does: it is woken by nobody then.
    pub(in super::super) fn start(self: &Arc<Self>, registry: &Arc<Registry>) -> io::Result<()> {
        let (claims, registry) = (Arc::clone(self), Arc::downgrade(registry));
        let run = move || {
            loop {
                let next = claims.pop();
                if registry.strong_count() == 0 {
                    return;
                }
                if let Some(inner) = next.upgrade() {
                    Process { inner }.look(&claims);
                }
            }
        };
        std::thread::Builder::new().name("claims".into()).spawn(run).map(drop)
    }

    /// Ends the thread.
    pub(in super::super) fn stop(&self) {
        self.push(Weak::new());
    }
}

impl Process {
    /// What it claims to be doing; nothing once it has ended.
    pub fn claim(&self) -> Option<Claim> {
        if !self.about().tty || !self.is_running() {
            return None;
        }
        self.inner.following.fold.lock().unwrap_or_else(PoisonError::into_inner).claim(now_ms())
    }

    /// Begins to follow it, if it has a terminal and runs.
    pub(in super::super) fn follow(&self, claims: &Arc<Claims>) {
        if !self.about().tty || self.hosted().is_none() {
            return;
        }
        let (inner, to) = (Arc::downgrade(&self.inner), Arc::downgrade(claims));
        let wake = move || {
            if let (Some(inner), Some(claims)) = (inner.upgrade(), to.upgrade()) {
                Process { inner }.is_due(&claims);
            }
        };
        let subscription = self.subscribe(Arc::new(wake));
        let reading = Reading { cursor: self.cursor(0), subscription, answered_ms: 0, noted: None };
        *self.inner.following.reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
        // It may have spoken before.
        self.is_due(claims);
    }

    /// Something about it is new.
    fn is_due(&self, claims: &Claims) {
        if !self.inner.following.due.swap(true, Ordering::AcqRel) {
            claims.push(Arc::downgrade(&self.inner));
        }
    }

    /// Something about it is new that is not in its journal.
    pub(in super::super) fn wants_a_look(&self) {
        if let Some(registry) = self.inner.registry.upgrade() {
            self.is_due(&registry.claims);
        }
    }

    /// Reads what is new.
    fn look(&self, claims: &Claims) {
        let following = &self.inner.following;
        following.due.store(false, Ordering::Release);
        let mut reading = following.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = reading.as_mut() else { return };
        self.note_size(&mut at.noted);
        match self.read_on(at) {
            Ok(More::Later) => {}
            Ok(More::Now) => self.is_due(claims),
            Ok(More::Never) => *reading = None,
            Err(error) => tracing::debug!("{}: not followed any further: {error}", self.id()),
        }
    }

    fn read_on(&self, at: &mut Reading) -> io::Result<More> {
        at.subscription.arm();
        if at.cursor.position() == 0 {
            let first = self.inner.journal.tail_from(TAIL)?;
            at.cursor = self.cursor(first.saturating_sub(1));
        }
        let mut frame = Vec::new();
        for _ in 0..TURN {
            frame.clear();
            match at.cursor.next_blocking(&mut frame)? {
                Step::Frame(head) if head.kind == Kind::Stdout => {
                    let time_ms = head.time_ns / 1_000_000;
                    let fold = &self.inner.following.fold;
                    let asked = fold.lock().unwrap_or_else(PoisonError::into_inner).feed(head.from, &frame, time_ms);
                    for query in asked {
                        self.answer(query, time_ms, &mut at.answered_ms);
                    }
                }
                Step::Frame(head) if head.kind == Kind::Exit => return Ok(More::Never),
                Step::Frame(_) | Step::Gap { .. } => {}
                Step::UpToDate | Step::WouldBlock => return Ok(More::Later),
            }
        }
        Ok(More::Now)
    }

    /// Answers a question, unless it was answered before.
    fn answer(&self, query: Query, time_ms: u64, answered_ms: &mut u64) {
        let answers = self.inner.journal.answers();
        let soon = time_ms.saturating_sub(*answered_ms) < ANSWER_EVERY_MS;
        let late = now_ms().saturating_sub(time_ms) > ANSWER_WITHIN_MS;
        // The last one again: its answer may be cut short, and is whole then.
        if query.after < answers.upto || soon || late || answers.count >= ANSWERS_MAX {
            return;
        }
        *answered_ms = time_ms;
        let Some(hosted) = self.hosted() else { return };
        hook!("claim.asked");
        let id = self.id().to_owned();
        hosted.answer_terminal(
            query.after,
            query.answer().to_vec(),
            Box::new(move |outcome| {
                if let Err(error) = outcome {
                    tracing::debug!("{id}: its question was not answered: {error}");
                }
            }),
        );
    }
}

enum More {
    Now,
    Later,
    Never,
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
