//! Splits a byte stream into text, control characters and whole escape sequences, across any chunk border.

/// A sequence longer than this is not kept: window titles are short, and a picture is not for replay.
const SEQUENCE_MAX: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Bytes without control characters; UTF-8 only if the program wrote it.
    Text(&'a [u8]),
    /// One control character.
    Control(u8),
    /// A whole sequence, from ESC to its end.
    Sequence(&'a [u8]),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After `ESC [`.
    Csi,
    /// After `ESC ]`, `ESC P`, `ESC X`, `ESC ^`, `ESC _`: runs to BEL or `ESC \`.
    Text,
    /// ESC inside such a text.
    TextEscape,
}

/// The tokenizer; what is incomplete at the end of a chunk waits for the next.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    state: State,
    sequence: Vec<u8>,
    too_long: bool,
}

impl Tokens {
    pub(crate) fn feed(&mut self, bytes: &[u8], mut sink: impl FnMut(Token<'_>)) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Ground {
                let plain = rest.iter().position(|byte| is_control(*byte)).unwrap_or(rest.len());
                let (text, others) = rest.split_at(plain);
                if !text.is_empty() {
                    sink(Token::Text(text));
                    rest = others;
                    continue;
                }
            }
            rest = after;
            self.step(byte, &mut sink);
        }
    }

    /// What has begun and not ended.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.sequence
    }

    fn step(&mut self, byte: u8, sink: &mut impl FnMut(Token<'_>)) {
        match self.state {
            State::Ground if byte == 0x1b => self.begin(),
            State::Ground => sink(Token::Control(byte)),
            // CAN and SUB abort a sequence, ESC starts another.
            State::Escape | State::Csi if matches!(byte, 0x18 | 0x1a) => self.abort(),
            State::Escape | State::Csi if byte == 0x1b => self.begin(),
            // Terminals obey control characters in the middle of a sequence.
            State::Escape | State::Csi if byte < 0x20 => sink(Token::Control(byte)),
            State::Escape => match byte {
                b'[' => self.go_on(byte, State::Csi),
                b']' | b'P' | b'X' | b'^' | b'_' => self.go_on(byte, State::Text),
                0x20..=0x2f => self.go_on(byte, State::Escape),
                _ => self.end(byte, sink),
            },
            State::Csi if (0x40..=0x7e).contains(&byte) => self.end(byte, sink),
            State::Csi => self.go_on(byte, State::Csi),
            State::Text if byte == 0x07 => self.end(byte, sink),
            State::Text if byte == 0x1b => self.go_on(byte, State::TextEscape),
            State::Text if matches!(byte, 0x18 | 0x1a) => self.abort(),
            State::Text => self.go_on(byte, State::Text),
            State::TextEscape if byte == b'\\' => self.end(byte, sink),
            // Any other sequence ends the text without its terminator.
            State::TextEscape => {
                self.begin();
                self.step(byte, sink);
            }
        }
    }

    fn begin(&mut self) {
        self.sequence.clear();
        self.sequence.push(0x1b);
        self.too_long = false;
        self.state = State::Escape;
    }

    fn abort(&mut self) {
        self.sequence.clear();
        self.state = State::Ground;
    }

    fn go_on(&mut self, byte: u8, state: State) {
        if self.sequence.len() < SEQUENCE_MAX {
            self.sequence.push(byte);
        } else {
            self.too_long = true;
        }
        self.state = state;
    }

    fn end(&mut self, byte: u8, sink: &mut impl FnMut(Token<'_>)) {
        if !self.too_long {
            self.sequence.push(byte);
            sink(Token::Sequence(&self.sequence));
        }
        self.abort();
    }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8], size: usize) -> Vec<String> {
        let mut tokens = Tokens::default();
        let mut found: Vec<String> = Vec::new();
        for chunk in bytes.chunks(size) {
            tokens.feed(chunk, |token| {
                let (kind, bytes) = match token {
                    Token::Text(text) => ("", text.to_vec()),
                    Token::Control(byte) => ("C", vec![byte]),
                    Token::Sequence(bytes) => ("S", bytes.to_vec()),
                };
                let text = format!("{kind}{}", bytes.escape_ascii());
                match found.last_mut() {
                    Some(last) if kind.is_empty() && !last.starts_with(['C', 'S']) => last.push_str(&text),
                    _ => found.push(text),
                }
            });
        }
        found
    }

    #[test]
    fn sequences_are_found_wherever_a_chunk_ends() {
        let bytes = b"a\x1b[1;31mred\x1b]0;title\x07\n\x1b(B\x1bPq#0\x1b\\z\x1b[?1049h";
        let whole = [
            r"a",
            r"S\x1b[1;31m",
            "red",
            r"S\x1b]0;title\x07",
            r"C\n",
            r"S\x1b(B",
            r"S\x1bPq#0\x1b\\",
            "z",
            r"S\x1b[?1049h",
        ];
        for size in 1..=bytes.len() {
            assert_eq!(split(bytes, size), whole, "chunks of {size}");
        }
    }

    #[test]
    fn an_endless_title_costs_bounded_memory_and_ends_all_the_same() {
        let mut bytes = b"\x1b]0;".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 4 * SEQUENCE_MAX));
        bytes.extend(b"\x07after");
        let mut tokens = Tokens::default();
        let mut text = Vec::new();
        tokens.feed(&bytes, |token| match token {
            Token::Text(part) => text.extend_from_slice(part),
            other => panic!("{other:?}"),
        });
        assert_eq!(text, b"after");
        assert!(tokens.sequence.capacity() <= 2 * SEQUENCE_MAX);
    }
}
