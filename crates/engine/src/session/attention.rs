//! What a session calls for, for whoever is to be told of it: it needs somebody, its turn has ended, or failed.

use ostler_story::{Ask, EndReason, LimitState};

use super::Session;
use super::state::{Queued, State};
use crate::notice::{For, What};

/// In the place of a process and its output: after everything that was asked in a turn.
const OF_THE_END: u64 = u64::MAX;

impl Session {
    /// What it calls for, and which of its states that is, in their order. Nothing while it works, or where a person stopped it
    /// and knows. Never waits.
    pub(crate) fn attention(&self) -> Option<(What, [u64; 4])> {
        self.look().state.attention()
    }
}

impl State {
    fn attention(&self) -> Option<(What, [u64; 4])> {
        if self.closed {
            return None;
        }
        let turn = self.turn.as_ref().map_or(self.prompts, |turn| turn.prompt.number);
        if self.is_held() {
            let first = self.queue.front().map_or(turn, |queued: &Queued| queued.number);
            return Some((What::Needs(For::GoOn), [turn.max(first), OF_THE_END, 1, 0]));
        }
        if self.turn.as_ref().is_some_and(|turn| !turn.ended) {
            // The newest: what was told of covers those before it.
            let newest = self.asks.iter().max_by_key(|open| (open.source, open.asked_at))?;
            let what = if newest.asked.ask == Ask::Question { For::Question } else { For::Permission };
            let (end, index) = newest.asked_at;
            return Some((What::Needs(what), [turn, u64::from(newest.source), end, index as u64]));
        }
        if !self.queue.is_empty() {
            return None;
        }
        let (reason, why) = self.outcome.as_ref()?;
        let what = match reason {
            _ if self.stopped => return None,
            EndReason::Failed if self.logged_out => What::Needs(For::Login),
            EndReason::Failed if self.limits.iter().any(|limit| limit.state == LimitState::Reached) => {
                What::Needs(For::Limit)
            }
            EndReason::Failed => What::Failed,
            // Its agent is gone, by nobody's wish.
            EndReason::Interrupted if why.is_some() => What::Failed,
            EndReason::Interrupted => return None,
            _ => What::Ended,
        };
        Some((what, [turn, OF_THE_END, 0, 0]))
    }
}
