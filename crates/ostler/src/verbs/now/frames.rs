//! A picture goes to the terminal as one piece: what is drawn cell by cell is never seen, or sent over a slow line, half done.

use std::io::{self, Write};

/// Synchronized output: a terminal that knows it shows nothing in between, any other ignores it.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";
/// Said with every picture, also when nothing in it is new.
const HIDE_CURSOR: &[u8] = b"\x1b[?25l";

/// Collects what is drawn until it is flushed.
pub(super) struct Frames<W> {
    to: W,
    drawn: Vec<u8>,
    cursor_hidden: bool,
}

impl<W> Frames<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, drawn: Vec::new(), cursor_hidden: false }
    }
}

impl<W: Write> Write for Frames<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.drawn.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn.is_empty() || (self.cursor_hidden && drawn == HIDE_CURSOR) {
            return Ok(());
        }
        self.cursor_hidden = drawn.ends_with(HIDE_CURSOR);
        self.to.write_all(&[BEGIN, &drawn, END].concat())?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_one_piece_and_nothing_new_is_nothing_sent() {
        let mut frames = Frames::new(Vec::new());
        for piece in [&b"\x1b[1;1Ha"[..], b"\x1b[2;1Hb", HIDE_CURSOR] {
            frames.write_all(piece).unwrap();
        }
        assert_eq!(frames.to, b"");
        frames.flush().unwrap();
        assert_eq!(frames.to, b"\x1b[?2026h\x1b[1;1Ha\x1b[2;1Hb\x1b[?25l\x1b[?2026l");
        let sent = frames.to.len();
        frames.write_all(HIDE_CURSOR).unwrap();
        frames.flush().unwrap();
        frames.flush().unwrap();
        assert_eq!(frames.to.len(), sent);
    }
}
