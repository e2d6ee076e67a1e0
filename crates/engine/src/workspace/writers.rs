//! One writer for each repository: two that stage or commit at once would find each other's lock and fail. Who waits is told for
//! whom. Programs that we do not host have git's own lock.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Process;

/// How long a writer waits for the one before it; a hook may take minutes, and nobody waits for that.
const WAITS: Duration = Duration::from_secs(5);
/// How often it looks whether a hosted process is over.
const LOOKS: Duration = Duration::from_millis(50);

/// Somebody else changes the repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is changing this repository{}", process.as_ref().map_or(String::new(), |id| format!(" ({id})")))]
pub struct Busy {
    /// What it is doing.
    pub what: String,
    /// The hosted process that does it.
    pub process: Option<String>,
}

#[derive(Clone)]
struct Holder {
    what: String,
    process: Option<Process>,
}

impl Holder {
    fn is_over(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.is_running())
    }
}

/// Who changes which repository: as many as there are turns and hosted processes.
#[derive(Clone, Default)]
pub(crate) struct Writers(Arc<(Mutex<HashMap<PathBuf, Holder>>, Condvar)>);

/// The right to change a repository.
pub struct Turn {
    writers: Writers,
    repository: PathBuf,
    handed_on: bool,
}

impl Writers {
    fn holders(&self) -> MutexGuard<'_, HashMap<PathBuf, Holder>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a moment for whoever has it.
    pub(crate) fn take(&self, repository: &Path, what: &str) -> Result<Turn, Busy> {
        let until = Instant::now() + WAITS;
        let mut holders = self.holders();
        loop {
            holders.retain(|_, holder| !holder.is_over());
            let Some(holder) = holders.get(repository) else { break };
            if Instant::now() >= until {
                let process = holder.process.as_ref().map(|process| process.id().to_owned());
                return Err(Busy { what: holder.what.clone(), process });
            }
            holders = self.0.1.wait_timeout(holders, LOOKS).unwrap_or_else(PoisonError::into_inner).0;
        }
        holders.insert(repository.to_owned(), Holder { what: what.to_owned(), process: None });
        Ok(Turn { writers: self.clone(), repository: repository.to_owned(), handed_on: false })
    }
}

impl Turn {
    /// It is the process's from now on, until that ends.
    pub(super) fn belongs_to(mut self, process: &Process) {
        if let Some(holder) = self.writers.holders().get_mut(&self.repository) {
            holder.process = Some(process.clone());
        }
        self.handed_on = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.handed_on {
            self.writers.holders().remove(&self.repository);
        }
        self.writers.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_waits_and_is_told_for_whom_if_it_waits_too_long() {
        let writers = Writers::default();
        let first = writers.take(Path::new("/a"), "git add").unwrap();
        assert!(writers.take(Path::new("/b"), "git add").is_ok(), "another repository is another matter");
        let waiting = std::thread::spawn({
            let writers = writers.clone();
            move || writers.take(Path::new("/a"), "git commit").map(drop)
        });
        std::thread::sleep(Duration::from_millis(100));
        drop(first);
        waiting.join().unwrap().unwrap();
        let _held = writers.take(Path::new("/a"), "git stash").unwrap();
        let said = writers.take(Path::new("/a"), "git add").err().unwrap();
        assert_eq!(said.to_string(), "git stash is changing this repository");
    }
}
