//! What a person has in front of them, and since when. A key counts only for a request that was read to its end, and only
//! once it has stood for long enough to be answered instead of what was there before.

use std::time::{Duration, Instant};

/// Shorter than this nobody reacts to what is on a screen: a key so early was meant for what was there before.
pub(crate) const STANDS_FOR: Duration = Duration::from_millis(300);

/// What of a request is on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sight<W> {
    /// Which request.
    pub(crate) which: W,
    /// Its content.
    pub(crate) hash: String,
    pub(crate) width: usize,
    /// All rows of it at this width.
    pub(crate) rows: usize,
    /// The first row that is visible.
    pub(crate) top: usize,
    /// How many are.
    pub(crate) height: usize,
}

/// Why no key decides now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotNow {
    Nothing,
    Settled,
    /// So many rows were not on the screen yet.
    Unread(usize),
    TooSoon,
    /// Somebody types: keys that mean nothing came just before.
    Typing,
    /// This kind of answer does not fit.
    Unfit,
}

/// What was seen of the request that is on the screen.
#[derive(Debug, Clone)]
pub(crate) struct Attention<W> {
    sight: Option<Sight<W>>,
    since: Instant,
    /// Rows from the first one on that have been visible without a gap.
    seen: usize,
    /// How long it has to stand.
    stands: Duration,
}

impl<W: PartialEq> Attention<W> {
    /// Nothing is on the screen. Whatever comes takes the place of something.
    pub(crate) fn new(now: Instant) -> Self {
        Self { sight: None, since: now, seen: 0, stands: STANDS_FOR }
    }

    /// As [`Attention::new`], where nothing was in the place of what comes first: keys count for it at once.
    pub(crate) fn in_an_empty_place(now: Instant) -> Self {
        Self { stands: Duration::ZERO, ..Self::new(now) }
    }

    pub(crate) fn sight(&self) -> Option<&Sight<W>> {
        self.sight.as_ref()
    }

    /// What was just drawn.
    pub(crate) fn drawn(&mut self, sight: Option<Sight<W>>, now: Instant) {
        if sight == self.sight {
            return;
        }
        if self.sight.is_some() {
            self.stands = STANDS_FOR;
        }
        self.since = now;
        let same = |one: &Sight<W>, two: &Sight<W>| {
            (&one.which, &one.hash, one.width, one.rows) == (&two.which, &two.hash, two.width, two.rows)
        };
        if let Some(new) = &sight {
            if !self.sight.as_ref().is_some_and(|old| same(old, new)) {
                self.seen = 0;
            }
            if new.top <= self.seen {
                self.seen = self.seen.max((new.top + new.height).min(new.rows));
            }
        }
        self.sight = sight;
    }

    /// Forgets what was seen: another request takes the place.
    pub(crate) fn forget(&mut self) {
        (self.sight, self.seen, self.stands) = (None, 0, STANDS_FOR);
    }

    /// Whether a key that is pressed now is an answer to what is on the screen, and if not, why.
    pub(crate) fn may_answer(&self, now: Instant) -> Result<(), NotNow> {
        let sight = self.sight.as_ref().ok_or(NotNow::TooSoon)?;
        if self.seen < sight.rows {
            return Err(NotNow::Unread(sight.rows - self.seen));
        }
        match now.saturating_duration_since(self.since) < self.stands {
            true => Err(NotNow::TooSoon),
            false => Ok(()),
        }
    }
}

impl NotNow {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Nothing => "nothing is waiting".into(),
            Self::Settled => "already settled; press Enter".into(),
            Self::Unread(1) => "1 more line to read first (space)".into(),
            Self::Unread(rows) => format!("{rows} more lines to read first (space)"),
            Self::TooSoon => "this just appeared; press again".into(),
            Self::Typing => "typing is ignored; wait a second, then press one key".into(),
            Self::Unfit => "this is a question: press the number of a choice, or t to type an answer".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(which: &str, top: usize, height: usize) -> Option<Sight<String>> {
        Some(Sight { which: which.into(), hash: "h".into(), width: 80, rows: 10, top, height })
    }

    #[test]
    fn what_comes_to_an_empty_place_is_answered_at_once_and_what_takes_a_place_is_not() {
        let start = Instant::now();
        let mut attention = Attention::in_an_empty_place(start);
        attention.drawn(sight("one", 0, 10), start);
        assert_eq!(attention.may_answer(start), Ok(()));
        attention.drawn(sight("two", 0, 10), start);
        assert_eq!(attention.may_answer(start + STANDS_FOR / 2), Err(NotNow::TooSoon));
        assert_eq!(attention.may_answer(start + STANDS_FOR), Ok(()));
    }

    #[test]
    fn nothing_counts_before_the_last_row_was_seen_without_a_gap() {
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        let mut attention = Attention::new(start);
        attention.drawn(sight("one", 0, 4), start);
        assert_eq!(attention.may_answer(later), Err(NotNow::Unread(6)));
        attention.drawn(sight("one", 8, 2), start);
        assert_eq!(attention.may_answer(later), Err(NotNow::Unread(6)));
        attention.drawn(sight("one", 4, 4), start);
        attention.drawn(sight("one", 8, 2), later);
        assert_eq!(attention.may_answer(later), Err(NotNow::TooSoon));
        assert_eq!(attention.may_answer(later + STANDS_FOR), Ok(()));
    }
}
