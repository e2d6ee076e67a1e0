//! Everything that went wrong, counted once and printed when it happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::verifier::Tally;

/// After so many lines the rest is only counted: one fault tends to repeat itself.
const MAX_LINES: u64 = 40;

/// A poisoned lock means that another thread failed and has said so already.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
pub(crate) struct Findings {
    counts: Mutex<Counts>,
    fatal: AtomicBool,
}

#[derive(Default)]
struct Counts {
    tally: Tally,
    pids_changed: u64,
    lines: u64,
}

impl Findings {
    /// Bytes (or whole frames, replies and exits, as one each) that are missing, double or out of place.
    pub(crate) fn wrong(&self, tally: Tally, what: &str) {
        if tally.is_clean() {
            return;
        }
        let mut counts = lock(&self.counts);
        counts.tally.add(tally);
        counts.say(&format!("{what}: {tally:?}"));
    }

    pub(crate) fn lost(&self, lost: u64, what: &str) {
        self.wrong(Tally { lost, ..Tally::default() }, what);
    }

    pub(crate) fn duplicated(&self, duplicated: u64, what: &str) {
        self.wrong(Tally { duplicated, ..Tally::default() }, what);
    }

    pub(crate) fn reordered(&self, reordered: u64, what: &str) {
        self.wrong(Tally { reordered, ..Tally::default() }, what);
    }

    pub(crate) fn pid_changed(&self, what: &str) {
        let mut counts = lock(&self.counts);
        counts.pids_changed += 1;
        counts.say(what);
    }

    /// Something after which going on proves nothing: what was still to come counts as lost.
    pub(crate) fn fatal(&self, what: &str) {
        self.fatal.store(true, Ordering::Release);
        self.lost(1, &format!("gave up: {what}"));
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    pub(crate) fn is_clean(&self) -> bool {
        let counts = lock(&self.counts);
        counts.tally.is_clean() && counts.pids_changed == 0
    }

    /// Foreign bytes are bytes a child did not write there, so they stand among the duplicated ones.
    pub(crate) fn last_line(&self, kills: u64, bytes: u64) -> String {
        let counts = lock(&self.counts);
        let Tally { lost, duplicated, reordered, foreign } = counts.tally;
        let (duplicated, pids) = (duplicated + foreign, counts.pids_changed);
        format!(
            "kills={kills} bytes={bytes} lost={lost} duplicated={duplicated} reordered={reordered} pids_changed={pids}"
        )
    }
}

impl Counts {
    fn say(&mut self, what: &str) {
        self.lines += 1;
        if self.lines <= MAX_LINES {
            println!("WRONG {what}");
        }
        if self.lines == MAX_LINES {
            println!("(more are counted, not printed)");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_run_ends_with_the_line_that_is_promised() {
        let line = Findings::default().last_line(60, 123);
        assert_eq!(line, "kills=60 bytes=123 lost=0 duplicated=0 reordered=0 pids_changed=0");
    }

    #[test]
    fn every_kind_of_finding_shows_in_the_last_line() {
        let findings = Findings::default();
        findings.lost(2, "a");
        findings.duplicated(3, "b");
        findings.wrong(Tally { foreign: 1, ..Tally::default() }, "c");
        findings.reordered(5, "d");
        findings.pid_changed("e");
        assert!(!findings.is_clean());
        assert_eq!(findings.last_line(1, 2), "kills=1 bytes=2 lost=2 duplicated=4 reordered=5 pids_changed=1");
    }

    #[test]
    fn giving_up_is_never_clean() {
        let findings = Findings::default();
        findings.fatal("hung");
        assert!(findings.is_fatal() && !findings.is_clean());
    }
}
