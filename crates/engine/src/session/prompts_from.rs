//! Where the last prompts of a session begin: for a reader that wants the end of a conversation and not the whole.

use std::io;

use ostler_story::Fact;

use super::Session;
use crate::MayWait;

/// How many records of the end are looked at first; four times as many each time that they hold too few prompts.
const LOOK: u64 = 256;

impl Session {
    /// The record that the last so many prompts begin with; what comes after the newest record for none of them. May wait for
    /// the disk.
    pub fn prompts_from(&self, wait: &MayWait, prompts: u64) -> io::Result<u64> {
        let bounds = self.bounds(wait)?;
        let first = bounds.first.max(1);
        let Some(wanted) = usize::try_from(prompts).ok().and_then(|prompts| prompts.checked_sub(1)) else {
            return Ok(if prompts == 0 { bounds.last + 1 } else { first });
        };
        let mut look = LOOK;
        loop {
            let from = (bounds.last + 1).saturating_sub(look).max(first);
            let found = self.prompts_in(wait, from, bounds.last)?;
            match found.iter().rev().nth(wanted) {
                Some(record) => return Ok(*record),
                None if from == first => return Ok(first),
                None => look = look.saturating_mul(4),
            }
        }
    }

    /// The records from here on that say that a prompt was accepted.
    fn prompts_in(&self, wait: &MayWait, from: u64, last: u64) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        self.events(wait, from.saturating_sub(1))?.read_upto(last, |head, payload| {
            if head.source == 0 && is_prompt(payload) {
                found.push(head.record);
            }
        })?;
        Ok(found)
    }
}

fn is_prompt(payload: &[u8]) -> bool {
    let fact = |line: &[u8]| serde_json::from_slice::<Fact>(line).ok();
    payload.split(|byte| *byte == b'\n').filter_map(fact).any(|fact| matches!(fact, Fact::Prompt { .. }))
}
