//! The event journal of a session: what its agents' output means, derived from their raw journals line by line.
//!
//! A record holds all events of one raw line and says where that line ended, so deriving can stop anywhere and go on from
//! [`EventJournal::derived_up_to`]. It must never hold a line's events twice or half: a payload whose record was not
//! written is cut and derived again, which is the opposite of what a raw journal does with its tail.

mod append;
mod cursor;
mod durable;
mod files;
mod record;
mod recovery;
mod retention;
#[cfg(test)]
mod tests;
mod types;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::index::RECORD;
use crate::lock;
use crate::probe::FsKind;
use crate::raw::ctl::{Ctl, Fact, SIZED};
use crate::raw::mark::{self, Mark, Trust};
use crate::raw::{OpenError, Subscribers, Subscription, Wake};
use crate::sync::Sync;
pub use append::ENGINE;
use append::Writer;
pub use cursor::EventCursor;
use files::Home;
pub use record::PAYLOAD_MAX;
pub use types::{EventBounds, EventHead, EventStep};

struct State {
    bounds: EventBounds,
    /// Where the payload of the last visible record ends.
    data_end: u64,
}

/// The event journal of a session.
pub struct EventJournal {
    home: Home,
    /// What readers look at for every record; the rest is in `state`.
    last: AtomicU64,
    first: AtomicU64,
    state: Mutex<State>,
    writer: Mutex<Writer>,
    /// How far each source was derived: one entry per agent process the session ever had.
    sources: Mutex<HashMap<u32, u64>>,
    ctl: Mutex<Ctl>,
    cutting: Mutex<()>,
    subscribers: Arc<Subscribers>,
    /// Who puts it on the disk, once somebody does.
    sync: OnceLock<Weak<Sync>>,
    dirty: AtomicBool,
    /// Records up to here are on the disk.
    synced: AtomicU64,
    /// Its names and its facts are on the disk.
    settled: AtomicBool,
    /// Somebody other than this kernel can make its files stall.
    remote: bool,
    /// Its records say how long they are: it was begun by a program that knew of that.
    sized: bool,
}

impl EventJournal {
    /// Creates an event journal in `dir` (made if it is not there, 0700; files 0600).
    pub fn create(dir: &Path) -> io::Result<Arc<Self>> {
        Self::new(Home::create(dir)?, Trust::All).map_err(|error| match error {
            OpenError::Io(error) => error,
            other => io::Error::other(other),
        })
    }

    /// Opens what is in `dir` and cuts what never became a record. That writes, so only one program may do it at a time:
    /// the daemon that holds the instance.
    pub fn open(dir: &Path) -> Result<Arc<Self>, OpenError> {
        let home = Home::at(dir);
        let trust = mark::trust(&home.mark());
        Self::new(home, trust)
    }

    fn new(home: Home, trust: Trust) -> Result<Arc<Self>, OpenError> {
        // The version first: a newer journal is refused before anything is touched.
        let ctl = match home.ctl() {
            Ok(file) => Ctl::read(&file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && home.is_begun() => {
                return Err(OpenError::Unfinished);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::NotFound),
            Err(error) => return Err(error.into()),
        };
        let files = home.files()?;
        // Unknown is not remote: a file system without a number is this kernel's own.
        let remote = FsKind::of(&files.data).is_ok_and(|kind| kind.is_remote());
        let found = recovery::recover(&files, ctl.first, trust)?;
        let Writer { last, count } = found.writer;
        if let Trust::Only(_) = trust {
            // From here on a kill costs nothing again.
            Mark { out: last.data_end, err: count * RECORD as u64 }.renew(&home.mark())?;
        }
        let damaged_from = found.damaged_from.into_iter().chain(ctl.damaged_from).min();
        let sized = ctl.version >= SIZED;
        let bounds = EventBounds { first: ctl.first.seq, last: count, damaged_from };
        Ok(Arc::new(Self {
            home,
            last: AtomicU64::new(bounds.last),
            first: AtomicU64::new(bounds.first),
            state: Mutex::new(State { bounds, data_end: last.data_end }),
            writer: Mutex::new(found.writer),
            sources: Mutex::new(found.sources),
            ctl: Mutex::new(ctl),
            cutting: Mutex::new(()),
            subscribers: Arc::default(),
            sync: OnceLock::new(),
            dirty: AtomicBool::new(false),
            synced: AtomicU64::new(bounds.last),
            settled: AtomicBool::new(false),
            remote,
            sized,
        }))
    }

    /// Raw offset up to which the output of `source` is in this journal; 0 = nothing of it is.
    pub fn derived_up_to(&self, source: u32) -> u64 {
        lock(&self.sources).get(&source).copied().unwrap_or(0)
    }

    /// What it holds at the moment. Cheap.
    pub fn bounds(&self) -> EventBounds {
        lock(&self.state).bounds
    }

    /// Has `wake` called when something becomes visible, once per [`Subscription::arm`]; by the thread that appends.
    pub fn subscribe(&self, wake: Arc<dyn Wake>) -> Subscription {
        self.subscribers.add(wake)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.home.dir()
    }

    /// Whether its files are on FUSE or a network file system, so that any use of them may wait for somebody else.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// Closes the files until the next use; a session that rests then costs no descriptor.
    pub fn close_files(&self) {
        self.home.close();
    }

    /// Changes what [`bounds`](Self::bounds) says and tells the subscribers.
    fn update(&self, change: impl FnOnce(&mut EventBounds)) {
        let changed = {
            let bounds = &mut lock(&self.state).bounds;
            let before = *bounds;
            change(bounds);
            before != *bounds
        };
        if changed {
            self.subscribers.wake();
        }
    }

    /// Records from this one on cannot be relied upon.
    fn damaged(&self, record: u64) {
        self.update(|bounds| {
            bounds.damaged_from = Some(bounds.damaged_from.map_or(record, |old| old.min(record)));
        });
    }

    /// Writes a fact into `events.ctl`.
    fn record(&self, fact: Fact) -> io::Result<()> {
        let file = self.home.ctl()?;
        lock(&self.ctl).append(&file, fact)?;
        self.settled.store(false, Ordering::Release);
        Ok(())
    }
}
