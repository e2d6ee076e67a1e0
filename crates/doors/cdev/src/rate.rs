//! How much somebody may ask for in a minute. Counted exactly: so many in any minute, and the answer to one more says how long
//! to wait. Nobody is hung up on.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::error::{Code, Error};

const MINUTE: Duration = Duration::from_secs(60);
/// Who is counted at once; of more, those that were here longest ago are forgotten.
const COUNTED_MAX: usize = 1024;

/// The requests of the last minute.
#[derive(Debug)]
pub(crate) struct Window {
    most: usize,
    at: VecDeque<Instant>,
}

impl Window {
    pub(crate) fn new(most: u32) -> Self {
        Self { most: most.max(1) as usize, at: VecDeque::new() }
    }

    /// Counts one more; or how long to wait for it.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        while self.at.front().is_some_and(|first| now.duration_since(*first) >= MINUTE) {
            self.at.pop_front();
        }
        match self.at.front() {
            Some(first) if self.at.len() >= self.most => Err(MINUTE.saturating_sub(now.duration_since(*first))),
            _ => {
                self.at.push_back(now);
                Ok(())
            }
        }
    }
}

/// Windows of many.
#[derive(Debug)]
pub(crate) struct Windows<K> {
    most: u32,
    all: HashMap<K, Window>,
}

impl<K: Hash + Eq + Clone> Windows<K> {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, all: HashMap::new() }
    }

    /// The same for one of them.
    pub(crate) fn take(&mut self, who: &K, now: Instant) -> Result<(), Duration> {
        if self.all.len() >= COUNTED_MAX && !self.all.contains_key(who) {
            let last = |window: &Window| window.at.back().copied();
            let oldest = self.all.iter().min_by_key(|(_, window)| last(window)).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.all.remove(&key));
        }
        self.all.entry(who.clone()).or_insert_with(|| Window::new(self.most)).take(now)
    }
}

/// What is answered to too much.
pub(crate) fn too_much(wait: Duration) -> Error {
    let millis = crate::settings::millis(wait).max(1);
    Error::new(Code::RateLimited, format!("too many requests; try again in {} s", millis.div_ceil(1000)))
        .with("retry_after_ms", millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_any_minute_and_the_wait_is_told() {
        let (mut window, start) = (Window::new(3), Instant::now());
        for second in 0..3 {
            assert_eq!(window.take(start + Duration::from_secs(second)), Ok(()));
        }
        assert_eq!(window.take(start + Duration::from_secs(10)), Err(Duration::from_secs(50)));
        assert_eq!(window.take(start + Duration::from_secs(60)), Ok(()));
        assert_eq!(window.take(start + Duration::from_secs(60)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn many_are_counted_and_the_longest_gone_forgotten() {
        let (mut windows, start) = (Windows::new(1), Instant::now());
        for who in 0..COUNTED_MAX {
            assert!(windows.take(&who, start + Duration::from_millis(who as u64)).is_ok());
        }
        assert!(windows.take(&1, start + Duration::from_secs(2)).is_err());
        assert!(windows.take(&COUNTED_MAX, start + Duration::from_secs(2)).is_ok());
        assert_eq!(windows.all.len(), COUNTED_MAX);
        assert!(windows.take(&0, start + Duration::from_secs(3)).is_ok(), "the first was forgotten");
    }
}
