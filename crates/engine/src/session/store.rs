//! A session's folder: its journal, and a snapshot of what that adds up to.
//!
//! The journal is the truth. The snapshot only saves reading it all: it names the record it was taken after, and is thrown
//! away when it could be from another history (the machine was restarted, or the journal is shorter).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_journal::{EventCursor, EventJournal, EventStep, OpenError, Pumps};
use ostler_story::{Fact, Said, VERSION as WORDS, said};
use ostler_workspace::{Durable, replace};
use serde::{Deserialize, Serialize};

use super::state::State;
use crate::MayWait;

/// An older program refuses a newer snapshot by reading the journal instead.
const VERSION: u32 = 3;
const SNAPSHOT: &str = "snapshot.json";
const NANOS_PER_MILLI: u64 = 1_000_000;
/// 32 bytes of index for each record of the journal.
const INDEX_RECORD: u64 = 32;

#[derive(Serialize, Deserialize)]
struct Snapshot<S> {
    version: u32,
    boot: String,
    record: u64,
    state: S,
}

/// Why a session's folder can not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its journal can not be opened.
    #[error("{}: {source}", dir.display())]
    Journal {
        /// The folder.
        dir: PathBuf,
        /// What happened.
        source: OpenError,
    },
    /// Its journal can not be read.
    #[error("{}: {source}", dir.display())]
    Io {
        /// The folder.
        dir: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// Its journal is told in words that this version does not know.
    #[error("{}: written by a newer ostler (version {found}); this one reads up to {WORDS}", dir.display())]
    Newer {
        /// The folder.
        dir: PathBuf,
        /// The version of its words.
        found: u32,
    },
    /// Its journal does not begin like one.
    #[error("{}: the journal does not say what the session is", dir.display())]
    NoBeginning {
        /// The folder.
        dir: PathBuf,
    },
}

pub(super) struct Folder {
    pub(super) dir: PathBuf,
    pumps: Arc<Pumps>,
    boot: String,
    /// Opened when somebody needs it: a session that rests costs no descriptor and little memory.
    journal: Mutex<Option<Arc<EventJournal>>>,
}

impl Folder {
    pub(super) fn new(dir: PathBuf, pumps: Arc<Pumps>, boot: String) -> Self {
        Self { dir, pumps, boot, journal: Mutex::default() }
    }

    /// Makes the folder and its empty journal.
    pub(super) fn create(&self) -> io::Result<Arc<EventJournal>> {
        let journal = EventJournal::create(&self.dir)?;
        self.pumps.keep_synced(&journal);
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&journal));
        Ok(journal)
    }

    /// The journal. May wait for the disk.
    pub(super) fn journal(&self, _wait: &MayWait) -> io::Result<Arc<EventJournal>> {
        self.open().map_err(io::Error::other)
    }

    fn open(&self) -> Result<Arc<EventJournal>, OpenError> {
        let mut slot = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &*slot {
            return Ok(Arc::clone(journal));
        }
        let journal = EventJournal::open(&self.dir)?;
        // Who only reads opens them for as long as that takes.
        journal.close_files();
        self.pumps.keep_synced(&journal);
        Ok(Arc::clone(slot.insert(journal)))
    }

    /// Closes its files until the next use.
    pub(super) fn rest(&self) {
        if let Some(journal) = &*self.journal.lock().unwrap_or_else(PoisonError::into_inner) {
            journal.close_files();
        }
    }

    /// What the journal adds up to, and its last record.
    pub(super) fn load(&self) -> Result<(State, u64), LoadError> {
        let snapshot = self.snapshot();
        if let Some(Snapshot { record, state, .. }) = &snapshot
            && fs::metadata(self.dir.join("events.idx")).is_ok_and(|meta| meta.len() == record * INDEX_RECORD)
        {
            return Ok((state.clone(), *record));
        }
        let journal = self.open().map_err(|source| LoadError::Journal { dir: self.dir.clone(), source })?;
        let last = journal.bounds().last;
        let known = snapshot.filter(|snapshot| snapshot.record <= last);
        let (state, after) = known.map_or((None, 0), |snapshot| (Some(snapshot.state), snapshot.record));
        let state = fold(&journal, state, after).map_err(|source| LoadError::Io { dir: self.dir.clone(), source })?;
        let state = state.ok_or_else(|| LoadError::NoBeginning { dir: self.dir.clone() })?;
        if let Some(found) = state.created.version.filter(|found| *found > WORDS) {
            return Err(LoadError::Newer { dir: self.dir.clone(), found });
        }
        self.note(&state, last);
        Ok((state, last))
    }

    fn snapshot(&self) -> Option<Snapshot<State>> {
        let bytes = fs::read(self.dir.join(SNAPSHOT)).ok()?;
        let snapshot: Snapshot<State> = serde_json::from_slice(&bytes).ok()?;
        (snapshot.version == VERSION && snapshot.boot == self.boot).then_some(snapshot)
    }

    /// Writes the snapshot. One that can not be written costs time at the next start, nothing else.
    pub(super) fn note(&self, state: &State, record: u64) {
        let snapshot = Snapshot { version: VERSION, boot: self.boot.clone(), record, state };
        let (path, beside) = (self.dir.join(SNAPSHOT), self.dir.join("snapshot.json.new"));
        let bytes = serde_json::to_vec(&snapshot).map_err(io::Error::other);
        let written = bytes.and_then(|bytes| replace(&path, &beside, &bytes, Durable::No));
        if let Err(error) = written {
            tracing::warn!("{}: no snapshot: {error}", self.dir.display());
        }
    }
}

/// Adds up what follows record `after`.
fn fold(journal: &Arc<EventJournal>, mut state: Option<State>, after: u64) -> io::Result<Option<State>> {
    let (mut cursor, mut payload) = (EventCursor::new(Arc::clone(journal), after), Vec::new());
    loop {
        payload.clear();
        match cursor.next_blocking(&mut payload)? {
            EventStep::Event(head) => {
                let time_ms = head.time_ns / NANOS_PER_MILLI;
                let all = said(head.source, &payload);
                match (&mut state, all.first()) {
                    (Some(state), _) => state.take(head.record, head.source, head.src_end, time_ms, &all),
                    (None, Some(Said::Fact(Fact::Created(created)))) => {
                        state = Some(State::begin((**created).clone(), time_ms));
                    }
                    (None, _) => return Ok(None),
                }
            }
            EventStep::Gap { .. } => {}
            EventStep::UpToDate | EventStep::WouldBlock => return Ok(state),
        }
    }
}

/// Every session folder beneath `dir`.
pub(super) fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// How many sessions of the instance in `dir` are open, as far as that shows without its daemon: one that tells nothing counts.
pub fn open_in(_wait: &MayWait, dir: &Path) -> usize {
    #[derive(Deserialize)]
    struct Closed {
        closed: bool,
    }
    let is_open = |dir: &PathBuf| {
        let bytes = fs::read(dir.join(SNAPSHOT)).unwrap_or_default();
        !serde_json::from_slice::<Snapshot<Closed>>(&bytes).is_ok_and(|snapshot| snapshot.state.closed)
    };
    folders(&dir.join("sessions")).iter().filter(|dir| is_open(dir)).count()
}
