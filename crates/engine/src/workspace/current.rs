//! The current session of a repository, for clients that know one agent there and not several: the one that they prompted last.
//! And folders that somebody wants listed although no session works there. Both outlive their clients and this program.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_workspace::{Durable, read_small, replace};
use serde::{Deserialize, Serialize};

use crate::session::Status;
use crate::{Engine, MayWait, Session};

const FILE: &str = "current.json";
/// The format of the file; a newer one is left alone.
const VERSION: u32 = 1;
/// Repositories that are remembered: more than anybody works in.
const MOST: usize = 1024;
/// Paths and ids of as many.
const FILE_MAX: u64 = 8 << 20;

/// The file, as it was last read or written.
pub(crate) struct Currents {
    known: Mutex<Known>,
    /// Held while it is written.
    writing: Mutex<()>,
    /// Held while somebody chooses: the leftmost of all locks.
    choosing: Mutex<()>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Known {
    version: u32,
    /// A session for each folder.
    #[serde(default)]
    current: BTreeMap<String, String>,
    /// Folders that are listed although no session works there.
    #[serde(default)]
    added: BTreeSet<String>,
}

impl Currents {
    /// Reads it, once: whoever looks later does not wait.
    pub(crate) fn open(dir: &Path) -> Self {
        let text = read_small(&dir.join(FILE), FILE_MAX).unwrap_or_default();
        Self {
            known: Mutex::new(serde_json::from_str(&text).unwrap_or_default()),
            writing: Mutex::default(),
            choosing: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Currents {
    /// Writes down what is different.
    fn change(&self, dir: &Path, change: impl FnOnce(&mut Known)) -> io::Result<()> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.known().clone();
        if next.version > VERSION {
            return Err(io::Error::other(format!("{FILE} was written by a newer ostler")));
        }
        next.version = VERSION;
        change(&mut next);
        let bytes = serde_json::to_vec(&next).map_err(io::Error::other)?;
        replace(&dir.join(FILE), &dir.join(format!("{FILE}.new")), &bytes, Durable::Yes)?;
        *self.known() = next;
        Ok(())
    }
}

impl Engine {
    /// The session that was made current in this folder, while it takes prompts. Never waits.
    pub fn current_session(&self, folder: &Path) -> Option<Session> {
        let id = self.inner.currents.known().current.get(folder.to_string_lossy().as_ref())?.clone();
        self.sessions().get(&id).filter(|session| session.view().status != Status::Closed)
    }

    /// Makes the session that `choose` returns the current one of this folder; it is told which one is. Two who choose at the
    /// same time do so one after the other. May wait for the disk.
    pub fn choose_current<E: From<io::Error>>(
        &self,
        _wait: &MayWait,
        folder: &Path,
        choose: impl FnOnce(Option<Session>) -> Result<Session, E>,
    ) -> Result<Session, E> {
        let _choosing = self.inner.currents.choosing.lock().unwrap_or_else(PoisonError::into_inner);
        let chosen = choose(self.current_session(folder))?;
        let name = folder.to_string_lossy().into_owned();
        self.inner.currents.change(&self.inner.config.dir, |known| {
            known.current.retain(|_, id| self.sessions().get(id).is_some());
            if known.current.len() < MOST || known.current.contains_key(&name) {
                known.current.insert(name, chosen.id().to_owned());
            }
        })?;
        Ok(chosen)
    }

    /// Every folder in which somebody works: those of open sessions, and those that were added. Never waits.
    pub fn workspaces(&self) -> Vec<PathBuf> {
        let added = self.inner.currents.known().added.clone();
        let views = self.sessions().list().into_iter().map(|session| session.view());
        let open = views.filter(|view| view.status != Status::Closed).map(|view| view.workspace);
        let mut all: Vec<PathBuf> = added.into_iter().map(PathBuf::from).chain(open).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The same and those of closed sessions, with what their work trees were made of.
    pub(crate) fn worked_in(&self) -> BTreeSet<PathBuf> {
        let views = self.sessions().list().into_iter().map(|session| session.view());
        let theirs = views.flat_map(|view| [Some(view.workspace), view.worktree, view.repository]).flatten();
        theirs.chain(self.workspaces()).collect()
    }

    /// Lists a folder although no session works there, or no longer. `false` if nothing is different.
    pub fn list_workspace(&self, _wait: &MayWait, folder: &Path, listed: bool) -> io::Result<bool> {
        let (dir, name, mut changed) = (&self.inner.config.dir, folder.to_string_lossy().into_owned(), false);
        self.inner.currents.change(dir, |known| {
            changed = match listed {
                true => known.added.len() < MOST && known.added.insert(name),
                false => known.added.remove(&name),
            };
        })?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_current_outlives_who_wrote_it_and_a_newer_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = Currents::open(dir.path());
        first.change(dir.path(), |known| drop(known.current.insert("/w".into(), "s1".into()))).unwrap();
        assert_eq!(Currents::open(dir.path()).known().current["/w"], "s1");
        std::fs::write(dir.path().join(FILE), r#"{"version":2,"current":{}}"#).unwrap();
        let third = Currents::open(dir.path());
        assert!(third.change(dir.path(), |_| {}).is_err());
        assert!(std::fs::read_to_string(dir.path().join(FILE)).unwrap().contains("\"version\":2"));
    }
}
