//! A line while it is typed. The terminal would edit it as well, but would not say what stands there, and what is said
//! meanwhile would be written into it. Pure: keys in, what they mean out.

use unicode_width::UnicodeWidthChar;

use crate::output::visible;

/// More than anybody types, and what people paste; what is longer belongs into a file.
const LINE_MAX: usize = 256 * 1024;

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 0x7f];
const CTRL_U: u8 = 0x15;
const CTRL_W: u8 = 0x17;
const ESCAPE: u8 = 0x1b;
/// What a terminal puts around what is pasted, where it was asked to.
const PASTE_BEGINS: u32 = 200;
const PASTE_ENDS: u32 = 201;

/// What a key meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Nothing, or the line is another now.
    Edited,
    /// It does not fit any more.
    Full,
    Line(String),
    Interrupt,
    Leave,
}

/// Where in a key that is several bytes we are.
#[derive(Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    Escape,
    /// With its only number so far.
    Sequence(u32),
}

/// The line that is being typed.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// The beginning of a letter.
    letter: Vec<u8>,
    within: Within,
    /// New lines of what is pasted are a part of it: only a key that is pressed ends the line.
    pasting: bool,
}

impl Editor {
    /// One byte of a key; `leave` is the key that leaves.
    pub(super) fn press(&mut self, byte: u8, leave: u8) -> Key {
        match std::mem::take(&mut self.within) {
            Within::Nothing => {}
            // Arrows and their like: nothing here moves.
            Within::Escape => {
                self.within = if matches!(byte, b'[' | b'O') { Within::Sequence(0) } else { Within::Nothing };
                return Key::Edited;
            }
            Within::Sequence(number) => {
                self.sequence(number, byte);
                return Key::Edited;
            }
        }
        // Whatever became of the end of a paste, one can leave.
        self.pasting &= byte != leave && byte != CTRL_C;
        match byte {
            b'\r' | b'\n' if self.pasting => return self.insert('\n'),
            b'\t' if self.pasting => return self.insert('\t'),
            0..0x20 | 0x7f if self.pasting && byte != ESCAPE => {}
            _ if byte == leave => return Key::Leave,
            CTRL_D if self.text.is_empty() => return Key::Leave,
            CTRL_C => {
                self.text.clear();
                return Key::Interrupt;
            }
            b'\r' | b'\n' => return Key::Line(std::mem::take(&mut self.text)),
            ESCAPE => self.within = Within::Escape,
            CTRL_U => self.text.clear(),
            CTRL_W => self.drop_word(),
            b'\t' => return self.insert(' '),
            _ if BACKSPACE.contains(&byte) => drop(self.text.pop()),
            0..0x20 => {}
            0x20..0x80 => return self.insert(char::from(byte)),
            _ => return self.insert_part(byte),
        }
        Key::Edited
    }

    /// One more byte of a key that is a sequence.
    fn sequence(&mut self, number: u32, byte: u8) {
        match (byte, number) {
            (b'0'..=b'9', _) => {
                self.within = Within::Sequence(number.saturating_mul(10).saturating_add(u32::from(byte - b'0')));
            }
            (b'~', PASTE_BEGINS) => self.pasting = true,
            (b'~', PASTE_ENDS) => self.pasting = false,
            (0x40..=0x7e, _) => {}
            _ => self.within = Within::Sequence(u32::MAX),
        }
    }

    fn insert(&mut self, letter: char) -> Key {
        self.letter.clear();
        if self.text.len() + letter.len_utf8() > LINE_MAX {
            return Key::Full;
        }
        self.text.push(letter);
        Key::Edited
    }

    fn insert_part(&mut self, byte: u8) -> Key {
        self.letter.push(byte);
        let letter = std::str::from_utf8(&self.letter).ok().and_then(|text| text.chars().next());
        match letter {
            Some(letter) => self.insert(letter),
            None => {
                if self.letter.len() >= 4 {
                    self.letter.clear();
                }
                Key::Edited
            }
        }
    }

    fn drop_word(&mut self) {
        let kept = self.text.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
        while self.text.len() > kept && self.text.pop().is_some() {}
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The end of it that fits into one row of this width, with room for the cursor.
    pub(super) fn shown(&self, width: usize) -> String {
        let text = visible(&self.text.replace('\t', " "));
        let (mut room, mut from) = (width.saturating_sub(1), text.len());
        for (at, letter) in text.char_indices().rev() {
            let takes = letter.width().unwrap_or(0);
            if takes > room {
                break;
            }
            room -= takes;
            from = at;
        }
        text.get(from..).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAVE: u8 = 0x1d;

    fn typed(editor: &mut Editor, keys: &[u8]) -> Vec<Key> {
        keys.iter().map(|byte| editor.press(*byte, LEAVE)).filter(|key| *key != Key::Edited).collect()
    }

    #[test]
    fn keys_make_a_line_and_correct_it() {
        let mut editor = Editor::default();
        let line = |text: &str| vec![Key::Line(text.to_owned())];
        assert_eq!(typed(&mut editor, "grüße\r".as_bytes()), line("grüße"));
        assert_eq!(typed(&mut editor, b"ab\x7fc\x08d\n"), line("ad"));
        assert_eq!(typed(&mut editor, b"one two  \x17three\r"), line("one three"));
        assert_eq!(typed(&mut editor, b"gone\x15left\r"), line("left"));
        assert_eq!(typed(&mut editor, b"a\x1b[A\x1b[1;5D\x1bOPb\x01\r"), line("ab"), "nothing else edits");
        assert_eq!(typed(&mut editor, b"\xff\xffx\r"), line("x"), "what is no letter is none");
    }

    #[test]
    fn what_is_pasted_is_one_line_until_a_key_ends_it() {
        let mut editor = Editor::default();
        let line = |text: &str| vec![Key::Line(text.to_owned())];
        assert_eq!(typed(&mut editor, b"see: \x1b[200~one\r\ttwo\nthree\x04\x7f\x1b[201~"), []);
        assert_eq!(editor.shown(80), "see: one⏎ two⏎three");
        assert_eq!(typed(&mut editor, b" end\r"), line("see: one\n\ttwo\nthree end"));
        assert_eq!(typed(&mut editor, b"a\rb\r"), [Key::Line("a".into()), Key::Line("b".into())], "typed, each is one");
        assert_eq!(typed(&mut editor, b"\x1b[200~for ever\r\x03"), [Key::Interrupt], "without its end one leaves, too");
        assert_eq!(typed(&mut editor, b"next\r"), line("next"));
        assert_eq!(typed(&mut editor, b"\x1b[1;200~x\r"), line("x"), "another key");
    }

    #[test]
    fn keys_that_interrupt_and_leave_do_so() {
        let mut editor = Editor::default();
        assert_eq!(typed(&mut editor, b"half\x03"), [Key::Interrupt]);
        assert!(editor.is_empty());
        assert_eq!(typed(&mut editor, b"half\x04"), [], "only on an empty line");
        assert_eq!(typed(&mut editor, b"\x15\x04"), [Key::Leave]);
        assert_eq!(typed(&mut editor, b"half\x1d"), [Key::Leave]);
    }

    #[test]
    fn one_row_shows_the_end_and_nothing_that_draws() {
        let mut editor = Editor::default();
        typed(&mut editor, "0123456789漢字".as_bytes());
        assert_eq!(editor.shown(8), "789漢字");
        assert_eq!(editor.shown(80), "0123456789漢字");
        assert_eq!(editor.shown(0), "");
        let full = (0..LINE_MAX).find_map(|_| (editor.press(b'x', LEAVE) == Key::Full).then_some(()));
        assert!(full.is_some(), "it has an end");
    }
}
