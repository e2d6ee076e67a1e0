//! A walk over everything beneath a folder that is not ignored, with all processors. Each folder is opened beneath the root, so
//! nothing leads out; no link is followed, no mount entered, and nothing waits for a pipe.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};
use rustix::io::Errno;

use super::rules::{GIT, is_rules};
use super::{Known, Layer, Rules};
use crate::beneath::{BeneathError, Root, Stated};

/// Whether a name in a folder decides what is ignored there.
pub(crate) fn changes_rules(name: &OsStr) -> bool {
    is_rules(name) && name != GIT
}

/// More threads only wait for the same disk.
const THREADS_MAX: usize = 8;

/// Who wants to know of a folder before its names are read: whatever comes into it later is told by a watch.
pub(crate) trait Enter: Sync {
    /// A folder is about to be read; `false` ends the walk.
    fn enter(&self, path: &Path, folder: BorrowedFd<'_>) -> bool;
}

/// Nobody.
impl Enter for () {
    fn enter(&self, _: &Path, _: BorrowedFd<'_>) -> bool {
        true
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) paths: Vec<(Box<[u8]>, Known)>,
    /// Layers of rules, by their folder.
    pub(crate) layers: Vec<(PathBuf, Arc<Layer>)>,
    pub(crate) gaps: Gaps,
}

/// What a walk did not see, or what changes without being seen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// Folders that could not be read.
    pub(crate) unreadable: u64,
    /// Folders on which something else is mounted.
    pub(crate) mounts: u64,
    /// Repositories in the repository.
    pub(crate) repositories: u64,
    /// Files with several names: a change through another one is not told.
    pub(crate) linked: u64,
    /// Files of rules that git does not know.
    pub(crate) rules: u64,
    /// There is more than fits.
    pub(crate) cut: bool,
}

impl Gaps {
    pub(crate) fn add(&mut self, more: &Self) {
        self.unreadable += more.unreadable;
        self.mounts += more.mounts;
        self.repositories += more.repositories;
        self.linked += more.linked;
        self.rules += more.rules;
        self.cut |= more.cut;
    }
}

struct Work {
    folder: PathBuf,
    layer: Option<Arc<Layer>>,
}

/// Folders still to be read.
#[derive(Default)]
struct Queue {
    state: Mutex<(Vec<Work>, usize)>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, (Vec<Work>, usize)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next folder; nothing when all of them are read.
    fn take(&self, stop: &AtomicBool) -> Option<Work> {
        let mut state = self.state();
        loop {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(work) = state.0.pop() {
                state.1 += 1;
                return Some(work);
            }
            if state.1 == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A folder is read, and these are in it.
    fn done(&self, found: Vec<Work>) {
        let mut state = self.state();
        state.0.extend(found);
        state.1 -= 1;
        drop(state);
        self.changed.notify_all();
    }
}

/// A name in a folder, as its path: made once, for as long as the index has it.
fn joined(folder: &Path, name: &OsStr) -> Box<[u8]> {
    match folder.as_os_str().as_bytes() {
        [] => name.as_bytes().into(),
        folder => [folder, b"/", name.as_bytes()].concat().into(),
    }
}

/// A walk that may be ended.
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Root,
    pub(crate) rules: &'a Rules,
    pub(crate) enter: &'a dyn Enter,
    /// Set by whoever wants no more of it.
    pub(crate) stop: &'a AtomicBool,
    /// At most so many paths.
    pub(crate) most: usize,
}

impl Walk<'_> {
    /// Everything beneath a folder, in order but for where the parts of several threads meet. `layer` holds around it.
    pub(crate) fn beneath(&self, folder: &Path, layer: Option<Arc<Layer>>) -> Result<Walked, BeneathError> {
        // The first one alone: that it cannot be read is an error, and a small one needs no threads.
        let (queue, found) = (Queue::default(), AtomicUsize::new(0));
        let mut walked = Walked::default();
        let first = self.read(Work { folder: folder.to_owned(), layer }, &mut walked, &found)?;
        if first.is_empty() {
            return Ok(walked);
        }
        queue.state().0 = first;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let worker = || {
            let mut walked = Walked::default();
            while let Some(work) = queue.take(self.stop) {
                let inside = self.read(work, &mut walked, &found).unwrap_or_default();
                queue.done(inside);
            }
            // Whoever waits for more looks again.
            queue.changed.notify_all();
            // Here, with all processors: what is in order piece by piece is soon in order as a whole.
            walked.paths.sort_unstable_by(|one, two| one.0.cmp(&two.0));
            walked
        };
        let rest: Vec<Walked> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
            let mut rest = vec![worker()];
            rest.extend(others.into_iter().filter_map(|thread| thread.join().ok()));
            rest
        });
        for part in rest {
            walked.paths.extend(part.paths);
            walked.layers.extend(part.layers);
            walked.gaps.add(&part.gaps);
        }
        Ok(walked)
    }

    /// One folder; the folders in it. An error is the first folder's own: deeper ones are counted.
    fn read(&self, work: Work, walked: &mut Walked, found: &AtomicUsize) -> Result<Vec<Work>, BeneathError> {
        let Work { folder: path, layer } = work;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let folder = match self.root.at(&path, flags) {
            Ok(folder) => folder,
            Err(error) => {
                match error {
                    BeneathError::Outside(_) => walked.gaps.mounts += 1,
                    // Gone meanwhile, or no folder any more: a watch tells.
                    BeneathError::Missing(_) | BeneathError::NotAFolder(_) => {}
                    _ => walked.gaps.unreadable += 1,
                }
                return Err(error);
            }
        };
        if !self.enter.enter(&path, folder.as_fd()) {
            self.stop.store(true, Ordering::Relaxed);
        }
        let failed = |errno: Errno| BeneathError::of(&path, errno);
        let (names, whole) = self.names(folder.as_fd(), found).map_err(|errno| {
            walked.gaps.unreadable += 1;
            failed(errno)
        })?;
        walked.gaps.cut |= !whole;
        let mut absolute = self.root.path().join(&path);
        let rules = names.iter().filter(|(name, _)| is_rules(name));
        let around = layer.clone();
        let layer = Layer::of(folder.as_fd(), &absolute, rules.map(|(name, _)| name.as_os_str()), layer);
        if let Some(new) = layer.as_ref().filter(|new| around.as_ref().is_none_or(|old| !Arc::ptr_eq(old, new))) {
            walked.gaps.rules += u64::from(new.has_own());
            walked.layers.push((path.clone(), Arc::clone(new)));
        }
        let mut inside = Vec::new();
        absolute.push("x");
        for (name, kind) in names {
            if name == GIT {
                walked.gaps.repositories += u64::from(!path.as_os_str().is_empty());
                continue;
            }
            absolute.set_file_name(&name);
            let is_folder = kind == FileType::Directory;
            if self.rules.ignores(layer.as_deref(), &absolute, is_folder) {
                continue;
            }
            let whole = joined(&path, &name);
            if is_folder {
                inside.push(Work { folder: Path::new(OsStr::from_bytes(&whole)).to_owned(), layer: layer.clone() });
                walked.paths.push((whole, Known::folder()));
                continue;
            }
            let Ok(stat) = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let stated = Stated::from(&stat);
            walked.gaps.linked += u64::from(stat.st_nlink > 1);
            let known = Known::of(Path::new(OsStr::from_bytes(&whole)), &stated);
            walked.paths.push((whole, known));
        }
        Ok(inside)
    }

    /// The names in a folder with what they are, as far as there is room; whether these are all.
    fn names(&self, folder: BorrowedFd<'_>, found: &AtomicUsize) -> Result<(Vec<(OsString, FileType)>, bool), Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.stop.load(Ordering::Relaxed) || found.fetch_add(1, Ordering::Relaxed) >= self.most {
                return Ok((names, false));
            }
            let kind = match entry.file_type() {
                // Some file systems do not tell.
                FileType::Unknown => match statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            names.push((OsStr::from_bytes(name).to_owned(), kind));
        }
        Ok((names, true))
    }
}
