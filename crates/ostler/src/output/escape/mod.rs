//! Control sequences in what hosted programs wrote: split off, shown, dropped or followed.
//!
//! Output of a stranger must not move the cursor, retitle the window, fill the clipboard or make the terminal
//! type answers into the shell. Colours are harmless and stay.

mod filter;
mod modes;
mod question;
mod token;

pub(crate) use filter::{Filter, Policy};
pub(crate) use modes::Modes;
pub(crate) use question::Unasked;
pub(crate) use token::{Token, Tokens};

/// A control character as people write it: `^[`, `^G`, `^?`.
fn caret(byte: u8) -> [u8; 2] {
    [b'^', byte ^ 0x40]
}
