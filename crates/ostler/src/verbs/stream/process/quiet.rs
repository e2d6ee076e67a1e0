//! Why nothing comes from a process: a disk that takes nothing holds it back, and whoever waits for it is told so once.

use std::time::{Duration, Instant};

/// Long enough that a program which only thinks is not asked about all the time.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// A process that says nothing.
pub(super) struct Quiet {
    pub(super) due: Instant,
    pause: Duration,
    /// The question to the daemon that is not answered yet.
    pub(super) asked: Option<u64>,
    told: bool,
}

impl Quiet {
    pub(super) fn new(now: Instant) -> Self {
        Self { due: now + FIRST, pause: FIRST, asked: None, told: false }
    }

    /// It has said something.
    pub(super) fn heard(&mut self, now: Instant) {
        (self.due, self.pause, self.told) = (now + FIRST, FIRST, false);
    }

    /// The daemon was asked, with this request.
    pub(super) fn asks(&mut self, request: u64, now: Instant) {
        self.pause = (2 * self.pause).min(LONGEST);
        (self.due, self.asked) = (now + self.pause, Some(request));
    }

    /// What to say, if that was not said yet.
    pub(super) fn told(&mut self, held_back: Option<String>) -> Option<String> {
        let first = held_back.is_some() && !self.told;
        self.told = held_back.is_some();
        held_back.filter(|_| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_the_disk_is_told_once_and_asked_about_ever_more_seldom() {
        let now = Instant::now();
        let mut quiet = Quiet::new(now);
        assert_eq!(quiet.due, now + FIRST);
        for _ in 0..9 {
            quiet.asks(1, now);
        }
        assert_eq!(quiet.due, now + LONGEST);
        let full = || Some("the disk is full".to_owned());
        assert_eq!((quiet.told(None), quiet.told(full()), quiet.told(full())), (None, full(), None));
        quiet.heard(now);
        assert_eq!((quiet.due, quiet.told(full())), (now + FIRST, full()));
    }
}
