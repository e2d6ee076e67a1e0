//! The thread of a watch: it walks, hears, looks and tells.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::statfs;

use super::inotify::Inotify;
use super::work::Work;
use super::{Inner, Phase, Told};

/// The longest that nothing is looked at: whether the root is still there, and whether anybody still asks.
const IDLE: Duration = Duration::from_secs(10);
/// Looking at everything takes at most this part of the time where it is polled.
const POLL_SHARE: u32 = 20;
/// File systems on which others change files without a word to us: NFS, SMB, FUSE, 9P, Ceph, AFS.
const SILENT: [i64; 8] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f];

pub(super) fn run(inner: &Inner) {
    let mut watching = Watching { inner, next_poll: None, signature: Vec::new() };
    watching.begin();
    while watching.wait() {
        watching.turn();
    }
    // The names are not needed any more, whoever still holds the handle.
    *inner.index.write() = crate::index::Names::default();
    inner.over.store(true, Ordering::Relaxed);
    let mut status = inner.status();
    status.phase = Phase::Failed("nobody asked for it any more".into());
    drop(status);
    inner.changed.notify_all();
}

struct Watching<'a> {
    inner: &'a Inner,
    next_poll: Option<Instant>,
    /// How git stood when it was looked at last, where it is polled.
    signature: Vec<(std::path::PathBuf, u64, i64, i64)>,
}

impl<'a> Watching<'a> {
    fn work(&self) -> MutexGuard<'a, Work> {
        self.inner.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&mut self) {
        let mut work = self.work();
        let silent = statfs(self.inner.root.path()).is_ok_and(|file_system| SILENT.contains(&file_system.f_type));
        let inotify = match silent {
            true => Err("this file system does not tell what others change on it".to_owned()),
            false => Inotify::new(self.inner.folders_max),
        };
        let refused = inotify.as_ref().err().cloned();
        work.inotify = inotify.ok().map(Arc::new);
        work.state.quiet_until(Instant::now() + self.inner.timing.quiet);
        self.find_git(&mut work);
        drop(work);
        if let Some(why) = refused {
            self.poll_from_now_on(why);
        }
        self.scan();
    }

    fn find_git(&self, work: &mut Work) {
        work.git = self.inner.git.place();
        work.git_moved = false;
        self.inner.status().git.clone_from(&work.git);
        work.seen += 1;
        work.tracked_stale = true;
        if let (Some(git), Some(inotify)) = (&work.git, &work.inotify) {
            git.watch(inotify);
        }
    }

    /// Looks at everything.
    fn scan(&mut self) {
        self.inner.status().phase = Phase::Indexing;
        let (began, mut work) = (Instant::now(), self.work());
        let scanned = work.scan(&self.inner.root, &self.inner.index, &self.inner.stop);
        let limit = work.inotify.as_ref().and_then(|inotify| inotify.limit());
        if limit.is_some() {
            // The folders that are watched are of more use to others.
            work.inotify = None;
        }
        self.inner.scans.fetch_add(1, Ordering::Relaxed);
        let mut status = self.inner.status();
        status.last_full_scan = Some(SystemTime::now());
        status.last_update = status.last_full_scan;
        status.phase = match scanned {
            Ok(()) => Phase::Ready,
            Err(error) => Phase::Failed(error.to_string()),
        };
        (status.unreadable, status.cut) = (work.gaps.unreadable, work.gaps.cut);
        // Together with the end of the first walk: who waited for that knows this too.
        status.polled = limit.clone().or(status.polled.take());
        drop((status, work));
        if let Some(why) = limit {
            self.poll_from_now_on(why);
        }
        if self.next_poll.is_some() {
            let pause = self.inner.timing.poll.max(began.elapsed() * POLL_SHARE);
            self.next_poll = Some(Instant::now() + pause);
        }
        self.inner.changed.notify_all();
    }

    fn poll_from_now_on(&mut self, why: String) {
        self.next_poll = Some(Instant::now() + self.inner.timing.poll);
        let work = self.work();
        let signature = work.git.as_ref().map(super::GitPlace::signature).unwrap_or_default();
        drop(work);
        self.signature = signature;
        self.inner.status().polled = Some(why.clone());
        self.inner.tell(Told::Polled(why));
    }

    /// Waits until there is something to do; `false` when the end has come.
    fn wait(&self) -> bool {
        let inner = self.inner;
        let (queue, due) = {
            let work = self.work();
            let due = [work.files.due(), work.state.due(), self.next_poll].into_iter().flatten().min();
            (work.inotify.clone(), due)
        };
        let now = Instant::now();
        let left = due.map_or(IDLE, |due| due.saturating_duration_since(now)).min(IDLE).min(inner.timing.unused);
        let mut watched = vec![PollFd::new(&inner.wake, PollFlags::IN)];
        watched.extend(queue.as_ref().map(|queue| PollFd::from_borrowed_fd(queue.queue(), PollFlags::IN)));
        let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let _ = poll(&mut watched, Some(&left));
        let _ = rustix::io::read(&inner.wake, &mut [0_u8; 8]);
        let idle = inner.leases.load(Ordering::Relaxed) == 0
            && inner.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > inner.timing.unused;
        !inner.stop.load(Ordering::Relaxed) && !idle
    }

    fn turn(&mut self) {
        let inner = self.inner;
        let now = Instant::now();
        // Whoever is told of a file is told whether git has it.
        if inner.leases.load(Ordering::Relaxed) > 0 {
            inner.ask_git();
        }
        let mut work = self.work();
        work.drain();
        // No word comes of a folder that we hold open ourselves.
        if !inner.root.is_there() {
            drop(work);
            inner.status().phase = Phase::Failed("the folder is not there any more".into());
            *inner.index.write() = crate::index::Names::default();
            inner.tell(Told::Gone);
            inner.stop.store(true, Ordering::Relaxed);
            return;
        }
        let files_due = work.files.due().is_some_and(|due| due <= now);
        let state_due = work.state.due().is_some_and(|due| due <= now);
        if state_due && work.git_moved {
            self.find_git(&mut work);
            // Other rules may hold now.
            work.lose();
            work.files.happened(now);
        }
        let polled = self.next_poll.is_some_and(|next| next <= now);
        let asked = inner.rebuild.swap(false, Ordering::Relaxed);
        if asked || polled || (work.lost && files_due) {
            drop(work);
            self.scan();
            work = self.work();
        } else if files_due {
            work.apply(&inner.root, &inner.index, &inner.stop);
        }
        let files = (files_due || polled || asked).then(|| self.files(&mut work)).flatten();
        let state = state_due || (polled && self.state_differs(&work));
        if state {
            work.state.told(Instant::now());
        }
        // A new folder may have been one too many.
        let limit = work.inotify.as_ref().and_then(|inotify| inotify.limit());
        if limit.is_some() {
            work.inotify = None;
        }
        // Whoever is told may take its time.
        drop(work);
        if let Some(why) = limit {
            self.poll_from_now_on(why);
        }
        files.into_iter().chain(state.then_some(Told::Git)).for_each(|told| inner.tell(told));
    }

    /// What is told of files.
    fn files(&self, work: &mut Work) -> Option<Told> {
        work.files.told(Instant::now());
        if work.changes.is_empty() {
            return None;
        }
        self.inner.status().last_update = Some(SystemTime::now());
        Some(work.changes.take().map_or(Told::LookAgain, Told::Files))
    }
}

impl Watching<'_> {
    /// Whether git stands otherwise than when it was looked at last, where it is polled.
    fn state_differs(&mut self, work: &Work) -> bool {
        let signature = work.git.as_ref().map(super::GitPlace::signature).unwrap_or_default();
        let differs = signature != self.signature;
        self.signature = signature;
        differs
    }
}
