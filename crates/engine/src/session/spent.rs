//! What a session has used over all its turns and processes: a pure fold over what its agents say.
//!
//! Agents tell tokens turn by turn, but some count their cost on: over a process, or over a conversation. What a turn cost is
//! then the difference to what was told before, and a count that is smaller than before has begun anew.

use std::borrow::Cow;

use ostler_story::{Event, Usage};
use serde::{Deserialize, Serialize};

/// A billionth of a dollar: sums of fractions are told without the dust of their arithmetic.
const FINEST: f64 = 1e9;

/// The sum, each figure only if an agent gave it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens of the input that came from a cache.
    pub cached_tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Tokens that the conversation holds now, and how many it can.
    pub context_used: Option<u64>,
    /// See `context_used`.
    pub context_size: Option<u64>,
}

/// Adds up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Meter {
    pub(super) sum: Spent,
    /// The figures of the turn that runs, or ran last.
    turn: Usage,
    /// What the agent's own count of its cost said last.
    count: Option<f64>,
}

impl Meter {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.turn = Usage::default();
    }

    /// The events, with what the turn cost where an agent only counts on. `resumed`: its process went on with an earlier
    /// conversation, whose cost may be in its first figure.
    pub(super) fn priced<'a>(&self, events: &'a [Event], resumed: bool) -> Cow<'a, [Event]> {
        let counts_on = |event: &Event| matches!(event, Event::Usage(usage) if usage.cost_usd.is_some());
        if !events.iter().any(counts_on) {
            return Cow::Borrowed(events);
        }
        let mut meter = self.clone();
        let price = |event: &Event| match event {
            Event::Usage(usage) => {
                let mut usage = usage.clone();
                usage.turn_cost_usd = usage.turn_cost_usd.or_else(|| meter.turn_cost(usage.cost_usd?, resumed));
                meter.take(&usage);
                Event::Usage(usage)
            }
            other => other.clone(),
        };
        events.iter().map(price).collect()
    }

    fn turn_cost(&self, count: f64, resumed: bool) -> Option<f64> {
        let more = match self.count {
            Some(before) if count >= before => count - before,
            None if resumed => return None,
            _ => count,
        };
        Some(rounded(self.turn.turn_cost_usd.unwrap_or(0.0) + more))
    }

    /// Takes in newer figures of the turn.
    pub(super) fn take(&mut self, usage: &Usage) {
        let add = |sum: &mut Option<u64>, before: Option<u64>, now: Option<u64>| {
            if let Some(now) = now {
                *sum = Some(sum.unwrap_or(0).saturating_add(now.saturating_sub(before.unwrap_or(0))));
            }
        };
        let Self { sum, turn, count } = self;
        add(&mut sum.input_tokens, turn.input_tokens, usage.input_tokens);
        add(&mut sum.output_tokens, turn.output_tokens, usage.output_tokens);
        add(&mut sum.cached_tokens, turn.cached_tokens, usage.cached_tokens);
        if let Some(now) = usage.turn_cost_usd {
            let more = (now - turn.turn_cost_usd.unwrap_or(0.0)).max(0.0);
            sum.cost_usd = Some(rounded(sum.cost_usd.unwrap_or(0.0) + more));
        }
        sum.context_used = usage.context_used.or(sum.context_used);
        sum.context_size = usage.context_size.or(sum.context_size);
        *count = usage.cost_usd.or(*count);
        turn.update(usage);
    }
}

fn rounded(dollars: f64) -> f64 {
    (dollars * FINEST).round() / FINEST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(meter: &mut Meter, usage: Usage, resumed: bool) -> Option<f64> {
        let events = [Event::Usage(usage)];
        let priced = meter.priced(&events, resumed).into_owned();
        let Some(Event::Usage(usage)) = priced.first() else { panic!() };
        meter.take(usage);
        usage.turn_cost_usd
    }

    fn counted(cost: f64) -> Usage {
        Usage { cost_usd: Some(cost), ..Usage::default() }
    }

    fn told(input: u64, output: u64) -> Usage {
        Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
    }

    #[test]
    fn a_count_that_goes_on_is_told_as_what_each_turn_cost() {
        let mut meter = Meter::default();
        assert_eq!(heard(&mut meter, counted(0.1), false), Some(0.1));
        meter.begin();
        assert_eq!(heard(&mut meter, counted(0.3), false), Some(0.2));
        assert_eq!(heard(&mut meter, counted(0.4), false), Some(0.3), "two steps of one turn");
        assert_eq!(meter.sum.cost_usd, Some(0.4));
    }

    #[test]
    fn a_count_that_begins_anew_is_added() {
        let mut meter = Meter::default();
        heard(&mut meter, counted(0.5), false);
        meter.begin();
        assert_eq!(heard(&mut meter, counted(0.2), true), Some(0.2));
        assert_eq!(meter.sum.cost_usd, Some(0.7));
    }

    #[test]
    fn what_a_conversation_cost_before_it_came_here_is_not_ours() {
        let mut meter = Meter::default();
        assert_eq!(heard(&mut meter, counted(5.0), true), None);
        meter.begin();
        assert_eq!(heard(&mut meter, counted(5.25), true), Some(0.25));
        assert_eq!(meter.sum.cost_usd, Some(0.25));
    }

    #[test]
    fn tokens_are_figures_of_a_turn_and_add_up_over_turns() {
        let mut meter = Meter::default();
        heard(&mut meter, told(10, 20), false);
        heard(&mut meter, told(20, 40), false);
        meter.begin();
        heard(&mut meter, told(10, 20), false);
        assert_eq!((meter.sum.input_tokens, meter.sum.output_tokens), (Some(30), Some(60)));
        assert_eq!((meter.sum.cached_tokens, meter.sum.cost_usd), (None, None), "nothing is made up");
    }
}
