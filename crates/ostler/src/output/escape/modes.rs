//! Which modes a program has switched on in its terminal, so that leaving switches them off and coming back switches
//! them on again.

use std::collections::BTreeSet;

use super::token::{Token, Tokens};

/// Modes that outlive the drawing they were set for: application keys, mouse, focus, alternate screens, paste, keys.
const LASTING: &[u16] = &[1, 9, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1047, 1049, 2004, 2031];
/// The alternate screen, in its three spellings.
const ALTERNATE: &[u16] = &[47, 1047, 1049];
/// On unless a program switched it off: the cursor.
const CURSOR: u16 = 25;

#[derive(Debug, Default)]
pub(crate) struct Modes {
    tokens: Tokens,
    on: BTreeSet<u16>,
    cursor_hidden: bool,
    keypad: bool,
    /// Levels of the keyboard protocol pushed.
    keyboard: usize,
    modify_keys: bool,
    /// It has said what it is doing, and our terminal may show that.
    reported: bool,
}

impl Modes {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.feed(bytes, |token| {
            if let Token::Sequence(sequence) = token {
                self.apply(sequence);
            }
        });
        self.tokens = tokens;
    }

    fn apply(&mut self, sequence: &[u8]) {
        match sequence {
            [0x1b, b'[', b'?', list @ .., end @ (b'h' | b'l')] => {
                let numbers = list.split(|byte| *byte == b';');
                for mode in numbers.filter_map(|text| std::str::from_utf8(text).ok()?.parse::<u16>().ok()) {
                    self.set(mode, *end == b'h');
                }
            }
            [0x1b, b'='] => self.keypad = true,
            [0x1b, b'>'] => self.keypad = false,
            [0x1b, b'[', b'>', .., b'u'] => self.keyboard += 1,
            [0x1b, b'[', b'<', .., b'u'] => self.keyboard = self.keyboard.saturating_sub(1),
            [0x1b, b'[', b'>', b'4', b';', level, b'm'] => self.modify_keys = *level != b'0',
            [0x1b, b'[', b'>', b'4', b'm'] => self.modify_keys = false,
            [0x1b, b']', b'7', b'5', b'0', b'1', b';', report @ ..] => self.reported |= !report.starts_with(b"?"),
            // Full and soft reset.
            [0x1b, b'c'] | [0x1b, b'[', b'!', b'p'] => {
                *self = Self::default();
            }
            _ => {}
        }
    }

    fn set(&mut self, mode: u16, on: bool) {
        if mode == CURSOR {
            self.cursor_hidden = !on;
        } else if LASTING.contains(&mode) {
            if on {
                self.on.insert(mode);
            } else {
                self.on.remove(&mode);
            }
        }
    }

    /// What switches on again what is on.
    pub(crate) fn restore(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for mode in &self.on {
            out.extend(format!("\x1b[?{mode}h").bytes());
        }
        if self.cursor_hidden {
            out.extend(b"\x1b[?25l");
        }
        if self.keypad {
            out.extend(b"\x1b=");
        }
        out
    }

    /// What switches everything off again, for the shell that comes after.
    pub(crate) fn leave(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // The alternate screen last: the shell's own screen must not come back with modes still on.
        let (screens, others): (Vec<u16>, Vec<u16>) = self.on.iter().partition(|mode| ALTERNATE.contains(mode));
        for mode in others.iter().chain(&screens) {
            out.extend(format!("\x1b[?{mode}l").bytes());
        }
        if self.keyboard > 0 {
            out.extend(format!("\x1b[<{}u", self.keyboard).bytes());
        }
        if self.modify_keys {
            out.extend(b"\x1b[>4m");
        }
        if self.keypad {
            out.extend(b"\x1b>");
        }
        if self.cursor_hidden {
            out.extend(b"\x1b[?25h");
        }
        if self.reported {
            out.extend(b"\x1b]7501;state=clear\x1b\\");
        }
        out.extend(b"\x1b[0m");
        out
    }

    /// Whether the program draws on the alternate screen, as full-screen programs do.
    pub(crate) fn full_screen(&self) -> bool {
        ALTERNATE.iter().any(|mode| self.on.contains(mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_left_on_is_switched_off_and_nothing_else() {
        let mut modes = Modes::default();
        modes.feed(b"\x1b[?1049h\x1b[?1000;1006h\x1b[?20");
        modes.feed(b"04h\x1b[?25l\x1b[?1000l");
        assert!(modes.full_screen());
        assert_eq!(modes.leave(), b"\x1b[?1006l\x1b[?2004l\x1b[?1049l\x1b[?25h\x1b[0m");
        assert_eq!(modes.restore(), b"\x1b[?1006h\x1b[?1049h\x1b[?2004h\x1b[?25l");
    }

    #[test]
    fn a_program_that_cleaned_up_leaves_only_its_colour() {
        let mut modes = Modes::default();
        modes.feed(b"\x1b[?1049h\x1b[?25l\x1b[>1u\x1b[<u\x1b[?25h\x1b[?1049l");
        assert_eq!(modes.leave(), b"\x1b[0m");
        modes.feed(b"\x1b[?1049h\x1bc");
        assert!(!modes.full_screen());
        modes.feed(b"\x1b]7501;?\x07");
        assert_eq!(modes.leave(), b"\x1b[0m");
        modes.feed(b"\x1b]7501;state=working\x07");
        assert_eq!(modes.leave(), b"\x1b]7501;state=clear\x1b\\\x1b[0m", "whoever comes next is not at that work");
    }
}
