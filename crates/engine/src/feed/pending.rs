//! What was noted and is not written yet, between those who must not wait and the thread that may. It is bounded: when the disk
//! lets that thread wait for long, only how far each source is stays in memory, and the rest is read from the sources.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_journal::EventJournal;

use super::sum::{News, Source, What};

/// What changes what a person sees is written at once, but this long after what was written before: long enough that a thousand
/// short commands wake nobody a thousand times, short enough that nobody notices.
const SOON: Duration = Duration::from_millis(5);
/// Words of an agent are put together for this long: whoever reads along reads the session itself.
const LATER: Duration = Duration::from_millis(100);
/// More than happens while a disk thinks.
const MOST: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    news: Vec<News>,
    /// Sources of which more was noted than there was room for, and how far they are.
    behind: HashMap<Source, u64>,
    due: Option<Instant>,
    /// When something was last written.
    written: Option<Instant>,
    stopped: bool,
    journal: Option<Result<Arc<EventJournal>, String>>,
}

impl State {
    /// `true` if something is due sooner than was known.
    fn add(&mut self, news: News) -> bool {
        let soon = match &news.what {
            What::Said(kind) => kind.is_urgent(),
            _ => true,
        };
        let now = Instant::now();
        let due = match soon {
            true => self.written.map_or(now, |written| now.max(written + SOON)),
            false => now + LATER,
        };
        if self.news.len() < MOST {
            self.news.push(news);
        } else {
            let up_to = self.behind.entry(news.source).or_default();
            *up_to = news.at.max(*up_to);
        }
        let sooner = self.due.is_none_or(|known| due < known);
        if sooner {
            self.due = Some(due);
        }
        sooner
    }
}

/// What is to be written.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) news: Vec<News>,
    pub(super) behind: HashMap<Source, u64>,
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, news: News) {
        self.add_all([news], || {});
    }

    /// The same of several. `publish` comes before anybody is told of them, and before anybody can note what follows from it. It
    /// must not wait, and must not come back here.
    pub(super) fn add_all<T>(&self, news: impl IntoIterator<Item = News>, publish: impl FnOnce() -> T) -> T {
        let mut state = self.state();
        let sooner = news.into_iter().fold(false, |sooner, one| state.add(one) | sooner);
        let published = publish();
        drop(state);
        if sooner {
            self.changed.notify_all();
        }
        published
    }

    /// Waits until something is due; nothing when the end has come.
    pub(super) fn next(&self) -> Option<Batch> {
        let mut state = self.state();
        loop {
            if state.stopped {
                return None;
            }
            let left = state.due.map(|due| due.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => {
                    state.due = None;
                    state.written = Some(Instant::now());
                    let (news, behind) = (std::mem::take(&mut state.news), std::mem::take(&mut state.behind));
                    return Some(Batch { news, behind });
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Waits for so long, or until the end has come; `false` then.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !state.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// The feed can be read from now on, or not, and why.
    pub(super) fn open(&self, journal: Result<Arc<EventJournal>, String>) {
        self.state().journal = Some(journal);
        self.changed.notify_all();
    }

    /// The journal of the feed. Waits until it is opened.
    pub(super) fn opened(&self) -> io::Result<Arc<EventJournal>> {
        let mut state = self.state();
        loop {
            match &state.journal {
                Some(Ok(journal)) => return Ok(Arc::clone(journal)),
                Some(Err(why)) => return Err(io::Error::other(why.clone())),
                None if state.stopped => return Err(io::Error::other("the daemon is ending")),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
