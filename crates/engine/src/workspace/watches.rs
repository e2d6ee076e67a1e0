//! Which folders are under watch: for who asks for names, and for who wants to be told what changes. One watch for each, whoever
//! asks; one that nobody needs ends by itself.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ostler_workspace::git::Git;
use ostler_workspace::watch::{
    AskGit, Became, FOLDERS_MAX, FileChange, GitPlace, Lease, Setup, Tell, Timing, Told, Watch,
};

use ostler_story::FilePath;

use super::beneath::Root;
use super::status::{Known, stands};
use super::work::WorkTree;
use crate::feed::{self, Feed, FileIs, Happened};
use crate::{Engine, Environment, Forker, MayWait};

/// Folders that are watched at once: more than anybody works in, and each has a thread.
const WATCHES_MAX: usize = 32;
/// What all indexes together may take: some millions of files. The one that was asked least recently goes first.
const MEMORY_MAX: u64 = 512 << 20;
/// Changes of files that a watch may tell at once, and how many more it may with each second: the feed is for everything else
/// too, and a folder that never rests shall not push that out of it.
const ALLOWED: (f64, f64) = (2000.0, 8.0);

/// Why a folder is not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// All room is taken by who wants to be told.
    #[error("so many or so large workspaces are watched already (at most {WATCHES_MAX})")]
    TooMany,
    /// The system does not let us.
    #[error("it cannot be watched: {0}")]
    Io(#[from] io::Error),
}

/// A folder under watch, and what is remembered with it.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(super) watch: Watch,
    pub(super) known: Arc<Known>,
    leases: Arc<AtomicUsize>,
}

/// Folders under watch.
#[derive(Default)]
pub(crate) struct Watches {
    by_root: Mutex<HashMap<PathBuf, Watched>>,
}

/// Somebody is told what changes in a folder, through the feed; until this is dropped.
pub struct WatchLease {
    feed: Feed,
    leases: Arc<AtomicUsize>,
    watch: Watch,
    // Last: who holds no lease is not told.
    lease: Lease,
}

impl Watches {
    fn by_root(&self) -> MutexGuard<'_, HashMap<PathBuf, Watched>> {
        self.by_root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch that is there already.
    pub(super) fn get(&self, root: &Path) -> Option<Watched> {
        self.by_root().get(root).filter(|watched| !watched.watch.is_over()).cloned()
    }

    /// Everything ends.
    pub(crate) fn end(&self) {
        self.by_root().drain().for_each(|(_, watched)| watched.watch.end());
    }

    fn get_or(&self, root: Root, start: impl FnOnce(Root) -> io::Result<Watch>) -> Result<Watched, WatchError> {
        let mut by_root = self.by_root();
        by_root.retain(|_, watched| !watched.watch.is_over());
        if let Some(watched) = by_root.get(root.path()) {
            return Ok(watched.clone());
        }
        let memory = |by_root: &HashMap<PathBuf, Watched>| by_root.values().map(|one| one.watch.memory()).sum::<u64>();
        while by_root.len() >= WATCHES_MAX || memory(&by_root) > MEMORY_MAX {
            let idle = by_root.iter().filter(|(_, watched)| watched.watch.leases() == 0);
            let oldest = idle.min_by_key(|(_, watched)| watched.watch.last_used()).map(|(root, _)| root.clone());
            let oldest = oldest.and_then(|root| by_root.remove(&root)).ok_or(WatchError::TooMany)?;
            oldest.watch.end();
        }
        let path = root.path().to_owned();
        let watched = Watched { watch: start(root)?, known: Arc::default(), leases: Arc::default() };
        by_root.insert(path, watched.clone());
        Ok(watched)
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.end();
    }
}

impl Engine {
    /// The watch of a folder; begun if there is none.
    pub(super) fn watched(&self, _wait: &MayWait, root: Root) -> Result<Watched, WatchError> {
        let (path, environment) = (root.path().to_owned(), Arc::clone(self.environment()));
        let git = Arc::new(WatchedGit { path: path.clone(), environment, runner: Arc::new(self.forker()) });
        let tell = tell(self.feed().clone(), path, Arc::clone(&git));
        let start = |root| Watch::start(Setup { root, git, tell, timing: Timing::default(), folders_max: FOLDERS_MAX });
        self.inner.watches.get_or(root, start)
    }

    /// Has the feed told what changes in a folder, for as long as the lease is held. Waits until everything is watched: what
    /// changes after this is told. Whoever reads on from before is told to look again first.
    pub fn watch_workspace(&self, wait: &MayWait, root: Root) -> Result<WatchLease, WatchError> {
        let Watched { watch, leases, .. } = self.watched(wait, root)?;
        // Before the lease: why it is polled, if it is, is said once, below.
        watch.names(super::index::READY_WITHIN);
        let lease = watch.lease();
        let first = leases.fetch_add(1, Ordering::SeqCst) == 0;
        let held = WatchLease { feed: self.feed().clone(), leases, watch, lease };
        if first {
            held.feed.happened(held.lease.path(), Happened::Watch { on: true, why: held.polled() });
        }
        Ok(held)
    }
}

impl WatchLease {
    /// The folder, without links.
    pub fn path(&self) -> &Path {
        self.lease.path()
    }

    /// Why it is only looked every few seconds, if it is.
    pub fn polled(&self) -> Option<String> {
        self.watch.status().polled
    }
}

impl Drop for WatchLease {
    fn drop(&mut self) {
        if self.leases.fetch_sub(1, Ordering::SeqCst) == 1 {
            let why = Some("nobody watches it any more".into());
            self.feed.happened(self.lease.path(), Happened::Watch { on: false, why });
        }
    }
}

/// Git, as the thread of a watch asks it.
struct WatchedGit {
    path: PathBuf,
    environment: Arc<Environment>,
    runner: Arc<Forker>,
}

impl WatchedGit {
    fn tree(&self) -> Option<WorkTree> {
        let (path, variables) = (self.environment.path(), self.environment.snapshot());
        let git = Git::new(&self.path, &path, &variables, self.runner.clone());
        WorkTree::open(&git, Root::open(&self.path).ok()?).ok()
    }
}

impl AskGit for WatchedGit {
    fn place(&self) -> Option<GitPlace> {
        self.tree().map(|tree| tree.place())
    }

    fn tracked(&self) -> Option<Vec<PathBuf>> {
        self.tree()?.tracked().ok()
    }
}

/// What a watch tells, as the feed takes it.
fn tell(feed: Feed, root: PathBuf, git: Arc<WatchedGit>) -> Tell {
    let allowance = Mutex::new((ALLOWED.0, Instant::now()));
    Box::new(move |told| match told {
        Told::Files(changes) => {
            let mut allowance = allowance.lock().unwrap_or_else(PoisonError::into_inner);
            let (left, at) = *allowance;
            let left = (left + at.elapsed().as_secs_f64() * ALLOWED.1).min(ALLOWED.0);
            let fits = changes.len() as f64 <= left;
            *allowance = (if fits { left - changes.len() as f64 } else { left }, Instant::now());
            if !fits {
                return feed.happened(&root, Happened::Missed {});
            }
            for change in changes {
                let (path, tracked) = (FilePath::from(change.path.as_path()), change.tracked);
                feed.happened(&root, Happened::File(file(path.clone(), &change)));
                if tracked {
                    feed.happened(&root, Happened::Diff { path });
                }
            }
        }
        Told::LookAgain => feed.happened(&root, Happened::Missed {}),
        Told::Gone => feed.happened(&root, Happened::Watch { on: false, why: Some("the folder is gone".into()) }),
        Told::Git => {
            if let Some(stands) = git.tree().and_then(|tree| stands(&tree).ok()) {
                feed.happened(&root, Happened::Git(stands));
            }
        }
        Told::Polled(why) => feed.happened(&root, Happened::Watch { on: true, why: Some(why) }),
    })
}

fn file(path: FilePath, change: &FileChange) -> feed::FileChange {
    let (is, was) = match &change.became {
        Became::Created => (FileIs::Created, None),
        Became::Modified => (FileIs::Modified, None),
        Became::Deleted => (FileIs::Deleted, None),
        Became::Renamed(from) => (FileIs::Renamed, Some(from.as_path().into())),
    };
    feed::FileChange { path, is, size: change.size, was }
}
