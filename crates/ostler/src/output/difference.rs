//! Lines of a difference: what a line is, is its first character.

use super::Paint;

/// How a line of a difference is drawn.
pub(crate) fn difference_paint(line: &str) -> Paint {
    match line.as_bytes() {
        [b'd', b'i', b'f', b'f', b' ', ..] => Paint::Head,
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Paint::Dim,
        [b'+', ..] => Paint::Good,
        [b'-', ..] => Paint::Bad,
        [b'@', ..] => Paint::Warn,
        [b' ', ..] => Paint::Plain,
        _ => Paint::Dim,
    }
}
