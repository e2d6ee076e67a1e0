//! A root under watch: its index, kept current by the kernel's word, and what changed in its files and in its git state told at a
//! pace that people and programs can follow.
//!
//! # Theory of operation
//! One thread for each root. It walks once, with a watch on every folder before that is read, so nothing falls between. From
//! then on each word of the kernel marks a name as touched; touched names are looked at, the index takes what is there, and what
//! became of them is told: half a second after the first, at most once a second, and always once after the last. Who asks the
//! index has what was touched until then looked at first, so no answer is older than its question.
//!
//! More than is told one by one is one word: look again. Where the kernel does not tell, because of its limits or the file
//! system, the thread looks by itself every few seconds, and says so. Nothing here waits for a client.

mod changes;
mod git;
mod inotify;
mod pace;
#[cfg(test)]
mod tests;
mod thread;
mod work;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, eventfd};

pub use changes::{Became, CHANGES_MAX, FileChange};
pub use git::GitPlace;
pub use inotify::FOLDERS_MAX;
pub use pace::Timing;
use work::Work;

use crate::beneath::Root;
use crate::index::Index;

/// As long as an answer waits for the thread that looks at what was touched: longer than a few files take, and not worth a
/// thought to a person. A walk through everything is not waited for.
const A_FEW_FILES: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What is told to whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// These files are others than before.
    Files(Vec<FileChange>),
    /// More happened than is told one by one.
    LookAgain,
    /// What is checked out, staged, or known of other repositories may be otherwise.
    Git,
    /// From now on it is looked every few seconds, for this reason.
    Polled(String),
    /// The root is not there any more.
    Gone,
}

/// How far an index is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It is being filled, or looked over as a whole.
    Indexing,
    /// It is what is there.
    Ready,
    /// It is not, and why.
    Failed(String),
}

/// How an index stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchStatus {
    /// How far it is.
    pub phase: Phase,
    /// Why it is looked for changes every few seconds, where the system does not tell.
    pub polled: Option<String>,
    /// When everything was looked at last.
    pub last_full_scan: Option<SystemTime>,
    /// When something was found to be otherwise last.
    pub last_update: Option<SystemTime>,
    /// Folders that could not be read.
    pub unreadable: u64,
    /// There is more than the index holds.
    pub cut: bool,
    /// The repository around it, if there is one.
    pub git: Option<GitPlace>,
}

/// Git, as far as a watch needs it.
pub trait AskGit: Send + Sync {
    /// The repository around the root; asked at the start and when `.git` comes or goes.
    fn place(&self) -> Option<GitPlace>;
    /// Every path that git has, from the root on; asked when its index has changed and somebody wants to know.
    fn tracked(&self) -> Option<Vec<PathBuf>>;
}

/// Who is told.
pub type Tell = Box<dyn Fn(Told) + Send + Sync>;

/// What a watch needs to know.
pub struct Setup {
    /// The folder.
    pub root: Root,
    /// Its git.
    pub git: Arc<dyn AskGit>,
    /// Told while somebody holds a lease, by the watch's own thread.
    pub tell: Tell,
    /// When.
    pub timing: Timing,
    /// Folders that are watched at most.
    pub folders_max: usize,
}

/// A root under watch; a cheap handle. It ends by itself when nobody has asked it for a while and nobody holds a lease.
#[derive(Clone)]
pub struct Watch {
    inner: Arc<Inner>,
}

/// Somebody wants to be told; until this is dropped.
pub struct Lease {
    inner: Arc<Inner>,
}

struct Inner {
    root: Root,
    index: Index,
    git: Arc<dyn AskGit>,
    tell: Tell,
    timing: Timing,
    folders_max: usize,
    work: Mutex<Work>,
    status: Mutex<WatchStatus>,
    changed: Condvar,
    wake: OwnedFd,
    stop: AtomicBool,
    over: AtomicBool,
    rebuild: AtomicBool,
    leases: AtomicUsize,
    used: Mutex<Instant>,
    /// How often everything was looked at.
    scans: AtomicU64,
}

impl Watch {
    /// Begins to watch; the index fills meanwhile.
    pub fn start(setup: Setup) -> std::io::Result<Self> {
        let Setup { root, git, tell, timing, folders_max } = setup;
        let status = WatchStatus {
            phase: Phase::Indexing,
            polled: None,
            last_full_scan: None,
            last_update: None,
            unreadable: 0,
            cut: false,
            git: None,
        };
        let inner = Arc::new(Inner {
            root,
            index: Index::default(),
            git,
            tell,
            timing,
            folders_max,
            work: Mutex::new(Work::new(timing)),
            status: Mutex::new(status),
            changed: Condvar::new(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stop: AtomicBool::new(false),
            over: AtomicBool::new(false),
            rebuild: AtomicBool::new(false),
            leases: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            scans: AtomicU64::new(0),
        });
        let own = Arc::clone(&inner);
        std::thread::Builder::new().name("watch".into()).spawn(move || thread::run(&own))?;
        Ok(Self { inner })
    }

    /// The folder.
    pub fn root(&self) -> &Root {
        &self.inner.root
    }

    /// The names in it, with everything that happened until now. Waits for the first walk, as long as it may.
    pub fn names(&self, within: Duration) -> &Index {
        *self.inner.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.ready(within);
        self.inner.settle();
        self.inner.ask_git();
        &self.inner.index
    }

    /// Waits until everything was looked at once, or could not be; `false` if that takes longer.
    pub fn ready(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut status = self.inner.status();
        while status.last_full_scan.is_none() && !matches!(status.phase, Phase::Failed(_)) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            status = self.inner.changed.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// How it stands. Never waits.
    pub fn status(&self) -> WatchStatus {
        self.inner.status().clone()
    }

    /// Has everything looked at again.
    pub fn rebuild(&self) {
        self.inner.rebuild.store(true, Ordering::Relaxed);
        self.inner.wake();
    }

    /// Somebody wants to be told what changes.
    pub fn lease(&self) -> Lease {
        self.inner.leases.fetch_add(1, Ordering::Relaxed);
        self.inner.wake();
        Lease { inner: Arc::clone(&self.inner) }
    }

    /// What its names take, about. Never waits.
    pub fn memory(&self) -> u64 {
        self.inner.index.totals().memory
    }

    /// How many want to be told.
    pub fn leases(&self) -> usize {
        self.inner.leases.load(Ordering::Relaxed)
    }

    /// When somebody asked last.
    pub fn last_used(&self) -> Instant {
        *self.inner.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has ended and knows nothing any more.
    pub fn is_over(&self) -> bool {
        self.inner.over.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub fn end(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        self.inner.wake();
    }

    /// Numbers that are the same for as long as nothing happened that could change what git says of the workspace, the second one
    /// of which is about what is ignored; nothing where not everything is seen. Whoever compares two of them needs no git in between.
    pub fn unchanged(&self) -> Option<(u64, u64)> {
        self.inner.settle().then(|| self.inner.try_work())??.unchanged()
    }
}

impl Work {
    fn unchanged(&self) -> Option<(u64, u64)> {
        let gaps = &self.gaps;
        let blind = gaps.unreadable + gaps.mounts + gaps.repositories + gaps.linked + gaps.rules > 0 || gaps.cut;
        (self.inotify.is_some() && self.git.is_some() && !blind && !self.lost && !self.git_moved)
            .then_some((self.seen, self.rules_seen))
    }
}

impl Inner {
    fn status(&self) -> MutexGuard<'_, WatchStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_work(&self) -> Option<MutexGuard<'_, Work>> {
        match self.work.try_lock() {
            Ok(work) => Some(work),
            Err(TryLockError::Poisoned(work)) => Some(work.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same once its own thread is done with a few files; nothing while that looks at everything.
    fn work_soon(&self) -> Option<MutexGuard<'_, Work>> {
        let until = Instant::now() + A_FEW_FILES;
        loop {
            match self.try_work() {
                None if Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
                found => return found,
            }
        }
    }

    /// Has what was touched until now looked at; `false` while everything is being looked at, or has to be.
    fn settle(&self) -> bool {
        let Some(mut work) = self.work_soon() else { return false };
        work.drain();
        if work.is_touched() {
            work.apply(&self.root, &self.index, &self.stop);
            self.wake();
        }
        !work.lost
    }

    /// Says in the index what git has, if that may be something else than it says.
    fn ask_git(&self) {
        let stale =
            |mut work: MutexGuard<'_, Work>| work.git.is_some() && std::mem::replace(&mut work.tracked_stale, false);
        if self.try_work().is_some_and(stale)
            && let Some(paths) = self.git.tracked()
        {
            self.index.set_tracked(&self.root, &paths);
        }
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn tell(&self, told: Told) {
        if self.leases.load(Ordering::Relaxed) > 0 {
            (self.tell)(told);
        }
    }
}

impl Lease {
    /// The folder.
    pub fn path(&self) -> &Path {
        self.inner.root.path()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.inner.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.inner.leases.fetch_sub(1, Ordering::Relaxed);
    }
}
