//! Threads that search ahead of whoever tells what they find. Files go to them in blocks, in the order of their paths, and come
//! back in that order.
//!
//! How far they are ahead is bounded, in blocks and in text. They end with the search, and none of them waits for a client.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::file::{FileSearch, Outcome};
use super::{BYTES_MAX, ContentQuery};
use crate::index::Index;

/// Files that a thread takes at once: many enough that nobody waits for the list, few enough that all threads end together.
const BLOCK: usize = 32;
/// Blocks for each thread that may wait to be told.
const AHEAD: u64 = 4;
/// More threads only wait for the same disk.
const THREADS_MAX: usize = 8;
/// How often it is looked whether anybody still waits.
const LOOKS: Duration = Duration::from_millis(10);

/// Files with what was found in each.
pub(super) type Block = Vec<(PathBuf, Outcome)>;

/// What the threads and who tells have in common.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The last file that a thread has.
    after: Option<PathBuf>,
    /// Blocks that threads have or had.
    given: u64,
    /// Blocks that were told.
    told: u64,
    found: BTreeMap<u64, Block>,
    /// There are no more files, or nobody needs them.
    all_given: bool,
    threads: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, LOOKS).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A thread that is counted, also when it dies.
struct Working<'a>(&'a Shared);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
        self.0.changed.notify_all();
    }
}

/// Searches all files behind `query.after` and tells each block, until `tell` wants no more. Whether all of them were told.
pub(super) fn run(
    one: &FileSearch<'_>,
    index: &Index,
    query: &ContentQuery,
    gone: &dyn Fn() -> bool,
    mut tell: impl FnMut(Block) -> bool,
) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let state = State { after: query.after.clone(), threads, ..State::default() };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&shared, one, index, query));
        }
        let whole = take(&shared, one, gone, &mut tell);
        one.stop();
        shared.changed.notify_all();
        whole
    })
}

/// Blocks in their order; whether there are no more.
fn take(shared: &Shared, one: &FileSearch<'_>, gone: &dyn Fn() -> bool, tell: &mut impl FnMut(Block) -> bool) -> bool {
    let mut state = shared.state();
    loop {
        let next = state.told;
        if let Some(block) = state.found.remove(&next) {
            state.told += 1;
            drop(state);
            shared.changed.notify_all();
            if gone() || !tell(block) {
                return false;
            }
            state = shared.state();
        } else if state.threads == 0 {
            return state.told == state.given && state.all_given;
        } else {
            state = shared.wait(state);
            if gone() {
                one.stop();
            }
        }
    }
}

/// One thread: block after block, until there are no more or it is over.
fn work(shared: &Shared, one: &FileSearch<'_>, index: &Index, query: &ContentQuery) {
    let _counted = Working(shared);
    let mut searcher = one.searcher();
    while let Some((number, paths)) = next(shared, one, index, query) {
        let (mut block, mut text) = (Block::with_capacity(paths.len()), 0);
        for path in paths {
            let outcome = if one.is_over() { Outcome::not_looked_at() } else { one.run(&mut searcher, &path) };
            text += outcome.text();
            let last = outcome.cut_off || text >= BYTES_MAX;
            block.push((path, outcome));
            // As much as one answer holds: nothing behind it is told.
            if last {
                break;
            }
        }
        let mut state = shared.state();
        state.all_given |= text >= BYTES_MAX;
        state.found.insert(number, block);
        drop(state);
        shared.changed.notify_all();
    }
}

/// The next block, as soon as there is room for it.
fn next(shared: &Shared, one: &FileSearch<'_>, index: &Index, query: &ContentQuery) -> Option<(u64, Vec<PathBuf>)> {
    let mut state = shared.state();
    while !state.all_given && state.given >= state.told + AHEAD * state.threads as u64 && !one.is_stopped() {
        state = shared.wait(state);
    }
    if state.all_given || one.is_stopped() {
        return None;
    }
    let block = index.searched_after(state.after.as_deref(), &query.folder, &query.filters, BLOCK);
    match block.last() {
        Some(last) => state.after = Some(last.clone()),
        None => {
            state.all_given = true;
            return None;
        }
    }
    state.given += 1;
    Some((state.given - 1, block))
}
