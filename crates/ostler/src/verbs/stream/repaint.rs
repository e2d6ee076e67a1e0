//! Coming back to a terminal program: its screen is drawn again from the end of its journal.

use crate::output::escape::{Filter, Modes, Policy, Token, Tokens};

const HOME: &[u8] = b"\x1b[H";
const LEAVES: [&[u8]; 3] = [b"\x1b[?1049l", b"\x1b[?1047l", b"\x1b[?47l"];

/// What to write to the terminal so that it shows what the program's last output would have left there.
/// `past` is the end of the journal, or `whole`; at most `tail` bytes of it are drawn. `modes` follows all of it.
pub(super) fn repaint(past: &[u8], whole: bool, tail: usize, modes: &mut Modes) -> Vec<u8> {
    let drawn = drawn(past, whole, modes);
    let mut out = b"\x1b[0m".to_vec();
    if modes.full_screen() {
        // Its own screen, empty; the shell's stays as it is underneath.
        out.extend(modes.restore());
        out.extend(b"\x1b[H\x1b[2J");
    }
    Filter::new(Policy::Replay).tap(last(&drawn, tail), &mut out);
    // Modes that were set before the part that was drawn.
    out.extend(modes.restore());
    out
}

/// What was drawn on the screen that is shown now, since it was cleared last. A full-screen program that has ended drew on
/// another, and so did one that ends here without having begun in what is left of the journal.
fn drawn(past: &[u8], whole: bool, modes: &mut Modes) -> Vec<u8> {
    let (mut tokens, mut screen, mut beneath) = (Tokens::default(), Vec::new(), Vec::new());
    let (mut known, mut at_home) = (whole, false);
    tokens.feed(past, |token| {
        let bytes = match token {
            Token::Text(bytes) | Token::Sequence(bytes) => bytes,
            Token::Control(ref byte) => std::slice::from_ref(byte),
        };
        if let Token::Sequence(sequence) = token {
            let before = modes.full_screen();
            modes.feed(sequence);
            let after = modes.full_screen();
            let leaves = LEAVES.contains(&sequence);
            match (before, after) {
                (false, true) => beneath = std::mem::take(&mut screen),
                (true, false) => screen = std::mem::take(&mut beneath),
                (false, false) if leaves && !known => screen.clear(),
                _ => {}
            }
            if clears(sequence, at_home) {
                screen.clear();
                screen.extend(if at_home { HOME } else { b"" });
            }
            // Which screen it is stands in the modes, and leaving one that was not entered would move the cursor.
            if before != after || leaves {
                (known, at_home) = (true, false);
                return;
            }
        }
        at_home = bytes == HOME;
        screen.extend_from_slice(bytes);
    });
    // Its rest comes next.
    modes.feed(tokens.pending());
    screen.extend_from_slice(tokens.pending());
    screen
}

/// Whether nothing is left after it of what was on the screen before.
fn clears(sequence: &[u8], at_home: bool) -> bool {
    matches!(sequence, b"\x1b[2J" | b"\x1bc") || at_home && matches!(sequence, b"\x1b[J" | b"\x1b[0J")
}

/// So many bytes of the end, from the beginning of a line where there is one.
fn last(drawn: &[u8], tail: usize) -> &[u8] {
    let cut = drawn.len().saturating_sub(tail);
    let recent = drawn.get(cut..).unwrap_or_default();
    let line = recent.iter().position(|byte| *byte == b'\n').filter(|_| cut > 0);
    recent.get(line.map_or(0, |at| at + 1)..).unwrap_or_default()
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

    fn shown(past: &[u8], whole: bool) -> String {
        let text = drawn(past, whole, &mut Modes::default()).escape_ascii().to_string();
        text.replace("\\x1b", "^")
    }

    #[test]
    fn a_repaint_begins_at_the_last_clear_of_the_screen() {
        assert_eq!(shown(b"old old\x1b[2Jmiddle\x1b[H\x1b[Jnew", true), "^[H^[Jnew");
        assert_eq!(shown(b"old\x1b[H\x1b[2J\x1b[3Jnew", true), "^[H^[2J^[3Jnew");
        assert_eq!(shown(b"a\x1b[Hb\x1b[Jc", true), "a^[Hb^[Jc", "the end of a screen is not all of it");
    }

    #[test]
    fn what_a_full_screen_program_drew_is_gone_with_it() {
        let vim = b"$ vim\r\n\x1b[?1049h\x1b[H\x1b[2J~\r\n~\x1b[?1049l$ ";
        assert_eq!(shown(vim, true), "$ vim\\r\\n$ ");
        let again = [vim.as_slice(), b"vim\r\n\x1b[?1049h\x1b[H\x1b[Jtext"].concat();
        assert_eq!(shown(&again, true), "^[H^[Jtext");
        assert_eq!(shown(b"~\r\n~\x1b[?1049l$ ", false), "$ ", "it began before what is left");
        assert_eq!(shown(b"$ reset\x1b[?1049l$ ", true), "$ reset$ ", "who was never there leaves nothing");
    }

    #[test]
    fn a_long_past_begins_at_a_line() {
        assert_eq!(last(b"one\ntwo\nthree", 8), b"three");
        assert_eq!(last(b"one\ntwo", 1000), b"one\ntwo");
    }

    #[test]
    fn a_full_screen_program_gets_its_screen_and_modes_back_though_they_were_set_long_ago() {
        let mut past = b"\x1b[?1049h\x1b[?1h".to_vec();
        past.extend([b'x'; 100]);
        let mut modes = Modes::default();
        let out = repaint(&past, true, 10, &mut modes);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("\x1b[0m\x1b[?1h\x1b[?1049h\x1b[H\x1b[2J"), "{text:?}");
        assert!(text.contains("xxxxxxxxxx") && !text.contains("xxxxxxxxxxx"), "{text:?}");
        assert!(modes.full_screen());
    }
}
