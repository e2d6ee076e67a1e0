//! A request at a prompt: which page of it is on the screen, and what a key does now.

use std::time::Instant;

use super::attention::{Attention, NotNow, Sight};
use super::pages::Pages;
use super::row::Row;
use crate::output::Paint;

/// A request that is put to somebody at a prompt. Whoever draws throws away what was typed before, writes [`Asked::page`], says
/// so with [`Asked::drawn`], and asks [`Asked::press`] about every key.
pub(crate) struct Asked {
    which: String,
    hash: String,
    pages: Pages,
    at: usize,
    attention: Attention<String>,
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressed {
    /// The next page is to be drawn.
    Turned,
    /// Nothing, and why.
    NotNow(NotNow),
    /// It is an answer.
    Answer(u8),
}

impl Asked {
    /// The request `which` with this content. `replaces` says that something else was asked in its place until just now.
    pub(crate) fn new(which: &str, hash: &str, pages: Pages, replaces: bool, now: Instant) -> Self {
        let attention = if replaces { Attention::new(now) } else { Attention::in_an_empty_place(now) };
        Self { which: which.to_owned(), hash: hash.to_owned(), pages, at: 0, attention }
    }

    /// The page that is to be on the screen, for a terminal whose cursor stands at the beginning of a line or behind the last
    /// line of the page before: all but its last line, and that line, behind which the cursor stays.
    pub(crate) fn page(&self, paint: impl Fn(Paint, &str) -> String) -> (String, String) {
        let lines = |rows: &[Row]| rows.iter().map(|row| paint(row.paint, &row.text)).collect::<Vec<_>>();
        // What said that there is more makes room for it.
        let start = if self.at > 0 { "\r\x1b[K" } else { "" };
        let body: String = lines(self.pages.body(self.at)).iter().map(|line| format!("{line}\r\n")).collect();
        (format!("{start}{body}"), lines(&self.pages.foot(self.at)).join("\r\n"))
    }

    /// The page is on the screen.
    pub(crate) fn drawn(&mut self, now: Instant) {
        let (top, height) = self.pages.place(self.at);
        let (which, hash, width) = (self.which.clone(), self.hash.clone(), self.pages.size().0);
        self.attention.drawn(Some(Sight { which, hash, width, rows: self.pages.rows(), top, height }), now);
    }

    /// The size of the screen that it was laid out for.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.pages.size()
    }

    /// Another size: it is read from its first page on.
    pub(crate) fn lay_out(&mut self, pages: Pages) {
        (self.pages, self.at) = (pages, 0);
        self.attention.forget();
    }

    /// A key was pressed. A blank turns the page while there is one.
    pub(crate) fn press(&mut self, key: u8, now: Instant) -> Pressed {
        let more = self.at + 1 < self.pages.count();
        match (more, self.attention.may_answer(now)) {
            (true, _) if key == b' ' && self.attention.sight().is_some() => {
                self.at += 1;
                Pressed::Turned
            }
            (_, Err(why)) => Pressed::NotNow(why),
            (_, Ok(())) => Pressed::Answer(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::STANDS_FOR;
    use std::time::Duration;

    fn asked(rows: usize, replaces: bool, now: Instant) -> Asked {
        let rows: Vec<Row> = (0..rows).map(|number| Row::ours(Paint::Plain, format!("row {number}"))).collect();
        let mut asked = Asked::new("a1", "h", Pages::of(&rows, "yes? ", (80, 24)).unwrap(), replaces, now);
        asked.drawn(now);
        asked
    }

    #[test]
    fn no_key_counts_before_the_last_page_was_seen() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        let mut asked = asked(60, false, now);
        for key in b"yn\rqa" {
            assert!(matches!(asked.press(*key, later), Pressed::NotNow(NotNow::Unread(_))));
        }
        for _ in 0..2 {
            assert_eq!(asked.press(b' ', later), Pressed::Turned);
            asked.drawn(later);
        }
        assert_eq!(asked.press(b'y', later), Pressed::NotNow(NotNow::TooSoon));
        assert_eq!(asked.press(b' ', later + STANDS_FOR), Pressed::Answer(b' '));
        assert_eq!(asked.press(b'y', later + STANDS_FOR), Pressed::Answer(b'y'));
    }

    #[test]
    fn a_question_that_takes_anothers_place_stands_for_a_while() {
        let now = Instant::now();
        assert_eq!(asked(3, false, now).press(b'y', now), Pressed::Answer(b'y'));
        let mut second = asked(3, true, now);
        assert_eq!(second.press(b'y', now), Pressed::NotNow(NotNow::TooSoon));
        assert_eq!(second.press(b'y', now + STANDS_FOR), Pressed::Answer(b'y'));
    }

    #[test]
    fn after_a_change_of_size_it_is_read_again() {
        let now = Instant::now();
        let mut asked = asked(3, false, now);
        let rows: Vec<Row> = (0..30).map(|_| Row::ours(Paint::Plain, "row")).collect();
        asked.lay_out(Pages::of(&rows, "yes? ", (80, 10)).unwrap());
        assert!(matches!(asked.press(b'y', now + STANDS_FOR), Pressed::NotNow(_)));
        asked.drawn(now);
        assert!(matches!(asked.press(b'y', now + STANDS_FOR), Pressed::NotNow(NotNow::Unread(_))));
    }
}
