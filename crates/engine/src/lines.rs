//! The last lines of what a program wrote or an agent said, as plain text: for lists, where a person wants to see at a glance
//! how it is getting on. What moves a cursor, colours or hides is left out; a line that was written over is the newer one.

use std::collections::VecDeque;

/// More lines than this are for whoever reads the journal.
pub(crate) const LINES_MAX: usize = 64;
/// Longer lines are cut: no list is wider.
const LINE_MAX: usize = 400;
/// CSI sequences that begin to write elsewhere: what follows belongs to another line.
const MOVES: &str = "ABEFGHJdf";

/// The last `count` lines that have at least `least` letters or digits, oldest first.
pub(crate) fn last_lines(bytes: &[u8], count: usize, least: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = Lines { done: VecDeque::new(), line: String::new(), length: 0, count: count.min(LINES_MAX), least };
    let (mut chars, mut returned) = (text.chars().peekable(), false);
    while let Some(c) = chars.next() {
        match c {
            '\n' => lines.end(),
            '\r' => returned = true,
            '\x08' => lines.pop(),
            '\x1b' => match chars.next() {
                Some('[') => match chars.find(|c| ('\x40'..='\x7e').contains(c)) {
                    Some('C') => lines.push(' '),
                    Some(end) if MOVES.contains(end) => lines.end(),
                    _ => {}
                },
                // A text for the terminal itself, up to its end.
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(c) = chars.next() {
                        if c == '\x07' || (c == '\x1b' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => drop(chars.next()),
                _ => {}
            },
            '\t' => lines.push(' '),
            c if c.is_control() => {}
            c => {
                if std::mem::take(&mut returned) {
                    lines.clear();
                }
                lines.push(c);
                continue;
            }
        }
        // A return at a line's end writes over nothing.
        returned &= c != '\n';
    }
    lines.end();
    lines.done.into()
}

struct Lines {
    done: VecDeque<String>,
    line: String,
    length: usize,
    count: usize,
    least: usize,
}

impl Lines {
    fn push(&mut self, c: char) {
        if self.length < LINE_MAX {
            self.line.push(c);
            self.length += 1;
        }
    }

    fn pop(&mut self) {
        if self.line.pop().is_some() {
            self.length -= 1;
        }
    }

    fn clear(&mut self) {
        self.line.clear();
        self.length = 0;
    }

    fn end(&mut self) {
        let line = self.line.trim_end();
        if line.chars().filter(|c| c.is_alphanumeric()).take(self.least).count() == self.least && self.count > 0 {
            if self.done.len() == self.count {
                self.done.pop_front();
            }
            self.done.push_back(line.to_owned());
        }
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        last_lines(text.as_bytes(), 3, 1)
    }

    #[test]
    fn the_last_lines_come_out_oldest_first_and_blank_ones_do_not() {
        assert_eq!(lines("a\r\nb\n\n  \nc\nd\n---\n"), ["b", "c", "d"]);
        assert_eq!(lines("half a line"), ["half a line"]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn what_was_written_over_is_the_newer_one() {
        assert_eq!(lines("10%\r50%\r90%"), ["90%"]);
        assert_eq!(lines("90%\r"), ["90%"]);
        assert_eq!(lines("abc\x08\x08x\n"), ["ax"]);
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left() {
        let text = "\x1b]0;title\x07\x1b[1;31mred\x1b[0m\x1b(B \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x07\u{9b}2J\n";
        assert_eq!(lines(text), ["red link2J"]);
    }

    #[test]
    fn a_screen_is_taken_apart_where_the_cursor_moves() {
        let screen = b"\x1b[2J\x1b[1;1Htop line\x1b[24;1Hstatus\x1b[10;5H*";
        assert_eq!(last_lines(screen, 8, 3), ["top line", "status"]);
    }

    #[test]
    fn long_lines_and_many_lines_are_bounded() {
        let long = "x".repeat(100_000);
        assert_eq!(lines(&long)[0].len(), LINE_MAX);
        assert_eq!(last_lines("a\n".repeat(1000).as_bytes(), 1000, 1).len(), LINES_MAX);
    }
}
