//! The files of one journal, on disk or in memory.
//!
//! On disk they are opened when needed and closed when nobody uses them; in memory the descriptors are the files, so
//! they stay. Creation writes the head of `ctl` last: a journal without it never held a byte.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use rustix::fs::{Advice, MemfdFlags, Mode, OFlags, fadvise, memfd_create};

use super::ledger::Ctl;
use super::types::{Kind, OpenError};
use crate::lock;

/// Names on disk, and the order in which memory files are held.
pub(crate) const OUT: &str = "out";
pub(crate) const ERR: &str = "err";
pub(crate) const IDX: &str = "idx";
pub(crate) const IN: &str = "in";
pub(super) const CTL: &str = "ctl";

/// The files that are used all the time. `ctl` is opened for each of its rare records.
pub(crate) struct Files {
    pub(crate) out: File,
    pub(crate) err: File,
    pub(crate) idx: File,
    pub(crate) input: File,
    /// Reads may be asked not to wait; memory files and some file systems cannot be.
    pub(crate) nowait: AtomicBool,
}

impl Files {
    fn open<E>(mut open: impl FnMut(&str) -> Result<File, E>) -> Result<Self, E> {
        Ok(Self { out: open(OUT)?, err: open(ERR)?, idx: open(IDX)?, input: open(IN)?, nowait: AtomicBool::new(true) })
    }

    /// One of them by its name on disk.
    pub(super) fn named(&self, name: &str) -> Option<&File> {
        match name {
            OUT => Some(&self.out),
            ERR => Some(&self.err),
            IDX => Some(&self.idx),
            IN => Some(&self.input),
            _ => None,
        }
    }

    pub(crate) fn raw(&self, kind: Kind) -> &File {
        if kind == Kind::Stderr { &self.err } else { &self.out }
    }
}

enum Place {
    Disk(PathBuf),
    Memory { files: Arc<Files>, ctl: File },
}

/// Where the files of a journal are.
pub(crate) struct Home {
    place: Place,
    open: Mutex<Option<Arc<Files>>>,
}

impl Home {
    /// Makes the directory and the files; fails if there is a journal already.
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let create =
            |name: &str| OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(dir.join(name));
        let files = Files::open(create)?;
        Ctl::begin(&create(CTL)?)?;
        Ok(Self { place: Place::Disk(dir.to_owned()), open: Mutex::new(Some(Arc::new(files))) })
    }

    /// A journal that may exist in `dir`; nothing is opened yet.
    pub(crate) fn at(dir: &Path) -> Self {
        Self { place: Place::Disk(dir.to_owned()), open: Mutex::new(None) }
    }

    /// New memory files.
    pub(crate) fn memory() -> io::Result<Self> {
        let create = |name: &str| memfd_create(format!("ostler-{name}"), MemfdFlags::CLOEXEC).map(File::from);
        let files = Files::open(create)?;
        let ctl = create(CTL)?;
        Ctl::begin(&ctl)?;
        Ok(Self::held(files, ctl))
    }

    /// Memory files that somebody kept for us, in the order of [`share`](Self::share).
    pub(crate) fn from_held(fds: Vec<OwnedFd>) -> Result<Self, OpenError> {
        let [out, err, idx, input, ctl] = <[OwnedFd; 5]>::try_from(fds)
            .map_err(|fds| OpenError::Damaged { what: format!("{} memory files instead of 5", fds.len()) })?;
        let files = Files {
            out: out.into(),
            err: err.into(),
            idx: idx.into(),
            input: input.into(),
            nowait: AtomicBool::new(true),
        };
        Ok(Self::held(files, ctl.into()))
    }

    fn held(files: Files, ctl: File) -> Self {
        Self { place: Place::Memory { files: Arc::new(files), ctl }, open: Mutex::new(None) }
    }

    /// Duplicates of the memory files; empty on disk.
    pub(crate) fn share(&self) -> io::Result<Vec<OwnedFd>> {
        let Place::Memory { files, ctl } = &self.place else {
            return Ok(Vec::new());
        };
        [&files.out, &files.err, &files.idx, &files.input, ctl]
            .into_iter()
            .map(|file| file.try_clone().map(OwnedFd::from))
            .collect()
    }

    /// The directory; `None` in memory.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match &self.place {
            Place::Disk(dir) => Some(dir),
            Place::Memory { .. } => None,
        }
    }

    /// The files, opened if they are not.
    pub(crate) fn files(&self) -> io::Result<Arc<Files>> {
        let dir = match &self.place {
            Place::Memory { files, .. } => return Ok(Arc::clone(files)),
            Place::Disk(dir) => dir,
        };
        let mut open = lock(&self.open);
        if let Some(files) = &*open {
            return Ok(Arc::clone(files));
        }
        let existing = |name: &str| OpenOptions::new().read(true).write(true).open(dir.join(name));
        let files = Arc::new(Files::open(existing)?);
        *open = Some(Arc::clone(&files));
        Ok(files)
    }

    /// The files, if they are open.
    pub(super) fn opened(&self) -> Option<Arc<Files>> {
        match &self.place {
            Place::Memory { files, .. } => Some(Arc::clone(files)),
            Place::Disk(_) => lock(&self.open).clone(),
        }
    }

    /// One file by its name on disk, for a moment.
    pub(super) fn one(&self, name: &str) -> io::Result<File> {
        match &self.place {
            Place::Disk(dir) => OpenOptions::new().read(true).write(true).open(dir.join(name)),
            Place::Memory { .. } => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Lets the descriptors go as soon as nobody is in the middle of using them.
    pub(crate) fn close(&self) {
        let files = lock(&self.open).take();
        // Not under the lock: closing a file of a server that stalls waits for it.
        drop(files);
    }

    /// The file of control records.
    pub(crate) fn ctl(&self) -> io::Result<File> {
        match &self.place {
            Place::Disk(_) => self.one(CTL),
            Place::Memory { ctl, .. } => ctl.try_clone(),
        }
    }

    /// A read-only description of `in` of its own, at position 0.
    pub(crate) fn ledger_reader(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let reader = match &self.place {
            Place::Disk(dir) => rustix::fs::open(dir.join(IN), flags, Mode::empty())?,
            Place::Memory { files, .. } => {
                use std::os::fd::AsRawFd;
                let path = format!("/proc/self/fd/{}", files.input.as_raw_fd());
                rustix::fs::open(path, flags, Mode::empty())?
            }
        };
        // No read-ahead into large folios: a page that is punched must never be part of one the pipe still holds.
        let _ = fadvise(reader.as_fd(), 0, None, Advice::Random);
        Ok(reader)
    }
}
