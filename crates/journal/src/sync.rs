//! Group sync and housekeeping, on one thread: what is dirty goes to the disk, data before index, one pass at a time;
//! delivered input is punched out; journals with a limit are cut; the largest writer is held back when space is scarce.
//!
//! The age of the oldest unsynced byte is what is promised about power loss, so it can be asked at any time.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::derived::EventJournal;
use crate::floor::Floor;
use crate::pump::Shared;
use crate::raw::mark::Mark;
use crate::raw::{Fact, Files};
use crate::{lock, sys};

pub(crate) const OUT: u8 = 1;
pub(crate) const ERR: u8 = 2;
pub(crate) const IDX: u8 = 4;
pub(crate) const IN: u8 = 8;
/// Nothing to sync, but input to punch out.
pub(crate) const READ: u8 = 16;

/// How often there is housekeeping when nothing is to be synced.
const HOUSEKEEPING: Duration = Duration::from_millis(200);

#[derive(Default)]
struct State {
    dirty: Vec<(Instant, Arc<Shared>)>,
    /// Event journals, likewise; each is here at most once.
    events: Vec<(Instant, Arc<EventJournal>)>,
    /// Since when something in the pass under way was dirty.
    in_flight: Option<Instant>,
    /// Passes begun and done; `sync_now` waits for one that began after it was called.
    begun: u64,
    done: u64,
    hurry: bool,
    stop: bool,
}

impl State {
    fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.events.is_empty()
    }

    /// Since when something is dirty.
    fn oldest(&self) -> Option<Instant> {
        let (raw, events) = (self.dirty.first().map(|(since, _)| *since), self.events.first().map(|(since, _)| *since));
        raw.into_iter().chain(events).min()
    }
}

/// What one pass has to do.
struct Pass {
    journals: Vec<Arc<Shared>>,
    events: Vec<Arc<EventJournal>>,
}

/// What is dirty.
#[derive(Default)]
pub(crate) struct Sync {
    state: Mutex<State>,
    changed: Condvar,
}

impl Sync {
    /// Notes that files of a journal have bytes which are not on the disk. Costs an atomic load while it is noted.
    pub(crate) fn mark(&self, shared: &Arc<Shared>, files: u8) {
        let dirty = &shared.journal.dirty;
        if dirty.load(Ordering::Relaxed) & files == files {
            return;
        }
        if dirty.fetch_or(files, Ordering::AcqRel) == 0 {
            let mut state = lock(&self.state);
            let first = state.is_clean();
            state.dirty.push((Instant::now(), Arc::clone(shared)));
            drop(state);
            if first {
                self.changed.notify_all();
            }
        }
    }

    /// Notes that an event journal has records which are not on the disk; it does so once until a pass takes it.
    pub(crate) fn mark_events(&self, journal: &Arc<EventJournal>) {
        let mut state = lock(&self.state);
        let first = state.is_clean();
        state.events.push((Instant::now(), Arc::clone(journal)));
        drop(state);
        if first {
            self.changed.notify_all();
        }
    }

    pub(crate) fn oldest(&self) -> Duration {
        let state = lock(&self.state);
        let oldest = state.oldest().into_iter().chain(state.in_flight).min();
        oldest.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Sync {
    /// Asks for a pass now and waits until it is done.
    pub(crate) fn sync_now(&self) {
        let mut state = lock(&self.state);
        let wanted = state.begun + 1;
        state.hurry = true;
        self.changed.notify_all();
        while state.done < wanted && !state.stop {
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).stop = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to do and it is time for it; `None` = stop. `watching`: come back in any case.
    fn next(&self, every: Duration, watching: bool) -> Option<Pass> {
        let mut state = lock(&self.state);
        let mut since = None;
        loop {
            let due = since.is_some_and(|since: Instant| since.elapsed() >= every);
            if state.hurry || state.stop || due {
                break;
            }
            if since.is_none() && (watching || !state.is_clean()) {
                since = Some(Instant::now());
            }
            let left = since.map(|since| every.saturating_sub(since.elapsed()));
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
        }
        if state.stop && state.is_clean() {
            state.done = u64::MAX;
            self.changed.notify_all();
            return None;
        }
        state.hurry = false;
        state.begun += 1;
        state.in_flight = state.oldest();
        let journals = std::mem::take(&mut state.dirty).into_iter().map(|(_, shared)| shared).collect();
        let events = std::mem::take(&mut state.events).into_iter().map(|(_, journal)| journal).collect();
        Some(Pass { journals, events })
    }

    fn finished(&self) {
        let mut state = lock(&self.state);
        state.in_flight = None;
        state.done = state.begun;
        self.changed.notify_all();
    }
}

/// The sync thread. Ends after [`Sync::stop`], with nothing left dirty.
pub(crate) fn run(sync: &Sync, every: Duration, mut floor: Floor) {
    let pause = if every.is_zero() { HOUSEKEEPING } else { every };
    while let Some(pass) = sync.next(pause, floor.is_watching()) {
        // Looked at before, put on the disk after the raw journals: what was derived follows what it was derived from.
        let events: Vec<_> = pass.events.iter().map(|journal| (journal, journal.begin_sync())).collect();
        for shared in &pass.journals {
            let files = shared.journal.dirty.swap(0, Ordering::AcqRel);
            if every.is_zero() {
                shared.journal.remove_mark();
            } else {
                sync_one(sync, shared, files);
            }
            // Space that cannot be given back now is given back at the next chance.
            let _ = shared.journal.cut_to_limit();
            let _ = punch_input(shared);
        }
        for (journal, visible) in events {
            if every.is_zero() { journal.forgo_sync() } else { journal.finish_sync(visible) }
        }
        floor.check(&pass.journals);
        sync.finished();
    }
}

/// Data before index. A failure is final for what was dirty: the kernel has dropped it or will, and a second try that
/// succeeds proves nothing.
fn sync_one(sync: &Sync, shared: &Arc<Shared>, dirty: u8) {
    let journal = &shared.journal;
    if journal.dir().is_none() {
        return;
    }
    let seq = journal.bounds().last_seq;
    let Ok(files) = journal.files() else {
        // Nothing was tried, so nothing is lost: too many open files, or deleted meanwhile.
        sync.mark(shared, dirty);
        return;
    };
    let before = journal.marked();
    // The first time everything, whoever wrote it: from then on the mark knows.
    let dirty = if before.is_none() && dirty & (OUT | ERR | IDX) != 0 { dirty | OUT | ERR | IDX } else { dirty };
    let lengths = lengths(&files);
    if sync_files(&files, dirty).is_ok() {
        if let Ok(lengths) = lengths
            && dirty & (OUT | ERR) != 0
        {
            let before = before.unwrap_or(lengths);
            let out = if dirty & OUT != 0 { lengths.out } else { before.out };
            let err = if dirty & ERR != 0 { lengths.err } else { before.err };
            journal.set_mark(Mark { out, err });
        }
        journal.synced_seq.store(seq, Ordering::Relaxed);
        // Names and facts; what could not be done now is done with the next bytes.
        let _ = journal.settle();
        return;
    }
    let from = journal.synced_seq.load(Ordering::Relaxed) + 1;
    // The record may fail too; readers of this daemon know either way.
    let _ = journal.record(Fact::Damaged(from));
    journal.damaged(from);
}

/// How long the raw files are; a sync that begins after this covers it.
fn lengths(files: &Files) -> io::Result<Mark> {
    Ok(Mark { out: files.out.metadata()?.len(), err: files.err.metadata()?.len() })
}

fn sync_files(files: &Files, dirty: u8) -> io::Result<()> {
    if let Some(errno) = ostler_hooks::fault!("sync.data") {
        return Err(io::Error::from_raw_os_error(errno));
    }
    for (bit, file) in [(OUT, &files.out), (ERR, &files.err), (IN, &files.input), (IDX, &files.idx)] {
        if dirty & bit != 0 {
            file.sync_data()?;
        }
    }
    Ok(())
}

/// Takes input that the child has read out of the ledger: it holds what was typed, passwords too.
fn punch_input(shared: &Shared) -> io::Result<()> {
    let applied = shared.journal.bounds().applied;
    let consumed = shared.consumed.load(Ordering::Relaxed);
    let upto = if consumed == u64::MAX {
        // Nobody will read any of it: the last page goes too.
        applied.next_multiple_of(sys::PAGE)
    } else {
        consumed.min(applied) / sys::PAGE * sys::PAGE
    };
    let from = shared.punched.load(Ordering::Relaxed);
    if upto > from {
        sys::punch(&shared.journal.files()?.input, from, upto)?;
        shared.punched.store(upto, Ordering::Relaxed);
    }
    Ok(())
}
