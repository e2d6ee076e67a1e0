//! From bytes of a terminal to keys. Sequences are swallowed whole, however they arrive: their letters must never decide
//! anything.

/// A key that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verbs) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-U.
    Erase,
    Other,
}

/// Longer sequences are no keys.
const SEQUENCE_MAX: usize = 64;

/// Bytes that are no whole key yet.
#[derive(Debug, Default)]
pub(super) struct Keys {
    partial: Vec<u8>,
}

impl Keys {
    /// The keys that are whole now.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let (mut found, mut left) = (Vec::new(), all.as_slice());
        while !left.is_empty() {
            let Some((key, length)) = first(left) else {
                self.partial = left.to_vec();
                break;
            };
            found.push(key);
            left = left.get(length.max(1)..).unwrap_or_default();
        }
        found
    }

    /// Nothing more came: an escape alone was the key of that name.
    pub(super) fn quiet(&mut self) -> Option<Key> {
        (self.partial == [0x1b]).then(|| {
            self.partial.clear();
            Key::Escape
        })
    }
}

/// The first key and how many bytes it took; nothing when the rest of it is missing.
fn first(bytes: &[u8]) -> Option<(Key, usize)> {
    let key = match bytes.first()? {
        b'\r' | b'\n' => Key::Enter,
        0x7f | 0x08 => Key::Backspace,
        b'\t' => Key::Tab,
        0x03 => Key::Interrupt,
        0x15 => Key::Erase,
        0x1b => return sequence(bytes),
        byte @ 0x20..=0x7e => Key::Char(char::from(*byte)),
        0xc2..=0xf4 => return letter(bytes),
        _ => Key::Other,
    };
    Some((key, 1))
}

fn sequence(bytes: &[u8]) -> Option<(Key, usize)> {
    match bytes.get(1)? {
        b'[' => {
            // Parameters, then one final byte.
            let body = bytes.get(2..).unwrap_or_default();
            match body.iter().position(|byte| matches!(byte, 0x40..=0x7e)) {
                Some(end) => Some((named(body.get(..=end).unwrap_or_default()), end + 3)),
                None if body.len() > SEQUENCE_MAX => Some((Key::Other, bytes.len())),
                None => None,
            }
        }
        b'O' => Some((named(&[*bytes.get(2)?]), 3)),
        0x1b => Some((Key::Escape, 1)),
        // A letter with Alt.
        _ => Some((Key::Other, 2)),
    }
}

fn named(code: &[u8]) -> Key {
    match code {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" => Key::Left,
        b"Z" => Key::BackTab,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        b"H" | b"1~" | b"7~" => Key::Home,
        _ => Key::Other,
    }
}

/// A letter beyond ASCII.
fn letter(bytes: &[u8]) -> Option<(Key, usize)> {
    let length = match bytes.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let text = std::str::from_utf8(bytes.get(..length)?).ok();
    match text.and_then(|text| text.chars().next()) {
        Some(c) if !c.is_control() => Some((Key::Char(c), length)),
        Some(_) => Some((Key::Other, length)),
        None => Some((Key::Other, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Keys::default().feed(bytes)
    }

    #[test]
    fn keys_come_out_of_what_terminals_send() {
        assert_eq!(keys(b"y\x1b[A\x1bOB\x1b[6~\r"), [Key::Char('y'), Key::Up, Key::Down, Key::PageDown, Key::Enter]);
        assert_eq!(keys("né\u{7f}".as_bytes()), [Key::Char('n'), Key::Char('é'), Key::Backspace]);
    }

    #[test]
    fn an_escape_is_a_key_once_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!((keys.feed(b"\x1b"), keys.quiet(), keys.quiet()), (vec![], Some(Key::Escape), None));
    }

    #[test]
    fn letters_inside_a_sequence_are_no_keys_however_it_is_cut() {
        for bytes in [&b"\x1b[1;5y"[..], b"\x1by", b"\x1b[?1;2n", b"\x1bOa", b"\x1b[<0;1;1m", b"\x1b[12;34s"] {
            for cut in 0..bytes.len() {
                let mut keys = Keys::default();
                let (head, tail) = bytes.split_at(cut);
                let mut found = keys.feed(head);
                found.extend(keys.feed(tail));
                assert_eq!(found, [Key::Other], "{bytes:?} cut at {cut}");
            }
        }
    }
}
