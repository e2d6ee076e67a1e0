//! The files of one event journal. They are opened when needed and closed when nobody uses them, so that a session that
//! rests costs no descriptor. Creation writes the head of `events.ctl` last: without it there never was an event.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::raw::ctl::{Ctl, SIZED};

const DATA: &str = "events";
const IDX: &str = "events.idx";
const CTL: &str = "events.ctl";
const MARK: &str = "events.mark";

/// The files that are used all the time. `events.ctl` is opened for each of its rare records.
pub(crate) struct Files {
    pub(crate) data: File,
    pub(crate) idx: File,
    /// Reads may be asked not to wait; some file systems cannot be.
    pub(crate) nowait: AtomicBool,
}

impl Files {
    fn open(mut open: impl FnMut(&str) -> io::Result<File>) -> io::Result<Self> {
        Ok(Self { data: open(DATA)?, idx: open(IDX)?, nowait: AtomicBool::new(true) })
    }
}

/// Where the files of an event journal are.
pub(crate) struct Home {
    dir: PathBuf,
    open: Mutex<Option<Arc<Files>>>,
}

impl Home {
    /// Makes the directory and the files; fails if there is a journal already. One whose creation was cut short held
    /// nothing and is made anew.
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        if std::fs::metadata(dir.join(CTL)).is_ok_and(|ctl| ctl.len() > 0) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is an event journal already"));
        }
        let mut new = OpenOptions::new();
        new.read(true).write(true).create(true).truncate(true).mode(0o600);
        let files = Files::open(|name| new.open(dir.join(name)))?;
        Ctl::begin(&new.open(dir.join(CTL))?, SIZED)?;
        Ok(Self { dir: dir.to_owned(), open: Mutex::new(Some(Arc::new(files))) })
    }

    /// A journal that may exist in `dir`; nothing is opened yet.
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), open: Mutex::new(None) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Somebody began to create it.
    pub(crate) fn is_begun(&self) -> bool {
        self.dir.join(DATA).exists()
    }

    /// The files, opened if they are not.
    pub(crate) fn files(&self) -> io::Result<Arc<Files>> {
        let mut open = lock(&self.open);
        if let Some(files) = &*open {
            return Ok(Arc::clone(files));
        }
        let files = Arc::new(self.existing()?);
        *open = Some(Arc::clone(&files));
        Ok(files)
    }

    /// The files for one use; those that were closed are not kept open for it.
    pub(crate) fn files_once(&self) -> io::Result<Arc<Files>> {
        let open = lock(&self.open).clone();
        open.map_or_else(|| self.existing().map(Arc::new), Ok)
    }

    fn existing(&self) -> io::Result<Files> {
        Files::open(|name| OpenOptions::new().read(true).write(true).open(self.dir.join(name)))
    }

    /// Lets the descriptors go as soon as nobody is in the middle of using them.
    pub(crate) fn close(&self) {
        let files = lock(&self.open).take();
        // Not under the lock: closing a file of a server that stalls waits for it.
        drop(files);
    }

    /// The file of control records.
    pub(crate) fn ctl(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.dir.join(CTL))
    }

    /// Where it is said how much is on the disk.
    pub(crate) fn mark(&self) -> PathBuf {
        self.dir.join(MARK)
    }
}
