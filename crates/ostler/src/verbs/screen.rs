//! `ostler logs --screen`: the last screen of a terminal program as text. A terminal is played the end of its journal and
//! read off; nothing of what the program wrote reaches ours but letters.

use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_api::{AttachParams, Notification, ProcessInfo, WinSize, methods};
use serde::Serialize;

use super::Context;
use super::claim::claimed;
use super::connect::Reached;
use crate::output::{Called, CommandError, Kind, visible};

/// How much of the end is played: dozens of full screens of the most colourful kind.
const TAIL: u64 = 2 << 20;
/// A terminal that nobody has ever sized.
const USUAL: WinSize = WinSize { rows: 24, cols: 80 };
/// The largest screen that is modelled: more than fits any desk, and a few megabytes.
const ROWS_MAX: u16 = 500;
const COLS_MAX: u16 = 1000;

#[derive(Serialize)]
struct Shown {
    id: String,
    rows: u16,
    cols: u16,
    /// Row and column, from 0; absent where the program hides it.
    cursor: Option<(u16, u16)>,
    /// The window's title that the program set is its claim; so is this.
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<ostler_api::Claim>,
    lines: Vec<String>,
}

pub(super) fn show(context: &Context, mut reached: Reached, process: &ProcessInfo) -> Result<ExitCode, CommandError> {
    if !process.tty {
        return Err(CommandError::new(Kind::Refused, format!("{} has no terminal", process.called()))
            .hint(format!("see its output: ostler logs {}", process.called())));
    }
    let (bytes, whole) = tail(&mut reached, process)?;
    let size = process.size.clone().unwrap_or(USUAL);
    let (rows, cols) = (size.rows.clamp(1, ROWS_MAX), size.cols.clamp(1, COLS_MAX));
    let shown = draw(process, from_a_start(&bytes, whole), rows, cols);
    if context.json() {
        context.screen.value(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in &shown.lines {
        context.screen.line(&visible(line))?;
    }
    if let Some(claim) = &shown.claim {
        context.screen.note(&format!("ostler: {}", claimed(claim).0));
    }
    Ok(ExitCode::SUCCESS)
}

/// The end of what it wrote, and whether that is all of it.
fn tail(reached: &mut Reached, process: &ProcessInfo) -> Result<(Vec<u8>, bool), CommandError> {
    if process.last_seq == 0 {
        return Ok((Vec::new(), true));
    }
    let params =
        AttachParams { id: process.id.clone(), from: None, tail: Some(TAIL), lines: None, since: None, viewer: None };
    let attached = reached.client.call::<methods::ProcessAttach>(&params)?;
    let (mut next, mut bytes) = (attached.from, Vec::new());
    while next <= attached.process.last_seq {
        match reached.client.next_notification()? {
            Notification::Frame(frame) => {
                next = frame.seq + 1;
                let data = STANDARD.decode(&frame.data);
                bytes.extend(data.map_err(|error| CommandError::failed(format!("frame {}: {error}", frame.seq)))?);
            }
            Notification::Gap(gap) => next = gap.first_seq,
            Notification::Exit(_) => break,
            Notification::Lost(lost) => return Err(CommandError::failed(lost.message)),
            _ => {}
        }
    }
    Ok((bytes, attached.from <= 1))
}

/// Not in the middle of a sequence or a character.
fn from_a_start(bytes: &[u8], whole: bool) -> &[u8] {
    let start = if whole { 0 } else { bytes.iter().position(|byte| matches!(byte, 0x1b | b'\n')).unwrap_or(0) };
    bytes.get(start..).unwrap_or_default()
}

fn draw(process: &ProcessInfo, bytes: &[u8], rows: u16, cols: u16) -> Shown {
    let mut terminal = vt100::Parser::new(rows, cols, 0);
    terminal.process(bytes);
    let screen = terminal.screen();
    let mut lines: Vec<String> = screen.rows(0, cols).map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let cursor = (!screen.hide_cursor()).then(|| screen.cursor_position());
    Shown { id: process.id.clone(), rows, cols, cursor, claim: process.claim.clone(), lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut terminal = vt100::Parser::new(4, 10, 0);
        terminal.process(bytes);
        terminal.screen().rows(0, 10).map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_screen_is_what_a_terminal_would_show() {
        assert_eq!(lines(b"old\x1b[?1049h\x1b[2J\x1b[2;3Hhi\x1b[31m!\x1b[4;1Hend"), ["", "  hi!", "", "end"]);
        assert_eq!(lines(b"old\x1b[?1049hx\x1b[?1049l"), ["old", "", "", ""]);
        assert_eq!(lines("1\r\n2\r\n3\r\n4\r\n日本語日本語".as_bytes()), ["3", "4", "日本語日本", "語"]);
    }

    #[test]
    fn a_tail_begins_where_something_begins() {
        assert_eq!(from_a_start(b"31mred\x1b[0mplain", false), b"\x1b[0mplain");
        assert_eq!(from_a_start(b"31mred", true), b"31mred");
        assert_eq!(from_a_start(b"\xa9 caf", false), b"\xa9 caf");
    }
}
