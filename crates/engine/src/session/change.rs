//! Changing what a session is about. It holds from the agent's next process on.

use std::io;

use ostler_agents::Unsupported;
use ostler_story::{Autonomy, Fact, Lifetime, Settings};

use super::{Session, new};
use crate::names::NameTaken;
use crate::{Caller, MayWait};

/// What is to be different; what is not given stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// What the agent may do without asking. Takes the place of a mode of the agent's own.
    pub autonomy: Option<Autonomy>,
    /// The agent's own word for a mode.
    pub raw_mode: Option<Option<String>>,
    /// The model; `Some(None)` is the agent's default.
    pub model: Option<Option<String>>,
    /// What people call it.
    pub name: Option<Option<String>>,
    /// How long a process lives.
    pub lifetime: Option<Lifetime>,
    /// The agent's own id of the conversation to go on with; `Some(None)` begins afresh.
    pub agent_session: Option<Option<String>>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The agent can not do that.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Somebody alive is called that already.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// The session is over.
    #[error("the session is closed")]
    Closed,
    /// A hosted program asks for what would loosen an agent.
    #[error("an agent cannot change its own permissions (asked from {0}, which runs in ostler)")]
    Hosted(String),
    /// So may somebody who can not be looked at.
    #[error("an agent cannot change its own permissions, and the caller is unknown")]
    Unknown,
    /// It could not be written down.
    #[error("the change could not be stored: {0}")]
    Io(#[from] io::Error),
}

impl Change {
    fn apply(&self, mut settings: Settings) -> Settings {
        let change = self.clone();
        if let Some(autonomy) = change.autonomy {
            settings.autonomy = autonomy;
            settings.raw_mode = None;
        }
        settings.raw_mode = change.raw_mode.unwrap_or(settings.raw_mode);
        settings.model = change.model.unwrap_or(settings.model);
        settings.name = change.name.unwrap_or(settings.name);
        settings.lifetime = change.lifetime.unwrap_or(settings.lifetime);
        settings.agent_session = change.agent_session.unwrap_or(settings.agent_session);
        settings
    }

    /// It would change how much the agent may do.
    fn leash(&self, before: &Settings) -> bool {
        let after = self.apply(before.clone());
        (after.autonomy, &after.raw_mode) != (before.autonomy, &before.raw_mode)
    }
}

impl Session {
    /// Whether nobody can tell who is hosted: see `access`.
    pub(super) fn is_locked(&self) -> bool {
        self.inner.shared.upgrade().is_some_and(|shared| shared.engine().locked().is_some())
    }

    /// Changes settings, all or none. How much an agent may do is not for anybody hosted to say, so `by` is asked who
    /// changes it, where that matters. May wait for the disk.
    pub fn change(&self, wait: &MayWait, change: Change, by: impl FnOnce() -> Caller) -> Result<(), ChangeError> {
        let oneshot = self.inner.shared.upgrade().is_some_and(|shared| shared.config().oneshot);
        // Asked without the desk, which others wait for; what changes in between makes a caller who was not asked for unknown.
        let leash = change.leash(&self.look().state.settings);
        let by = if leash { by() } else { Caller::Unknown };
        // Held until it is called so; taken without the desk, for which others look at all of them.
        let _given = match (&change.name, self.inner.shared.upgrade()) {
            (Some(Some(name)), Some(shared)) => Some(shared.engine().take_name(name, Some(self.id()))?),
            _ => None,
        };
        let mut desk = self.pen(wait);
        if desk.state.closed {
            return Err(ChangeError::Closed);
        }
        let settings = change.apply(desk.state.settings.clone());
        if settings == desk.state.settings {
            return Ok(());
        }
        if change.leash(&desk.state.settings) {
            match by {
                Caller::Free if self.is_locked() => return Err(ChangeError::Unknown),
                Caller::Free | Caller::Elsewhere => {}
                Caller::Hosted(host) => return Err(ChangeError::Hosted(host)),
                Caller::Unknown => return Err(ChangeError::Unknown),
            }
        }
        new::check(&desk.state.created, &settings, oneshot)?;
        self.tell(&mut desk, Fact::Changed { settings })?;
        self.rest(&desk);
        drop(desk);
        // A process that was started with other settings has to go before the next prompt.
        self.inner.bell.ring();
        Ok(())
    }
}
