//! Names that people give. No two of the living share one, process or session alike, at whichever door it was given. What the
//! clients of a door call a process or a session among themselves is no name, and is no concern of this.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::process::Registry;
use crate::{Engine, MayWait};

/// Who bears a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    /// A process that runs.
    Process {
        /// Its id.
        id: String,
        /// What it runs.
        program: String,
    },
    /// A session that is open.
    Session {
        /// Its id.
        id: String,
        /// Who talks there.
        agent: String,
    },
    /// One that is being made at this moment.
    Coming,
}

impl fmt::Display for Bearer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { id, program } => write!(out, "process {id} ({program}), which is running"),
            Self::Session { id, agent } => write!(out, "session {id} ({agent}), which is open"),
            Self::Coming => write!(out, "one that is just being started"),
        }
    }
}

/// Somebody alive is called that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name `{name}` is taken by {bearer}")]
pub struct NameTaken {
    /// The name.
    pub name: String,
    /// Who has it.
    pub bearer: Bearer,
}

/// The names that are being given: from the moment they were found free until their bearer is known by them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    coming: Mutex<HashSet<String>>,
    renaming: Mutex<()>,
}

impl Names {
    /// Only one process is given another name at a time.
    pub(crate) fn renaming(&self, _wait: &MayWait) -> MutexGuard<'_, ()> {
        self.renaming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn coming(&self) -> MutexGuard<'_, HashSet<String>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that nobody else is given while this is held. Let it go once the bearer can be found by it.
#[must_use]
pub(crate) struct Given {
    registry: Arc<Registry>,
    name: String,
}

impl Drop for Given {
    fn drop(&mut self) {
        self.registry.names.coming().remove(&self.name);
    }
}

impl Engine {
    /// Takes a name for one that is to be made, or for `whose` that is to be called so from now on.
    pub(crate) fn take_name(&self, name: &str, whose: Option<&str>) -> Result<Given, NameTaken> {
        let taken = |bearer| NameTaken { name: name.to_owned(), bearer };
        let mut coming = self.inner.names.coming();
        if coming.contains(name) {
            return Err(taken(Bearer::Coming));
        }
        let bearer = self.inner.bearer(name, whose).or_else(|| self.sessions.bearer(name, whose));
        if let Some(bearer) = bearer {
            return Err(taken(bearer));
        }
        coming.insert(name.to_owned());
        Ok(Given { registry: Arc::clone(&self.inner), name: name.to_owned() })
    }
}
