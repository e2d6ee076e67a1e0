//! What people call a process, and calling it something else. The new name is written down before anybody hears it.

use std::io;
use std::sync::PoisonError;

use super::{About, Process};
use crate::names::NameTaken;
use crate::{Engine, MayWait, RUNNER_VERB};

/// Why a process is still called what it was.
#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    /// Somebody alive is called that already.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// Nothing of it may reach the disk, and a new name that did not would be gone with this daemon.
    #[error("{0} is private, and keeps the name that it was started with")]
    Private(String),
    /// It is ours, not a person's to name.
    #[error("{0} is named after what it belongs to")]
    Own(String),
    /// It could not be written down.
    #[error("the name could not be stored: {0}")]
    Io(#[from] io::Error),
}

impl Process {
    /// What people call it now.
    pub fn name(&self) -> Option<String> {
        self.inner.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it was started as, under the name that it has now.
    pub(super) fn described(&self) -> About {
        self.about().called(self.name()).seen(self.is_seen())
    }
}

impl Engine {
    /// Calls a process by a name that nobody alive has, or by none. May wait for the disk.
    pub fn rename(&self, wait: &MayWait, process: &Process, name: Option<String>) -> Result<(), RenameError> {
        if process.name() == name {
            return Ok(());
        }
        let about = process.about();
        if about.private {
            return Err(RenameError::Private(about.id.clone()));
        }
        let runs_a_decision = about.args.first().is_some_and(|arg| arg == RUNNER_VERB);
        if about.session.is_some() || runs_a_decision {
            return Err(RenameError::Own(about.id.clone()));
        }
        let _given = name.as_deref().map(|name| self.take_name(name, Some(process.id()))).transpose()?;
        // One after the other, so that the last to be heard of is the last to be written.
        let _turn = self.inner.names.renaming(wait);
        let journal = &process.inner.journal;
        journal.to_be_described(process.described().called(name.clone()).encode());
        journal.describe()?;
        *process.inner.name.write().unwrap_or_else(PoisonError::into_inner) = name;
        Ok(())
    }
}
