//! A prompt that waits for its turn is still its writer's: it can be taken back, or say something else. Once its turn has come
//! it is the agent's, and nothing here touches it.

use std::io;

use ostler_story::{Block, Fact};

use super::Session;
use super::prompt::{PROMPT_MAX, PromptError, QUEUE_BYTES, is_blank};
use super::state::size;
use crate::MayWait;

impl Session {
    /// Takes back a prompt that waits; `false` if its turn has come, or it is not there. May wait for the disk.
    pub fn take_back(&self, wait: &MayWait, number: u64, why: &str) -> io::Result<bool> {
        let mut desk = self.pen(wait);
        let waits = desk.state.queue.iter().any(|queued| queued.number == number);
        if waits {
            self.tell(&mut desk, Fact::Dropped { number, why: why.to_owned() })?;
        }
        Ok(waits)
    }

    /// Gives a prompt that waits other words, in the same place of the queue; `false` if its turn has come, or it is not there.
    /// May wait for the disk.
    pub fn reword(&self, wait: &MayWait, number: u64, text: String) -> Result<bool, PromptError> {
        let mut desk = self.pen(wait);
        let Some(queued) = desk.state.queue.iter().find(|queued| queued.number == number) else { return Ok(false) };
        let blocks = Block::reworded(queued.blocks.clone(), text.clone());
        let (bytes, before) = (size(&blocks), size(&queued.blocks));
        match () {
            () if is_blank(&blocks) => return Err(PromptError::Empty),
            () if bytes > PROMPT_MAX => return Err(PromptError::TooLong(bytes)),
            () if desk.state.queued_bytes() - before + bytes > QUEUE_BYTES => {
                return Err(PromptError::QueueFull(desk.state.queue.len()));
            }
            () => {}
        }
        self.tell(&mut desk, Fact::Reworded { number, text })?;
        Ok(true)
    }
}
