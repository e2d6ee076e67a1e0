//! An event journal's part in the group sync: data before index, by the same thread as the raw journals.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::EventJournal;
use super::files::Files;
use crate::index::RECORD;
use crate::lock;
use crate::raw::ctl::Fact;
use crate::raw::mark::Mark;
use crate::sync::Sync;

/// How much was visible at a moment.
#[derive(Clone, Copy)]
pub(crate) struct Visible {
    record: u64,
    mark: Mark,
}

impl EventJournal {
    /// From now on it is synced there. Only the first call counts.
    pub(crate) fn sync_with(self: &Arc<Self>, sync: &Arc<Sync>) {
        let _ = self.sync.set(Arc::downgrade(sync));
        // Whatever was appended before, by whomever.
        self.is_dirty();
    }

    /// Something is not on the disk. Costs an atomic swap while that is known.
    pub(super) fn is_dirty(self: &Arc<Self>) {
        if let Some(sync) = self.sync.get().and_then(Weak::upgrade)
            && !self.dirty.swap(true, Ordering::AcqRel)
        {
            sync.mark_events(self);
        }
    }

    /// A sync that begins after this covers what it says; what is appended later is dirty again.
    pub(crate) fn begin_sync(&self) -> Visible {
        self.dirty.store(false, Ordering::SeqCst);
        let state = lock(&self.state);
        let record = state.bounds.last;
        Visible { record, mark: Mark { out: state.data_end, err: record * RECORD as u64 } }
    }

    /// Puts it on the disk. A failure is final: the kernel has dropped what was dirty or will, and a second try that
    /// succeeds proves nothing.
    pub(crate) fn finish_sync(self: &Arc<Self>, visible: Visible) {
        let files = match self.home.files_once() {
            Ok(files) => files,
            // Deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            // Nothing was tried, so nothing is lost: too many open files.
            Err(_) => return self.is_dirty(),
        };
        if sync_files(&files).is_ok() {
            if visible.mark.write(&self.home.mark()).is_err() {
                Mark::remove(&self.home.mark());
            }
            self.synced.store(visible.record, Ordering::Relaxed);
            // Names and facts; what could not be done now is done with the next record.
            let _ = self.settle();
            return;
        }
        let from = self.synced.load(Ordering::Relaxed) + 1;
        // The fact may not be written either; readers of this daemon know in any case.
        let _ = self.record(Fact::Damaged(from));
        self.damaged(from);
    }

    /// Nothing is synced any more, so nothing is to be cut after a power loss.
    pub(crate) fn forgo_sync(&self) {
        Mark::remove(&self.home.mark());
    }

    /// Puts its facts and its names on the disk; without a name its bytes would be there but not found.
    fn settle(&self) -> io::Result<()> {
        // First, so that a fact which is recorded meanwhile is not taken for one that is there.
        if self.settled.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.sync_names().inspect_err(|_| self.settled.store(false, Ordering::Release))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.home.ctl()?.sync_data()?;
        let dir = self.home.dir();
        File::open(dir)?.sync_all()?;
        dir.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }
}

fn sync_files(files: &Files) -> io::Result<()> {
    if let Some(errno) = ostler_hooks::fault!("derived.sync") {
        return Err(io::Error::from_raw_os_error(errno));
    }
    files.data.sync_data()?;
    files.idx.sync_data()
}
