//! The kernel's own word on what happens in folders, each added by its open descriptor: a path could lead elsewhere by now.
//! There is a limit to them, which all programs of a user share; that it is reached is said, once.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::index::walk::Enter;

/// Folders that one root may watch: what the system allows for all together is often not much more.
pub const FOLDERS_MAX: usize = 100_000;
/// Read at once.
const BUFFER: usize = 64 << 10;
/// Taken at once, so that whoever waits behind is not held up for long.
const EVENTS_MAX: usize = 16 << 10;

/// What a watched folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watched {
    /// A folder of the workspace, from its root on.
    Work(PathBuf),
    /// A folder of git, as an absolute path.
    Git(PathBuf),
}

/// One word of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Something about a name in a folder; a move has a number that its two halves share.
    Name { place: Watched, name: OsString, moved: Option<(u32, Half)> },
    /// Something about the folder itself: it may be gone, or elsewhere.
    Itself(Watched),
    /// There was more than the kernel keeps.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    From,
    To,
}

#[derive(Debug, Default)]
struct Folders {
    places: HashMap<i32, Watched>,
    /// Why there are not more.
    limit: Option<String>,
}

/// A queue of the kernel.
#[derive(Debug)]
pub(super) struct Inotify {
    queue: OwnedFd,
    folders: Mutex<Folders>,
    most: usize,
}

impl Inotify {
    pub(super) fn new(most: usize) -> Result<Self, String> {
        let queue =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| limit_of(errno, most))?;
        Ok(Self { queue, folders: Mutex::default(), most })
    }

    pub(super) fn queue(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    fn folders(&self) -> MutexGuard<'_, Folders> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why not everything is watched, if it is not.
    pub(super) fn limit(&self) -> Option<String> {
        self.folders().limit.clone()
    }

    /// Watches an open folder; what was known of it under another name is forgotten.
    pub(super) fn add(&self, place: Watched, folder: BorrowedFd<'_>) {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::ONLYDIR;
        let mut folders = self.folders();
        if folders.limit.is_some() {
            return;
        }
        let own = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let added = match folders.places.len() < self.most {
            true => inotify::add_watch(&self.queue, own, flags),
            false => Err(Errno::NOSPC),
        };
        match added {
            Ok(number) => drop(folders.places.insert(number, place)),
            // Gone meanwhile, or not ours to look into.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(errno) => folders.limit = Some(limit_of(errno, self.most)),
        }
    }

    /// Does not watch a folder of the workspace any more, nor what is beneath it.
    pub(super) fn remove(&self, path: &Path) {
        let beneath = |place: &Watched| matches!(place, Watched::Work(folder) if folder.starts_with(path));
        let mut folders = self.folders();
        let gone: Vec<i32> =
            folders.places.iter().filter(|(_, place)| beneath(place)).map(|(number, _)| *number).collect();
        for number in gone {
            folders.places.remove(&number);
            // It may have gone by itself.
            let _ = inotify::remove_watch(&self.queue, number);
        }
    }

    /// Takes what the kernel has to say; whether there is more already.
    pub(super) fn drain(&self, mut take: impl FnMut(Word)) -> bool {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        for _ in 0..EVENTS_MAX {
            // Nothing more; anything else that could go wrong with a queue of our own is as good as that.
            let Ok(event) = reader.next() else { return false };
            let (flags, name) = (event.events(), event.file_name().map(CStr::to_bytes));
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                take(Word::Lost);
                continue;
            }
            let mut folders = self.folders();
            if flags.contains(ReadFlags::IGNORED) {
                folders.places.remove(&event.wd());
                continue;
            }
            let Some(place) = folders.places.get(&event.wd()).cloned() else { continue };
            drop(folders);
            let Some(name) = name else {
                take(Word::Itself(place));
                continue;
            };
            let half = match () {
                () if flags.contains(ReadFlags::MOVED_FROM) => Some(Half::From),
                () if flags.contains(ReadFlags::MOVED_TO) => Some(Half::To),
                () => None,
            };
            let moved = half.map(|half| (event.cookie(), half));
            take(Word::Name { place, name: OsStr::from_bytes(name).to_owned(), moved });
        }
        true
    }
}

/// The walk of an index puts a watch on each folder before it reads what is in it.
impl Enter for Inotify {
    fn enter(&self, path: &Path, folder: BorrowedFd<'_>) -> bool {
        self.add(Watched::Work(path.to_owned()), folder);
        true
    }
}

fn limit_of(errno: Errno, most: usize) -> String {
    match errno {
        Errno::NOSPC => {
            let system = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
            let system = system.ok().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(0);
            let ours = if system == 0 || system > most {
                format!("; at most {most} for one workspace")
            } else {
                String::new()
            };
            format!("the system watches no more folders (fs.inotify.max_user_watches is {system}{ours})")
        }
        Errno::MFILE => "the system has no more queues for watching (fs.inotify.max_user_instances)".into(),
        errno => format!("the system cannot watch folders: {errno}"),
    }
}
