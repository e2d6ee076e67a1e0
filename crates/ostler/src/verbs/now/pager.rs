//! Something to read, page by page: the keys, or what was changed.

use super::keys::Key;
use crate::output::{Paint, visible};
use crate::request::{Row, wrap};

const KEYS: &[(&str, &str)] = &[
    ("j k, arrows", "move"),
    ("Enter", "attach; you are back here when you leave"),
    ("", "read the last output of what has ended, and dismiss it"),
    ("r", "run it again; continue a session after a reboot"),
    ("c", "start an agent"),
    ("d", "what was changed in its folder since it began, commits too"),
    ("/", "filter; Esc shows all"),
    ("q", "quit; everything keeps running"),
    ("", ""),
    ("y", "approve the request"),
    ("n", "deny it"),
    ("m", "deny with a message"),
    ("i", "deny and interrupt"),
    ("s", "approve for this session"),
    ("a", "approve for 30 days (see `ostler rules`)"),
    ("1-9, t", "answer a question, or type an answer"),
    ("space, b", "page down and up"),
    ("", ""),
    ("", "Keys only count once you have seen the whole request,"),
    ("", "and it did not change for 0.3 s."),
    ("", "state?  reported by the program itself, not verified."),
];

/// What came of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    Stays,
    Left,
}

pub(super) struct Pager {
    pub(super) title: String,
    rows: Vec<Row>,
    wrapped: (usize, Vec<Row>),
    top: usize,
    height: usize,
}

impl Pager {
    pub(super) fn new(title: &str, rows: Vec<Row>) -> Self {
        Self { title: visible(title), rows, wrapped: (0, Vec::new()), top: 0, height: 1 }
    }

    pub(super) fn keys() -> Self {
        let row = |(key, what): &(&str, &str)| Row::ours(Paint::Plain, format!("  {key:12} {what}"));
        Self::new("Keys", KEYS.iter().map(row).collect())
    }

    /// The rows that are to be on a screen of this size.
    pub(super) fn page(&mut self, width: usize, height: usize) -> &[Row] {
        if self.wrapped.0 != width {
            self.wrapped = (width, wrap(&self.rows, width));
        }
        self.height = height.max(1);
        self.top = self.top.min(self.last());
        let end = (self.top + self.height).min(self.wrapped.1.len());
        self.wrapped.1.get(self.top..end).unwrap_or_default()
    }

    /// Where in the whole the page is.
    pub(super) fn place(&self) -> String {
        let rows = self.wrapped.1.len();
        let end = (self.top + self.height).min(rows);
        let more = if end < rows { "  (space for more)" } else { "" };
        format!("lines {}-{end} of {rows}{more}", (self.top + 1).min(rows))
    }

    fn last(&self) -> usize {
        self.wrapped.1.len().saturating_sub(self.height)
    }

    pub(super) fn press(&mut self, key: Key) -> Turned {
        let to = match key {
            Key::Char('q' | '?' | 'd') | Key::Escape | Key::Interrupt => return Turned::Left,
            Key::Char(' ') | Key::PageDown => self.top.saturating_add(self.height),
            Key::Char('b') | Key::PageUp => self.top.saturating_sub(self.height),
            Key::Char('j') | Key::Down | Key::Enter => self.top + 1,
            Key::Char('k') | Key::Up => self.top.saturating_sub(1),
            Key::Char('g') | Key::Home => 0,
            Key::Char('G') => usize::MAX,
            _ => self.top,
        };
        self.top = to.min(self.last());
        Turned::Stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_can_be_read_and_nothing_beyond_its_end() {
        let rows = (0..25).map(|number| Row::ours(Paint::Plain, format!("row {number}"))).collect();
        let mut pager = Pager::new("t", rows);
        assert_eq!(pager.page(80, 10)[0].text, "row 0");
        assert_eq!(pager.place(), "lines 1-10 of 25  (space for more)");
        for _ in 0..9 {
            pager.press(Key::Char(' '));
        }
        assert_eq!(pager.page(80, 10).last().unwrap().text, "row 24");
        assert_eq!(pager.place(), "lines 16-25 of 25");
        assert_eq!((pager.press(Key::Char('b')), pager.page(80, 10)[0].text.as_str()), (Turned::Stays, "row 5"));
        assert_eq!(pager.press(Key::Escape), Turned::Left);
    }
}
