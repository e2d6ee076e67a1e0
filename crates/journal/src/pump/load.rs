//! How much a process moves, and whether that deserves a thread of its own. A heavy stream fills the page cache and may
//! be made to wait for the disk at any moment; the others must not wait with it.

use std::time::{Duration, Instant};

/// A stream is judged over this time.
const WINDOW: Duration = Duration::from_millis(250);
/// Light again is who moves less than this part of what is heavy: nobody goes back and forth.
const LIGHT: u64 = 16;

/// Where a process belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stay,
    /// To a thread of its own.
    Apart,
    /// Back to the others.
    Together,
}

pub(crate) struct Load {
    moved: u64,
    /// So many bytes per window are heavy.
    heavy: u64,
    since: Instant,
    /// It has a thread of its own.
    apart: bool,
}

impl Load {
    /// `heavy`: bytes per second.
    pub(crate) fn new(heavy: u64, now: Instant) -> Self {
        let windows = u64::try_from(Duration::from_secs(1).as_nanos() / WINDOW.as_nanos()).unwrap_or(1);
        Self { moved: 0, heavy: heavy / windows, since: now, apart: false }
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.moved += bytes;
    }

    /// It went to another thread.
    pub(crate) fn moved_to(&mut self, apart: bool, now: Instant) {
        self.moved = 0;
        self.since = now;
        self.apart = apart;
    }

    pub(crate) fn is_apart(&self) -> bool {
        self.apart
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// A silent process on a thread of its own must be noticed too.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.apart.then(|| self.since + WINDOW)
    }

    /// Judges the last window, once it is over.
    pub(crate) fn judge(&mut self, now: Instant) -> Verdict {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < WINDOW {
            return Verdict::Stay;
        }
        let windows = elapsed.as_nanos() / WINDOW.as_nanos();
        let rate = u128::from(self.moved) / windows.max(1);
        self.moved = 0;
        self.since = now;
        match self.apart {
            false if rate >= u128::from(self.heavy) => Verdict::Apart,
            true if rate < u128::from(self.heavy / LIGHT) => Verdict::Together,
            _ => Verdict::Stay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAVY: u64 = 64 << 20;

    #[test]
    fn a_stream_is_judged_by_what_it_moved_lately() {
        let start = Instant::now();
        let mut load = Load::new(HEAVY, start);
        load.add(HEAVY / 4);
        assert_eq!(load.judge(start + WINDOW / 2), Verdict::Stay);
        assert_eq!(load.judge(start + WINDOW), Verdict::Apart);
        load.moved_to(true, start);
        load.add(HEAVY / 4 / LIGHT);
        assert_eq!(load.judge(start + WINDOW), Verdict::Stay);
        assert_eq!(load.judge(start + WINDOW * 2), Verdict::Together);
    }

    #[test]
    fn a_burst_long_ago_is_not_heavy() {
        let start = Instant::now();
        let mut load = Load::new(HEAVY, start);
        load.add(HEAVY / 4);
        assert_eq!(load.judge(start + WINDOW * 10), Verdict::Stay);
    }
}
