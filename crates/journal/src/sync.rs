//! Group sync and housekeeping, on one thread: what is dirty goes to the disk, data before index, one pass at a time;
//! delivered input is punched out; journals with a limit are cut; the largest writer is held back when space is scarce.
//!
//! The age of the oldest unsynced byte is what is promised about power loss, so it can be asked at any time.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::derived::EventJournal;
use crate::floor::Floor;
use crate::pump::HostedState;
use crate::raw::mark::Mark;
use crate::raw::{self, Fact, SyncError};
use crate::roll::Roll;
use crate::{Journal, lock, sys};

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
    dirty: Vec<(Instant, Arc<HostedState>)>,
    /// Event journals, likewise; each is here at most once.
    events: Vec<(Instant, Arc<EventJournal>)>,
    /// Rolls, likewise.
    rolls: Vec<(Instant, Arc<Roll>)>,
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
        self.dirty.is_empty() && self.events.is_empty() && self.rolls.is_empty()
    }

    /// Since when something is dirty.
    fn oldest(&self) -> Option<Instant> {
        let (raw, events) = (self.dirty.first().map(|(since, _)| *since), self.events.first().map(|(since, _)| *since));
        let rolls = self.rolls.first().map(|(since, _)| *since);
        raw.into_iter().chain(events).chain(rolls).min()
    }
}

/// What one pass has to do.
struct Pass {
    journals: Vec<Arc<HostedState>>,
    events: Vec<Arc<EventJournal>>,
    rolls: Vec<Arc<Roll>>,
}

/// What is dirty.
#[derive(Default)]
pub(crate) struct Sync {
    state: Mutex<State>,
    changed: Condvar,
}

impl Sync {
    /// Notes that files of a journal have bytes which are not on the disk. Costs an atomic load while it is noted.
    pub(crate) fn mark(&self, shared: &Arc<HostedState>, files: u8) {
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

    /// Notes that a roll has entries which are not on the disk; it does so once until a pass takes it.
    pub(crate) fn mark_roll(&self, roll: &Arc<Roll>) {
        let mut state = lock(&self.state);
        let first = state.is_clean();
        state.rolls.push((Instant::now(), Arc::clone(roll)));
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
        let rolls = std::mem::take(&mut state.rolls).into_iter().map(|(_, roll)| roll).collect();
        Some(Pass { journals, events, rolls })
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
        // First: what is found of a journal after a power loss can be named.
        for roll in &pass.rolls {
            if every.is_zero() { roll.forgo_sync() } else { roll.sync(sync) }
        }
        let mut synced = Vec::new();
        for shared in &pass.journals {
            let files = shared.journal.dirty.swap(0, Ordering::AcqRel);
            if every.is_zero() {
                shared.journal.remove_mark();
            } else if sync_one(sync, shared, files) {
                synced.push(shared.as_ref());
            }
            // Space that cannot be given back now is given back at the next chance.
            let _ = shared.journal.cut_to_limit();
            let _ = punch_input(shared);
        }
        settle(&synced);
        for (journal, visible) in events {
            if every.is_zero() { journal.forgo_sync() } else { journal.finish_sync(visible) }
        }
        floor.check(&pass.journals);
        sync.finished();
    }
}

/// Data before index; `true` when all of it is on the disk. A failure is final for what was dirty: the kernel has dropped
/// it or will, and a second try that succeeds proves nothing.
fn sync_one(sync: &Sync, shared: &Arc<HostedState>, dirty: u8) -> bool {
    let journal = &shared.journal;
    if journal.dir().is_none() {
        return false;
    }
    let bounds = journal.bounds();
    let before = journal.marked();
    let lengths = journal.raw_lengths();
    // The first time everything that there is, whoever wrote it: from then on the mark knows.
    let first = before.is_none() && dirty & (OUT | ERR | IDX) != 0;
    let held = lengths.as_ref().map_or(OUT | ERR, |lengths| bit(OUT, lengths.out) | bit(ERR, lengths.err));
    let wanted = if first { dirty | IDX | held } else { dirty };
    match sync_files(journal, wanted) {
        Ok(()) => {
            // Whoever has ended without a word will not say one later.
            let silent = held == 0 && bounds.exit.is_some();
            if let Ok(lengths) = lengths
                && (first && !silent || dirty & (OUT | ERR) != 0)
            {
                let before = before.unwrap_or(lengths);
                let out = if wanted & OUT != 0 { lengths.out } else { before.out };
                let err = if wanted & ERR != 0 { lengths.err } else { before.err };
                journal.set_mark(Mark { out, err });
            }
            journal.synced_seq.store(bounds.last_seq, Ordering::Relaxed);
            return true;
        }
        Err(SyncError::Gone) => {}
        Err(SyncError::NotOpen) => sync.mark(shared, dirty),
        Err(SyncError::Failed) => {
            let from = journal.synced_seq.load(Ordering::Relaxed) + 1;
            // The record may fail too; readers of this daemon know either way.
            let _ = journal.record(Fact::Damaged(from));
            journal.damaged(from);
        }
    }
    false
}

fn bit(bit: u8, length: u64) -> u8 {
    if length > 0 { bit } else { 0 }
}

fn sync_files(journal: &Journal, dirty: u8) -> Result<(), SyncError> {
    if ostler_hooks::fault!("sync.data").is_some() {
        return Err(SyncError::Failed);
    }
    for (bit, name) in [(OUT, raw::OUT), (ERR, raw::ERR), (IN, raw::IN), (IDX, raw::IDX)] {
        if dirty & bit != 0 {
            journal.sync(name)?;
        }
    }
    Ok(())
}

/// Names and facts of what was synced, the folder above once for all that are in it. What can not be done now is done with
/// the next bytes.
fn settle(synced: &[&HostedState]) {
    let begun: Vec<(&Journal, &Path)> = synced
        .iter()
        .filter_map(|shared| Some((shared.journal.as_ref(), shared.journal.settle().ok()??.parent()?)))
        .collect();
    let parents: BTreeSet<&Path> = begun.iter().map(|(_, parent)| *parent).collect();
    for parent in parents {
        if File::open(parent).and_then(|folder| folder.sync_all()).is_err() {
            begun.iter().filter(|(_, of)| *of == parent).for_each(|(journal, _)| journal.unsettle());
        }
    }
}

/// Takes input that the child has read out of the ledger: it holds what was typed, passwords too.
fn punch_input(shared: &HostedState) -> io::Result<()> {
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
        if let Some(input) = shared.journal.files()?.input() {
            sys::punch(input, from, upto)?;
        }
        shared.punched.store(upto, Ordering::Relaxed);
    }
    Ok(())
}
