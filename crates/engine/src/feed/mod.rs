//! The feed: every change of this instance that somebody who watches all of it must know, in one order, with one position each
//! that holds across reconnects, kills and upgrades.
//!
//! # Theory of operation
//! Whoever changes something writes it where it belongs first: a session's journal, the keeper and the roll, the audit. Then it
//! notes that here, which costs a lock and never waits. A thread of the feed's own puts what was noted into entries, a run of one
//! source into one, and appends them to an event journal of their own; only then a reader is told. An entry says which changes
//! of its source it is about, by that source's own numbers, and what filters need, nothing else.
//!
//! So nothing must be noted: [`sum::Sum`] knows how far each source was told, and what the sources have beyond that is told
//! when a daemon starts, woven by time. A change is never told twice, because its number is.
//!
//! A reader is a cursor in that journal, never a queue; what it has not read yet costs nothing.

mod entry;
mod happened;
mod kind;
mod pending;
mod position;
mod read;
mod sources;
mod sum;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use ostler_journal::{EventJournal, Pumps};
pub use ostler_story::FeedKind as Kind;
use ostler_story::Said;

pub use entry::Change;
pub(crate) use entry::Noted;
use entry::{ENDED, STARTED};
pub use happened::{FileChange, FileIs, GitDone, GitStands, Happened};
pub(crate) use kind::of_audit;
use pending::Pending;
pub use position::{NoPosition, Position};
pub use read::{Filter, Opened};
pub(crate) use sources::{FoundAtStart, FoundProcess, FoundSession, Sources};
use sum::{News, Source, Sum, What};

use crate::{MayWait, Process};

/// The feed; a cheap handle.
#[derive(Clone, Default)]
pub struct Feed {
    shared: Arc<FeedInner>,
}

#[derive(Default)]
struct FeedInner {
    pending: Pending,
    /// Where sessions and processes work, for filters: readers must not wait for whoever holds a session.
    places: RwLock<HashMap<String, PathBuf>>,
    /// Where git was last said to stand: whoever did something and whoever watches say the same once.
    stands: Mutex<HashMap<PathBuf, GitStands>>,
}

/// Not in the program that a measurement puts beside this one: what is noted there costs nothing, and nobody is told.
const TELLS: bool = !cfg!(feature = "feedless");

/// Workspaces of which that is remembered.
const STANDS_MAX: usize = 1024;

impl Feed {
    /// A session's record of this number says this.
    pub(crate) fn session(&self, id: &str, record: u64, said: &[Said]) {
        if !TELLS {
            return;
        }
        let what = What::Said(Kind::of_record(said));
        self.note(Source::Session(id.to_owned()), record, what);
    }

    /// A process runs.
    pub(crate) fn started(&self, process: &Process) {
        self.is_at(process.id(), &process.about().cwd);
        self.process(process, STARTED);
    }

    /// The end of a process is journaled.
    pub(crate) fn ended(&self, process: &Process) {
        self.process(process, ENDED);
    }

    fn process(&self, process: &Process, at: u64) {
        // A runner that nobody has told to go is as good as not there.
        if TELLS && !process.is_waiting() {
            let what = What::Process(process.about().session.clone());
            self.note(Source::Process(process.id().to_owned()), at, what);
        }
    }

    /// The audit has entries with these numbers. `publish` has everybody see them: before the feed tells of them, so that who is
    /// told finds them, and so that what follows from them comes later.
    pub(crate) fn audit<T>(&self, entries: Vec<(u64, Noted)>, publish: impl FnOnce() -> T) -> T {
        let (time_ns, entries) = (now_ns(), if TELLS { entries } else { Vec::new() });
        let news = |(at, noted)| News { source: Source::Audit, at, time_ns, what: What::Noted(noted) };
        self.shared.pending.add_all(entries.into_iter().map(news), publish)
    }

    /// Somebody was told of something, and this is the number of the newest notice. Also when a daemon begins: what the last one did
    /// not come to tell is told then.
    pub(crate) fn notices(&self, newest: u64) {
        self.note(Source::Notices, newest, What::Told);
    }

    /// Something happened in the workspace at this folder. Never waits; whoever follows is told once it is on the disk.
    pub fn happened(&self, root: &Path, happened: Happened) {
        if let Happened::Git(stands) = &happened {
            let mut known = self.shared.stands.lock().unwrap_or_else(PoisonError::into_inner);
            if known.get(root) == Some(stands) {
                return;
            }
            if known.len() >= STANDS_MAX {
                known.clear();
            }
            known.insert(root.to_owned(), stands.clone());
        }
        self.note(Source::Workspace(root.into()), 1, What::Happened(happened));
    }

    /// A session and what was said in it are deleted.
    pub(crate) fn session_forgotten(&self, id: &str) {
        self.forgotten(Source::Session(id.to_owned()), id);
    }

    /// A process and its output are deleted.
    pub(crate) fn process_forgotten(&self, id: &str) {
        self.forgotten(Source::Process(id.to_owned()), id);
    }

    fn forgotten(&self, source: Source, id: &str) {
        let place = self.shared.places.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.note(source, u64::MAX, What::Forgotten(place.as_deref().map(Into::into)));
    }

    /// Where a session or process works.
    pub(crate) fn is_at(&self, id: &str, place: &Path) {
        if !TELLS {
            return;
        }
        self.shared.places.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), place.to_owned());
    }

    /// Never waits for a disk.
    fn note(&self, source: Source, at: u64, what: What) {
        if TELLS {
            self.shared.pending.add(News { source, at, time_ns: now_ns(), what });
        }
    }

    /// Begins to write: what the sources have and the feed has not comes first, then what was noted since. `found` says how far
    /// each source was before anything new could happen.
    pub(crate) fn begin(
        &self,
        dir: PathBuf,
        pumps: Arc<Pumps>,
        found: FoundAtStart,
        sources: impl Sources + 'static,
    ) -> io::Result<()> {
        for (id, place) in found.places() {
            self.is_at(id, place);
        }
        let shared = Arc::clone(&self.shared);
        let write = move |wait: &MayWait| writer::run(wait, &shared.pending, (&dir, &pumps), &found, &sources);
        MayWait::thread("feed", write).map(drop)
    }

    /// Nothing more is written; what was noted and is not told yet is told by the next daemon.
    pub(crate) fn stop(&self) {
        self.shared.pending.stop();
    }

    /// The journal of the feed, once it is in line with its sources. Waits for that.
    fn journal(&self, _wait: &MayWait) -> io::Result<Arc<EventJournal>> {
        self.shared.pending.opened()
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
