//! Lines that are typed while something is followed. What is being typed stands in a row of its own below everything that is
//! said: it is taken away before something is written and drawn again after it.

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::edit::{Editor, Key};
use super::terminal::{self, Mode, Raw};
use crate::config::DetachKey;
use crate::output::{has_cursor, visible_lines};

/// Keys read at once: what is pasted comes in several pieces.
const KEYS: usize = 8 * 1024;
/// A terminal that does not tell its width.
const USUAL_WIDTH: u16 = 80;
/// Makes sure of a row below, remembers the end of what was said, and goes to that row.
const BELOW: &str = "\x1bD\x1b[A\x1b7\r\n";
const CLEAR_ROW: &str = "\r\x1b[2K";
/// Back to the end of what was said.
const BACK: &str = "\x1b8";
const BELL: &str = "\x07";
/// From now on what is pasted is told from what is typed; and no more.
const TELL_PASTES: &str = "\x1b[?2004h";
const TELL_PASTES_NO_MORE: &str = "\x1b[?2004l";

/// How the row that was written last ends, as whoever writes knows it.
#[derive(Clone, Default)]
pub(in crate::verbs) struct LastRow(Rc<Cell<bool>>);

impl LastRow {
    /// This was written.
    pub(in crate::verbs) fn wrote(&self, text: &str) {
        if let Some(last) = text.chars().last() {
            self.0.set(last != '\n');
        }
    }

    fn is_open(&self) -> bool {
        self.0.get()
    }
}

/// The terminal, read by lines.
pub(in crate::verbs) struct Lines {
    key: DetachKey,
    mode: Option<Raw>,
    editor: Editor,
    above: LastRow,
    /// A terminal without places to draw at gets the keys back as they are typed, and no more.
    plain: bool,
    /// How it is drawn at the moment; nothing: not at all.
    drawn: Option<Drawn>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Drawn {
    /// In the row that is next to be written.
    Here,
    /// Below a row that is not finished.
    Below,
}

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    Interrupt,
    Leave,
    HungUp,
}

impl Lines {
    /// This key leaves; `above` is what is written beside the line.
    pub(in crate::verbs) fn read_with(key: DetachKey, above: LastRow) -> io::Result<Self> {
        let plain = !has_cursor();
        Ok(Self { key, mode: Some(enter(plain)?), editor: Editor::default(), above, plain, drawn: None })
    }

    /// What there is to read, in its order; what is typed after a key that leaves does not count.
    pub(super) fn read(&mut self) -> io::Result<Vec<Line>> {
        let mut buffer = [0; KEYS];
        let stdin = rustix::stdio::stdin();
        let count = match rustix::io::read(stdin, &mut buffer) {
            Ok(0) | Err(Errno::IO) => return Ok(vec![Line::HungUp]),
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        self.hide();
        let mut lines = Vec::new();
        for byte in buffer.get(..count).unwrap_or_default() {
            match self.editor.press(*byte, self.key.byte()) {
                Key::Edited if self.plain && !byte.is_ascii_control() => draw_bytes(&[*byte]),
                Key::Edited => {}
                Key::Full => draw(BELL),
                Key::Line(text) if text.trim().is_empty() => {}
                Key::Line(text) => {
                    self.write_down(&text);
                    lines.push(Line::Text(text.trim().to_owned()));
                }
                Key::Interrupt => lines.push(Line::Interrupt),
                Key::Leave => {
                    lines.push(Line::Leave);
                    return Ok(lines);
                }
            }
        }
        self.show();
        Ok(lines)
    }

    /// A line that is finished stays where it was typed, the whole of it.
    fn write_down(&self, text: &str) {
        if self.plain {
            draw("\r\n");
            self.above.wrote("\n");
            return;
        }
        let before = if self.above.is_open() { "\r\n" } else { "" };
        draw(&format!("{before}{}\r\n", visible_lines(text).replace('\n', "\r\n")));
        self.above.wrote("\n");
    }

    /// Takes the row away: something is to be written.
    pub(super) fn hide(&mut self) {
        match self.drawn.take() {
            None => {}
            Some(Drawn::Here) => draw(CLEAR_ROW),
            Some(Drawn::Below) => draw(&format!("{CLEAR_ROW}{BACK}")),
        }
    }

    /// Draws the row again, if there is anything in it.
    pub(super) fn show(&mut self) {
        if self.plain || self.editor.is_empty() || self.mode.is_none() {
            return;
        }
        let width = terminal::size().map_or(USUAL_WIDTH, |size| size.cols);
        let text = self.editor.shown(usize::from(width));
        let open = self.above.is_open();
        draw(&format!("{}{text}", if open { BELOW } else { "" }));
        self.drawn = Some(if open { Drawn::Below } else { Drawn::Here });
    }

    /// The terminal is somebody else's until [`take_back`](Self::take_back).
    pub(super) fn give(&mut self) {
        self.hide();
        if self.mode.is_some() && !self.plain {
            draw(TELL_PASTES_NO_MORE);
        }
        self.mode = None;
    }

    /// It is ours again, and the cursor stands in a row of its own.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        if self.mode.is_none() {
            self.mode = Some(enter(self.plain)?);
            self.above.wrote("\n");
        }
        self.show();
        Ok(())
    }

    /// What is typed within so long.
    pub(super) fn read_within(&mut self, wait: Duration) -> io::Result<Vec<Line>> {
        let stdin = rustix::stdio::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Timespec::try_from(wait).ok().as_ref()) {
            Ok(0) | Err(Errno::INTR) => Ok(Vec::new()),
            Ok(_) => self.read(),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.give();
    }
}

/// Keys come one by one from now on, and pastes as such.
fn enter(plain: bool) -> io::Result<Raw> {
    let mode = Raw::enter(Mode::Lines)?;
    if !plain {
        draw(TELL_PASTES);
    }
    Ok(mode)
}

/// A terminal that is gone shows nothing; that it is gone is noticed elsewhere.
fn draw(text: &str) {
    draw_bytes(text.as_bytes());
}

fn draw_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
