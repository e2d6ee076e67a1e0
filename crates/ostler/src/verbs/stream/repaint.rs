//! Coming back to a terminal program: its screen is drawn again from the end of its journal.

use crate::output::escape::{Filter, Modes, Policy};

/// Sequences after which nothing that was on the screen before is left.
const CLEARS: &[&[u8]] = &[b"\x1b[2J", b"\x1b[3J", b"\x1bc", b"\x1b[?1049h", b"\x1b[H\x1b[J"];

/// What to write to the terminal so that it shows what the program's last output would have left there.
/// `past` is the end of the journal; at most `tail` bytes of it are drawn. `modes` follows all of it.
pub(super) fn repaint(past: &[u8], tail: usize, modes: &mut Modes) -> Vec<u8> {
    modes.feed(past);
    let mut out = b"\x1b[0m".to_vec();
    if modes.full_screen() {
        // Its own screen, empty; the shell's stays as it is underneath.
        out.extend(modes.restore());
        out.extend(b"\x1b[H\x1b[2J");
    }
    Filter::new(Policy::Replay).tap(past.get(start(past, tail)..).unwrap_or_default(), &mut out);
    // Modes that were set before the part that was drawn.
    out.extend(modes.restore());
    out
}

/// Where to begin: at the last clearing of the screen; else at a line's beginning, not in the middle of something.
fn start(past: &[u8], tail: usize) -> usize {
    let cut = past.len().saturating_sub(tail);
    let recent = past.get(cut..).unwrap_or_default();
    let clear = CLEARS.iter().filter_map(|clear| last_position(recent, clear)).max();
    match clear {
        Some(at) => cut + at,
        None if cut == 0 => 0,
        None => cut + recent.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1),
    }
}

fn last_position(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).rposition(|part| part == what)
}

impl Filter {
    /// One piece, then its unfinished end.
    fn tap(mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.feed(bytes, out);
        self.finish(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repaint_begins_at_the_last_clear_of_the_screen() {
        let past = b"old old\x1b[2Jmiddle\x1b[H\x1b[Jnew";
        assert_eq!(&past[start(past, 1000)..], b"\x1b[H\x1b[Jnew");
    }

    #[test]
    fn without_a_clear_a_long_past_begins_at_a_line() {
        assert_eq!(start(b"one\ntwo\nthree", 8), 8);
        assert_eq!(start(b"one\ntwo", 1000), 0);
    }

    #[test]
    fn a_full_screen_program_gets_its_screen_and_modes_back_though_they_were_set_long_ago() {
        let mut past = b"\x1b[?1049h\x1b[?1h".to_vec();
        past.extend([b'x'; 100]);
        let mut modes = Modes::default();
        let out = repaint(&past, 10, &mut modes);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("\x1b[0m\x1b[?1h\x1b[?1049h\x1b[H\x1b[2J"), "{text:?}");
        assert!(text.contains("xxxxxxxxxx") && !text.contains("xxxxxxxxxxx"), "{text:?}");
        assert!(modes.full_screen());
    }
}
