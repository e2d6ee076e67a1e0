//! What an approval terminal shows of a command's output: how much there was, and how it began.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// Lines of output that a terminal shows.
const LINES_SHOWN: usize = 3;
/// What is shown of one line; nobody reads more on an approval terminal.
const LINE_SHOWN: usize = 1024;

/// The beginning of an output, for a terminal: how many lines there are, and the first of them as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// All lines, also one without an end.
    pub lines: u64,
    /// The first lines, cut to a sane length, not yet safe to show.
    pub first: Vec<Vec<u8>>,
    open: bool,
}

impl Write for Excerpt {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.open {
                self.lines += 1;
                if self.first.len() < LINES_SHOWN {
                    self.first.push(Vec::new());
                }
            }
            let line = piece.strip_suffix(b"\n").unwrap_or(piece);
            if self.lines <= LINES_SHOWN as u64
                && let Some(last) = self.first.last_mut()
            {
                let room = LINE_SHOWN.saturating_sub(last.len()).min(line.len());
                last.extend_from_slice(line.get(..room).unwrap_or_default());
            }
            self.open = !piece.ends_with(b"\n");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(pieces: &[&str]) -> (u64, Vec<String>) {
        let mut excerpt = Excerpt::default();
        for piece in pieces {
            excerpt.write_all(piece.as_bytes()).unwrap();
        }
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        (excerpt.lines, excerpt.first.into_iter().map(text).collect())
    }

    #[test]
    fn the_first_lines_are_kept_and_all_are_counted() {
        assert_eq!(excerpt(&[]), (0, vec![]));
        assert_eq!(excerpt(&["a\nb"]), (2, vec!["a".into(), "b".into()]));
        assert_eq!(excerpt(&["a", "b\n\nc", "d\ne\nf\n"]), (5, vec!["ab".into(), "".into(), "cd".into()]));
    }

    #[test]
    fn an_endless_line_costs_little() {
        let (lines, first) = excerpt(&[&"x".repeat(5000), &"x".repeat(5000)]);
        assert_eq!((lines, first[0].len()), (1, LINE_SHOWN));
    }
}
