//! When to tell: half a second after the first change, at most once a second, and always once after the last one. While more
//! happens than is told one by one, it is waited for quiet.

use std::time::{Duration, Instant};

/// How long changes are put together, how often they are told, and how long nothing is told at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From the first change to the word about it.
    pub together: Duration,
    /// From one word to the next.
    pub between: Duration,
    /// At the start, what git does is not told for so long.
    pub quiet: Duration,
    /// How long it must be quiet after a storm.
    pub calm: Duration,
    /// The longest that a storm is waited for.
    pub storm: Duration,
    /// How often one looks where the system does not tell.
    pub poll: Duration,
    /// How long an index stays that nobody asks.
    pub unused: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            together: Duration::from_millis(500),
            between: Duration::from_secs(1),
            quiet: Duration::from_secs(2),
            calm: Duration::from_secs(1),
            storm: Duration::from_secs(10),
            poll: Duration::from_secs(10),
            unused: Duration::from_secs(600),
        }
    }
}

/// When one sort of change is told.
#[derive(Debug)]
pub(super) struct Pace {
    timing: Timing,
    /// The first and the last that nobody was told of.
    untold: Option<(Instant, Instant)>,
    not_before: Option<Instant>,
    stormy: bool,
}

impl Pace {
    pub(super) fn new(timing: Timing) -> Self {
        Self { timing, untold: None, not_before: None, stormy: false }
    }

    /// Nothing is told before.
    pub(super) fn quiet_until(&mut self, until: Instant) {
        self.not_before = Some(until);
    }

    pub(super) fn happened(&mut self, now: Instant) {
        self.untold = Some((self.untold.map_or(now, |(first, _)| first), now));
    }

    /// It is too much to be told one by one: wait until it is over.
    pub(super) fn storm(&mut self) {
        self.stormy = true;
    }

    /// When something is to be told.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, last) = self.untold?;
        let due = match self.stormy {
            true => (last + self.timing.calm).min(first + self.timing.storm),
            false => first + self.timing.together,
        };
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// It is told now.
    pub(super) fn told(&mut self, now: Instant) {
        (self.untold, self.stormy) = (None, false);
        self.not_before = Some(now + self.timing.between);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_second_after_the_first_at_most_once_a_second_and_once_after_the_last() {
        let (mut pace, start) = (Pace::new(Timing::default()), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(pace.due(), None);
        let mut told = Vec::new();
        for ms in (0..=3050).step_by(50) {
            while let Some(due) = pace.due().filter(|due| *due <= at(ms)) {
                told.push(due.duration_since(start).as_millis());
                pace.told(due);
            }
            pace.happened(at(ms));
        }
        assert_eq!(told, [500, 1500, 2500]);
        assert_eq!(pace.due(), Some(at(3500)), "the last state is told too");
    }

    #[test]
    fn the_start_is_quiet_and_what_happened_then_is_told_at_its_end() {
        let (mut pace, start) = (Pace::new(Timing::default()), Instant::now());
        pace.quiet_until(start + Duration::from_secs(2));
        pace.happened(start);
        assert_eq!(pace.due(), Some(start + Duration::from_secs(2)));
    }

    #[test]
    fn a_storm_is_waited_for_but_not_for_ever() {
        let (mut pace, start) = (Pace::new(Timing::default()), Instant::now());
        pace.happened(start);
        pace.storm();
        for second in 1..=20 {
            pace.happened(start + Duration::from_secs(second));
        }
        assert_eq!(pace.due(), Some(start + Duration::from_secs(10)));
    }
}
