//! Control sequences in what hosted programs wrote: split off, shown, dropped or followed.
//!
//! Output of a stranger must not move the cursor, retitle the window, fill the clipboard or make the terminal
//! type answers into the shell. Colours are harmless and stay.

mod filter;
mod modes;
mod token;

pub(crate) use filter::{Filter, Policy};
pub(crate) use modes::Modes;

/// A control character as people write it: `^[`, `^G`, `^?`.
fn caret(byte: u8) -> [u8; 2] {
    [b'^', byte ^ 0x40]
}

/// A whole text in which every control character is visible, for table cells and messages.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push('⏎'),
            c if c.is_ascii_control() => {
                shown.push('^');
                shown.push(char::from((c as u8) ^ 0x40));
            }
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #[test]
    fn cells_show_every_control_character() {
        assert_eq!(super::visible("a\x1b[2J\u{9b}2J\n\x07é"), "a^[[2J\\u{9b}2J⏎^Gé");
    }
}
