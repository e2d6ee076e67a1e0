//! Going on after a restart of the machine. Nothing runs by itself then: this is what somebody says instead of a prompt.

use super::prompt::{Prompt, PromptError};
use super::state::REBOOTED;
use super::{Fact, Session};
use crate::MayWait;

/// What an agent is told whose turn ended with the machine, where nothing else waits for it.
const CONTINUE: &str = "Continue where you left off.";

/// How it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoneOn {
    /// With so many prompts that were held.
    Held(usize),
    /// The agent was told to continue.
    Told(&'static str),
    /// No restart of the machine stopped it.
    NotStopped,
}

impl Session {
    /// Goes on with what was held; where nothing was, the agent is told to continue. May wait for the disk.
    pub fn go_on(&self, wait: &MayWait, door: &str) -> Result<GoneOn, PromptError> {
        let mut desk = self.pen(wait);
        if desk.state.closed {
            return Err(PromptError::Closed);
        }
        if !desk.state.is_rebooted() {
            return Ok(GoneOn::NotStopped);
        }
        if !desk.state.is_held() {
            drop(desk);
            self.prompt(wait, Prompt::text(CONTINUE, door))?;
            return Ok(GoneOn::Told(CONTINUE));
        }
        let held = desk.state.queue.len() + usize::from(desk.state.turn.is_some());
        self.tell(&mut desk, Fact::Released {})?;
        drop(desk);
        self.drive(wait);
        Ok(GoneOn::Held(held))
    }
}

impl super::State {
    /// Whether a restart of the machine stopped it.
    pub(super) fn is_rebooted(&self) -> bool {
        self.why().as_deref() == Some(REBOOTED)
    }
}
