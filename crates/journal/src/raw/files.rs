//! The files of one journal, on disk or in memory.
//!
//! On disk they are opened when needed and closed when nobody uses them; in memory the descriptors are the files, so
//! they stay. Creation writes the head of `ctl` last: a journal without it never held a byte. A journal that is on a roll is
//! made when it first has something to hold, and its `in` with the first byte of input.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::{Advice, MemfdFlags, Mode, OFlags, fadvise, memfd_create};

use super::ctl::{Ctl, PLAIN};
use super::types::{Kind, OpenError};
use crate::{lock, sys};

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
    /// There since the first byte of input.
    input: OnceLock<File>,
    /// Reads may be asked not to wait; memory files and some file systems cannot be.
    pub(crate) nowait: AtomicBool,
}

impl Files {
    fn open<E>(mut open: impl FnMut(&str) -> Result<File, E>) -> Result<Self, E> {
        let (out, err, idx) = (open(OUT)?, open(ERR)?, open(IDX)?);
        Ok(Self { out, err, idx, input: OnceLock::new(), nowait: AtomicBool::new(true) })
    }

    fn with_input(self, input: File) -> Self {
        Self { input: input.into(), ..self }
    }

    /// `in`, if there is one.
    pub(crate) fn input(&self) -> Option<&File> {
        self.input.get()
    }

    /// One of them by its name on disk.
    pub(super) fn named(&self, name: &str) -> Option<&File> {
        match name {
            OUT => Some(&self.out),
            ERR => Some(&self.err),
            IDX => Some(&self.idx),
            IN => self.input(),
            _ => None,
        }
    }

    pub(crate) fn raw(&self, kind: Kind) -> &File {
        if kind == Kind::Stderr { &self.err } else { &self.out }
    }
}

enum Storage {
    Disk(PathBuf),
    Memory { files: Arc<Files>, ctl: File },
}

/// Where the files of a journal are.
pub(crate) struct Home {
    place: Storage,
    open: Mutex<Option<Arc<Files>>>,
    /// The files are there.
    made: AtomicBool,
}

impl Home {
    /// Makes the directory and the files; fails if there is a journal already.
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let create =
            |name: &str| OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(dir.join(name));
        let files = Files::open(create)?.with_input(create(IN)?);
        Ctl::begin(&create(CTL)?, PLAIN)?;
        Ok(Self { open: Mutex::new(Some(Arc::new(files))), ..Self::at(dir) })
    }

    /// A journal that will be in `dir`, once it has something to hold.
    pub(crate) fn later(dir: &Path) -> Self {
        Self { made: AtomicBool::new(false), ..Self::at(dir) }
    }

    /// Whether there are files at all.
    pub(crate) fn is_made(&self) -> bool {
        self.made.load(Ordering::Acquire)
    }

    /// Makes the files that are still to be made; `first` is the record that the index begins with. Tried again after a
    /// failure, it begins anew: nothing is in a journal that is not finished.
    pub(crate) fn make(&self, first: Option<&[u8]>) -> io::Result<()> {
        let Storage::Disk(dir) = &self.place else { return Ok(()) };
        let mut open = lock(&self.open);
        if self.is_made() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let create = |name: &str| {
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(dir.join(name))
        };
        let files = Files::open(create)?;
        sys::write_all_at(&files.idx, first.unwrap_or_default(), 0)?;
        ostler_hooks::hook!("journal.half_made");
        Ctl::begin(&create(CTL)?, PLAIN)?;
        *open = Some(Arc::new(files));
        self.made.store(true, Ordering::Release);
        ostler_hooks::hook!("journal.made");
        Ok(())
    }

    /// `in`, made if there is none.
    pub(crate) fn input<'a>(&self, files: &'a Files) -> io::Result<&'a File> {
        if let (None, Storage::Disk(dir)) = (files.input(), &self.place) {
            let options = &mut OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.join(IN))?;
            // Whoever was first opened the same file.
            let _ = files.input.set(file);
        }
        files.input().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A journal that may exist in `dir`; nothing is opened yet.
    pub(crate) fn at(dir: &Path) -> Self {
        Self { place: Storage::Disk(dir.to_owned()), open: Mutex::new(None), made: AtomicBool::new(true) }
    }

    /// New memory files.
    pub(crate) fn memory() -> io::Result<Self> {
        let create = |name: &str| memfd_create(format!("ostler-{name}"), MemfdFlags::CLOEXEC).map(File::from);
        let files = Files::open(create)?.with_input(create(IN)?);
        let ctl = create(CTL)?;
        Ctl::begin(&ctl, PLAIN)?;
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
            input: File::from(input).into(),
            nowait: AtomicBool::new(true),
        };
        Ok(Self::held(files, ctl.into()))
    }

    fn held(files: Files, ctl: File) -> Self {
        let place = Storage::Memory { files: Arc::new(files), ctl };
        Self { place, open: Mutex::new(None), made: AtomicBool::new(true) }
    }

    /// Duplicates of the memory files; empty on disk.
    pub(crate) fn share(&self) -> io::Result<Vec<OwnedFd>> {
        let Storage::Memory { files, ctl } = &self.place else {
            return Ok(Vec::new());
        };
        let input = files.input().ok_or(io::ErrorKind::NotFound)?;
        [&files.out, &files.err, &files.idx, input, ctl]
            .into_iter()
            .map(|file| file.try_clone().map(OwnedFd::from))
            .collect()
    }

    /// The directory; `None` in memory.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match &self.place {
            Storage::Disk(dir) => Some(dir),
            Storage::Memory { .. } => None,
        }
    }

    /// The files, opened if they are not.
    pub(crate) fn files(&self) -> io::Result<Arc<Files>> {
        let dir = match &self.place {
            Storage::Memory { files, .. } => return Ok(Arc::clone(files)),
            Storage::Disk(dir) => dir,
        };
        let mut open = lock(&self.open);
        if let Some(files) = &*open {
            return Ok(Arc::clone(files));
        }
        let existing = |name: &str| OpenOptions::new().read(true).write(true).open(dir.join(name));
        let mut files = Files::open(existing)?;
        match existing(IN) {
            Ok(input) => files = files.with_input(input),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let files = Arc::new(files);
        *open = Some(Arc::clone(&files));
        Ok(files)
    }

    /// The files, if they are open.
    pub(super) fn opened(&self) -> Option<Arc<Files>> {
        match &self.place {
            Storage::Memory { files, .. } => Some(Arc::clone(files)),
            Storage::Disk(_) => lock(&self.open).clone(),
        }
    }

    /// One file by its name on disk, for a moment.
    pub(super) fn one(&self, name: &str) -> io::Result<File> {
        match &self.place {
            Storage::Disk(dir) => OpenOptions::new().read(true).write(true).open(dir.join(name)),
            Storage::Memory { .. } => Err(io::ErrorKind::NotFound.into()),
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
            Storage::Disk(_) => self.one(CTL),
            Storage::Memory { ctl, .. } => ctl.try_clone(),
        }
    }

    /// A read-only description of `in` of its own, at position 0.
    pub(crate) fn ledger_reader(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let reader = match &self.place {
            Storage::Disk(dir) => rustix::fs::open(dir.join(IN), flags, Mode::empty())?,
            Storage::Memory { files, .. } => {
                use std::os::fd::AsRawFd;
                let input = files.input().ok_or(io::ErrorKind::NotFound)?;
                let path = format!("/proc/self/fd/{}", input.as_raw_fd());
                rustix::fs::open(path, flags, Mode::empty())?
            }
        };
        // No read-ahead into large folios: a page that is punched must never be part of one the pipe still holds.
        let _ = fadvise(reader.as_fd(), 0, None, Advice::Random);
        Ok(reader)
    }
}
