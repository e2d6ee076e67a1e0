//! One line of a request, and what becomes of it on a screen that is narrower.

use unicode_width::UnicodeWidthChar;

use super::NARROWEST;
use crate::output::{Paint, spelled};

/// Before the rest of a line that did not fit.
pub(super) const CONTINUED: &str = "    ↳ ";

/// A longer word is broken where the line ends: on the narrowest screen it must fit beside [`CONTINUED`].
const WORD_MAX: usize = 16;

/// One line; its text is safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) paint: Paint,
    pub(crate) text: String,
}

impl Row {
    /// A line with words of a stranger in it: what is not seen is written out.
    pub(crate) fn new(paint: Paint, text: &str) -> Self {
        Self { paint, text: spelled(text) }
    }

    /// A line of our own signs, and of values that were made safe one by one.
    pub(crate) fn ours(paint: Paint, text: impl Into<String>) -> Self {
        Self { paint, text: text.into() }
    }
}

/// The rows as they fit a screen of this width: nothing is cut, what is too long goes on below under a mark.
pub(crate) fn wrap(rows: &[Row], width: usize) -> Vec<Row> {
    let width = width.max(NARROWEST);
    let mut wrapped = Vec::with_capacity(rows.len());
    for row in rows {
        let (mut line, mut used) = (String::new(), 0);
        for c in row.text.chars() {
            let wide = columns(c);
            if used + wide > width {
                // A word goes to the next line whole, unless it is long: then its beginning is news here.
                let word = line.rfind(' ').map_or(line.len(), |blank| blank + 1);
                let word = if line.len() - word > WORD_MAX || line.get(..word).is_some_and(is_blank) {
                    line.len()
                } else {
                    word
                };
                let rest = line.split_off(word);
                wrapped
                    .push(Row { paint: row.paint, text: std::mem::replace(&mut line, format!("{CONTINUED}{rest}")) });
                used = line.chars().map(columns).sum();
            }
            line.push(c);
            used += wide;
        }
        wrapped.push(Row { paint: row.paint, text: line });
    }
    wrapped
}

/// Nothing but blanks, or the mark of a line that goes on.
fn is_blank(line: &str) -> bool {
    line.strip_prefix(CONTINUED).unwrap_or(line).trim().is_empty()
}

/// As many columns as any terminal may take for it: a line must not be broken by anybody but us.
fn columns(c: char) -> usize {
    match c.is_ascii() {
        true => 1,
        false => c.width_cjk().unwrap_or(1).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn wrapping_loses_nothing_and_stays_within_the_width() {
        let rows = [Row::new(Paint::Plain, &format!("{}日本{}кот", "a".repeat(27), "b".repeat(90)))];
        let wrapped = wrap(&rows, 30);
        // Our own mark is one column everywhere; letters may be two.
        assert!(wrapped.iter().all(|row| row.text.replace('↳', " ").width_cjk() <= 30), "{wrapped:?}");
        let joined: String = wrapped.iter().map(|row| row.text.replace(CONTINUED, "")).collect();
        assert_eq!(joined, rows[0].text);
    }

    #[test]
    fn a_line_is_broken_between_words_where_there_are_some() {
        let wrapped = wrap(&[Row::ours(Paint::Plain, "any program of your user can type here, agents too")], 30);
        let texts: Vec<&str> = wrapped.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(texts, ["any program of your user can ", "    ↳ type here, agents too"]);
    }

    #[test]
    fn the_rest_of_a_line_cannot_pose_as_a_line() {
        let padded = format!("{}Command: df -h", " ".repeat(29));
        let wrapped = wrap(&[Row::new(Paint::Plain, &format!("x{padded}"))], 30);
        assert_eq!(wrapped[1].text, "    ↳ Command: df -h");
    }
}
