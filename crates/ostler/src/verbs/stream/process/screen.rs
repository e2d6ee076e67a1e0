//! The screen of a terminal program, shown on ours: drawn again for who comes back, sized, and taken away when we leave.

use std::io;
use std::time::Instant;

use ostler_api::{ResizeParams, WinSize, methods};

use super::super::repaint::repaint;
use super::super::terminal::{self, Mode, Raw};
use super::super::trouble::Trouble;
use super::{NUDGE, ProcessWatch};

impl ProcessWatch<'_> {
    /// Back in the foreground: the shell has had the terminal.
    pub(super) fn resume(&mut self) -> Result<(), Trouble> {
        if let Some((_, mode)) = self.view.keyboard {
            self.raw = None;
            self.raw = Some(Raw::enter(mode)?);
            if self.draws() {
                self.sink.raw(&self.modes.restore())?;
            }
            self.begin_nudge()?;
        }
        Ok(())
    }

    pub(super) fn repaint_if_due(&mut self) -> Result<(), Trouble> {
        if self.next <= self.past_end {
            return Ok(());
        }
        let Some((past, whole)) = self.past.take() else { return Ok(()) };
        let tail = usize::try_from(self.view.tail.unwrap_or_default()).unwrap_or(usize::MAX);
        let picture = repaint(&past, whole, tail, &mut self.modes);
        self.sink.raw(&picture)?;
        self.begin_nudge()
    }

    /// One line less now, the true size a moment later: whoever draws whole screens draws twice. One less than all who look
    /// agree on, or nothing would change.
    pub(super) fn begin_nudge(&mut self) -> Result<(), Trouble> {
        let Some(own) = terminal::size().filter(|_| self.view.sized) else { return Ok(()) };
        let holds = self.size.as_ref().map_or(own.rows, |size| size.rows.min(own.rows));
        let rows = if holds > 1 { holds - 1 } else { 2 };
        self.nudge = Some(Instant::now() + NUDGE);
        self.resize(Some(WinSize { rows, ..own }))
    }

    pub(super) fn resize(&mut self, size: Option<WinSize>) -> Result<(), Trouble> {
        if let Some(size) = size.filter(|_| self.view.sized) {
            let params = ResizeParams { id: self.id.clone(), rows: size.rows, cols: size.cols };
            let asked = self.link.client.send::<methods::ProcessResize>(&params)?;
            self.sizing = self.nudge.is_none().then_some(asked);
        }
        Ok(())
    }

    /// Whether the program's own sequences have reached our terminal.
    fn draws(&self) -> bool {
        self.view.draws && self.sink.is_raw_terminal()
    }

    pub(super) fn leave_screen(&mut self) -> io::Result<()> {
        if self.draws() {
            let off = self.modes.leave();
            self.sink.raw(&off)?;
        }
        self.raw = None;
        Ok(())
    }

    /// A word to the person, on a line of its own also in raw mode.
    pub(super) fn say(&self, text: &str) {
        let before = if self.is_raw() { "\r\n" } else { "" };
        self.greet(&format!("{before}ostler: {text}"));
    }

    /// A line where nothing stands yet.
    pub(super) fn greet(&self, line: &str) {
        use std::io::Write;
        let end = if self.is_raw() { "\r\n" } else { "\n" };
        let _ = write!(io::stderr(), "{line}{end}");
    }

    fn is_raw(&self) -> bool {
        matches!(self.view.keyboard, Some((_, Mode::Raw)))
    }
}
