//! The doors of an instance as others see them: those that it opened, and those of programs that joined. Whatever changes is
//! in the register before anybody is told that it did.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_engine::MayWait;

use crate::instances::{DoorRecord, InstanceRecord};

/// The list; shared by who opens doors and who tells of them.
pub(crate) struct OpenDoors {
    dir: PathBuf,
    /// As the instance registered; with its own doors.
    record: InstanceRecord,
    joined: Mutex<BTreeMap<String, DoorRecord>>,
    /// Held while the register is written: of two changes at once the later one stays.
    writing: Mutex<()>,
}

impl OpenDoors {
    pub(super) fn new(dir: PathBuf, record: InstanceRecord) -> Arc<Self> {
        Arc::new(Self { dir, record, joined: Mutex::default(), writing: Mutex::default() })
    }

    /// All of them, the instance's own first.
    pub(super) fn list(&self) -> Vec<DoorRecord> {
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        self.record.doors.iter().chain(joined.values()).cloned().collect()
    }

    /// The program of this name has opened a door.
    pub(super) async fn enter(self: &Arc<Self>, name: &str, door: DoorRecord) {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), door);
        self.register().await;
    }

    /// It has closed it.
    pub(super) async fn leave(self: &Arc<Self>, name: &str) {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.register().await;
    }

    async fn register(self: &Arc<Self>) {
        let list = Arc::clone(self);
        let written = MayWait::pool(move |_| {
            let _writing = list.writing.lock().unwrap_or_else(PoisonError::into_inner);
            InstanceRecord { doors: list.list(), ..list.record.clone() }.write(&list.dir)
        });
        if let Ok(Err(error)) = written.await {
            tracing::warn!("{}: not entered in the register: {error}", self.dir.display());
        }
    }
}
