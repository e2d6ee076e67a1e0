//! Taking a prompt: written down before it is accepted, once for each key, in the order of its coming.

use std::ffi::OsString;
use std::io;

use ostler_hooks::hook;
use ostler_story::{Block, Fact};

use super::Session;
use super::state::{Status, size};
use crate::MayWait;

/// A line that an agent is known to read, less what is put around it.
pub(super) const PROMPT_MAX: usize = ostler_agents::MAX_LINE - 64 * 1024;
/// What all waiting prompts of a session may hold together.
pub(super) const QUEUE_BYTES: usize = 32 << 20;

/// What becomes of a prompt when a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// It waits for its turn.
    Wait,
    /// It is refused.
    Refuse,
}

/// A prompt on its way in.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What it says.
    pub blocks: Vec<Block>,
    /// The client's key: the same key again is the same prompt.
    pub key: Option<String>,
    /// The door it comes through.
    pub door: String,
    /// What becomes of it when a turn runs.
    pub queue: Queue,
    /// Variables for the agent's next process, instead of those that the session has; in memory only.
    pub env: Option<Vec<(OsString, OsString)>>,
}

impl Prompt {
    /// Words.
    pub fn text(text: impl Into<String>, door: &str) -> Self {
        let blocks = vec![Block::Text { text: text.into() }];
        Self { blocks, key: None, door: door.to_owned(), queue: Queue::Wait, env: None }
    }
}

/// A prompt that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Its number in the session, from 1.
    pub number: u64,
    /// Its place among those that wait, from 1; 0 = it runs now.
    pub position: usize,
    /// The record that says so: everything about it follows.
    pub record: u64,
    /// It had been accepted before.
    pub again: bool,
}

/// Why a prompt was not taken. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The session is over.
    #[error("the session is closed")]
    Closed,
    /// A turn runs, and this prompt was not to wait.
    #[error("the session is busy")]
    Busy,
    /// The agent's own screen has the conversation.
    #[error("its conversation is open on the agent's own screen; end that first")]
    OnScreen,
    /// Too many wait.
    #[error("{0} prompts are already queued")]
    QueueFull(usize),
    /// There is nothing in it.
    #[error("the prompt is empty")]
    Empty,
    /// It is longer than agents read.
    #[error("the prompt has {0} bytes; {PROMPT_MAX} is the limit")]
    TooLong(usize),
    /// It could not be written down.
    #[error("the prompt could not be stored: {0}")]
    Io(#[from] io::Error),
}

impl Session {
    /// Takes a prompt: once this returns it is in the journal, and will run or be said not to. May wait for the disk.
    pub fn prompt(&self, wait: &MayWait, prompt: Prompt) -> Result<Accepted, PromptError> {
        let mut desk = self.pen(wait);
        let state = &desk.state;
        if let Some(key) = &prompt.key
            && let Some((_, number, record)) = state.keys.iter().find(|(known, ..)| known == key)
        {
            let waits = state.queue.iter().position(|queued| queued.number == *number);
            let position = waits.map_or(0, |at| at + 1);
            return Ok(Accepted { number: *number, position, record: *record, again: true });
        }
        let bytes = size(&prompt.blocks);
        let settings = self.inner.shared.upgrade().map(|shared| shared.config().queue);
        match settings {
            None => return Err(PromptError::Closed),
            _ if state.status() == Status::Closed => return Err(PromptError::Closed),
            _ if state.screen.is_some() => return Err(PromptError::OnScreen),
            _ if is_blank(&prompt.blocks) => return Err(PromptError::Empty),
            _ if bytes > PROMPT_MAX => return Err(PromptError::TooLong(bytes)),
            _ if prompt.queue == Queue::Refuse && state.is_busy() => return Err(PromptError::Busy),
            Some(queue) if state.queue.len() >= queue || state.queued_bytes() + bytes > QUEUE_BYTES => {
                return Err(PromptError::QueueFull(state.queue.len()));
            }
            Some(_) => {}
        }
        let (number, position) = (state.prompts + 1, if state.is_busy() { state.queue.len() + 1 } else { 0 });
        let Prompt { blocks, key, door, env, .. } = prompt;
        let record = self.tell(&mut desk, Fact::Prompt { number, key, blocks, door })?;
        desk.change(|desk| {
            desk.waits = false;
            desk.env = env.unwrap_or_else(|| std::mem::take(&mut desk.env));
        });
        if position == 0 {
            // Its turn begins here and now, so that whoever comes next is told the right place. It is accepted either way:
            // if the disk is full in this very moment, the driver begins it.
            if let Err(error) = self.tell(&mut desk, Fact::Turn { number }) {
                tracing::warn!("{}: {error}", self.id());
            }
            hook!("session.turn");
        }
        drop(desk);
        self.drive(wait);
        Ok(Accepted { number, position, record, again: false })
    }
}

/// Whether an agent could make anything of it.
pub(super) fn is_blank(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| matches!(block, Block::Text { text } if text.trim().is_empty()))
}
