//! Makes output fit to be shown to a terminal that did not ask for it.

use super::caret;
use super::token::{Token, Tokens};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Everything but colours is shown in letters: output of a program that wrote to a pipe.
    Show,
    /// Everything but colours is left out: the log of a program that drew on a terminal.
    Drop,
    /// Everything passes but what would make the terminal answer, ring or fill the clipboard a second time.
    Replay,
}

pub(crate) struct Filter {
    policy: Policy,
    tokens: Tokens,
    /// The beginning of a UTF-8 character whose rest has not come yet.
    partial: Vec<u8>,
    coloured: bool,
}

impl Filter {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, tokens: Tokens::default(), partial: Vec::new(), coloured: false }
    }

    /// Appends the fit form of `bytes` to `out`.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Self { policy, tokens, partial, coloured } = self;
        tokens.feed(bytes, |token| match token {
            Token::Text(text) if *policy == Policy::Replay => out.extend_from_slice(text),
            Token::Text(text) => safe_text(text, partial, out),
            Token::Control(byte) => control(*policy, byte, out),
            Token::Sequence(sequence) => {
                let colour = is_colour(sequence);
                *coloured |= colour;
                match policy {
                    _ if colour => out.extend_from_slice(sequence),
                    Policy::Drop => {}
                    Policy::Show => letters(sequence, out),
                    Policy::Replay if has_effect_outside(sequence) => {}
                    Policy::Replay => out.extend_from_slice(sequence),
                }
            }
        });
    }

    /// What is left at the end: unfinished pieces in letters, and colours switched off.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        match self.policy {
            Policy::Show => {
                letters(self.tokens.pending(), out);
                escape_bytes(&self.partial, out);
            }
            Policy::Drop => {}
            // The rest of it comes next.
            Policy::Replay => out.extend_from_slice(self.tokens.pending()),
        }
        if self.coloured && self.policy != Policy::Replay {
            out.extend_from_slice(b"\x1b[0m");
        }
        *self = Self::new(self.policy);
    }
}

fn control(policy: Policy, byte: u8, out: &mut Vec<u8>) {
    match (policy, byte) {
        (_, b'\n' | b'\r' | b'\t') => out.push(byte),
        (Policy::Drop, 0x08) => out.push(byte),
        (Policy::Drop, _) | (Policy::Replay, 0x05 | 0x07) => {}
        (Policy::Replay, _) => out.push(byte),
        (Policy::Show, _) => out.extend(caret(byte)),
    }
}

/// Valid UTF-8 without C1 controls passes; everything else is shown as `\x9b`.
fn safe_text(text: &[u8], partial: &mut Vec<u8>, out: &mut Vec<u8>) {
    let joined;
    let mut rest = if partial.is_empty() {
        text
    } else {
        joined = [partial.as_slice(), text].concat();
        partial.clear();
        joined.as_slice()
    };
    while !rest.is_empty() {
        let (valid, bad, after) = match std::str::from_utf8(rest) {
            Ok(valid) => (valid, &[][..], &[][..]),
            Err(error) => {
                let (valid, tail) = rest.split_at(error.valid_up_to());
                let valid = std::str::from_utf8(valid).unwrap_or_default();
                match error.error_len() {
                    Some(length) => {
                        let (bad, after) = tail.split_at(length);
                        (valid, bad, after)
                    }
                    None => {
                        partial.extend_from_slice(tail);
                        (valid, &[][..], &[][..])
                    }
                }
            }
        };
        for c in valid.chars() {
            let mut buffer = [0; 4];
            let encoded = c.encode_utf8(&mut buffer).as_bytes();
            if c.is_control() { escape_bytes(encoded, out) } else { out.extend_from_slice(encoded) }
        }
        escape_bytes(bad, out);
        rest = after;
    }
}

fn escape_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend(format!("\\x{byte:02x}").bytes());
    }
}

fn letters(sequence: &[u8], out: &mut Vec<u8>) {
    for &byte in sequence {
        match byte {
            0..0x20 | 0x7f => out.extend(caret(byte)),
            0x80.. => escape_bytes(&[byte], out),
            _ => out.push(byte),
        }
    }
}

/// `CSI … m` with plain parameters.
fn is_colour(sequence: &[u8]) -> bool {
    matches!(sequence, [0x1b, b'[', parameters @ .., b'm']
        if parameters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')))
}

/// Whether a sequence makes the terminal answer, or acts on something outside its screen.
fn has_effect_outside(sequence: &[u8]) -> bool {
    match sequence {
        // Device attributes, status and cursor reports, window reports, mode requests, terminal parameters, keyboard flags.
        [0x1b, b'[', .., b'c' | b'n' | b't' | b'x'] => true,
        [0x1b, b'[', .., b'$', b'p'] => true,
        [0x1b, b'[', b'>', .., b'q'] => true,
        [0x1b, b'[', b'?', .., b'u'] => true,
        // DECID.
        [0x1b, b'Z'] => true,
        // What a program says it is doing; only the question is answered.
        [0x1b, b']', b'7', b'5', b'0', b'1', b';', rest @ ..] => rest.starts_with(b"?"),
        // Operating system commands: everything but the window's title; a question mark asks for a value.
        [0x1b, b']', rest @ ..] => !matches!(rest, [b'0' | b'1' | b'2', b';', ..]),
        // Device control strings that ask: XTGETTCAP, DECRQSS.
        [0x1b, b'P', b'+' | b'$', b'q', ..] => true,
        // Application commands: graphics, tmux wrapping.
        [0x1b, b'_', ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: Policy, bytes: &[u8]) -> String {
        let mut whole = None;
        for size in 1..=bytes.len() {
            let mut filter = Filter::new(policy);
            let mut out = Vec::new();
            for chunk in bytes.chunks(size) {
                filter.feed(chunk, &mut out);
            }
            filter.finish(&mut out);
            let text = String::from_utf8_lossy(&out).into_owned();
            assert_eq!(whole.get_or_insert_with(|| text.clone()), &text, "chunks of {size}");
        }
        whole.unwrap_or_default()
    }

    #[test]
    fn a_pipes_output_keeps_its_colours_and_nothing_else_acts() {
        let bytes = "é\x1b[31mred\x1b[0m\x1b[2J\x1b]52;c;aGk=\x07\x1b[6n\u{9b}6n\x08\r\n".as_bytes();
        assert_eq!(run(Policy::Show, bytes), "é\x1b[31mred\x1b[0m^[[2J^[]52;c;aGk=^G^[[6n\\xc2\\x9b6n^H\r\n\x1b[0m");
        assert_eq!(run(Policy::Show, b"\x9b6n\xff\xc3"), "\\x9b6n\\xff\\xc3");
        assert_eq!(run(Policy::Show, b"cut \x1b[2"), "cut ^[[2");
    }

    #[test]
    fn a_terminals_log_is_its_text() {
        let bytes = b"\x1b[?1049h\x1b[H\x1b[32mok\x1b[0m\x1b]0;t\x1b\\ done\x07\n";
        assert_eq!(run(Policy::Drop, bytes), "\x1b[32mok\x1b[0m done\n\x1b[0m");
    }

    #[test]
    fn a_replay_draws_and_does_not_make_the_terminal_answer() {
        let bytes =
            b"\x1b[?1049h\x1b[5;5Hx\x1b[6n\x1b[c\x1b[>c\x1b]11;?\x07\x1bP+q544e\x1b\\\x1b[?2026$p\x07\x1b]2;t\x07";
        assert_eq!(run(Policy::Replay, bytes), "\x1b[?1049h\x1b[5;5Hx\x1b]2;t\x07");
        let status = b"\x1b]7501;?\x07\x1b]7501;state=working\x1b\\";
        assert_eq!(run(Policy::Replay, status), "\x1b]7501;state=working\x1b\\");
    }
}
