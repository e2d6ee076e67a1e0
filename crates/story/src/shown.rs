//! What a text of a stranger may not do where it is read: hide in what is shown, or turn it round.

use unicode_width::UnicodeWidthChar;

/// Whether this character is drawn as nothing, breaks a line or turns the reading direction: separators, direction marks,
/// and all that Unicode calls ignorable, but for the two that choose between a picture and a sign (U+FE0E, U+FE0F), which
/// people write. Control characters are the reader's own to treat.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether this character is read from right to left, or takes its neighbours along: in a line of several words it would change
/// their order.
fn turns(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// Whether this character is one that a person sees and knows: a blank, a sign of ASCII, a visible letter or digit that is read
/// from left to right.
/// Everything else can hide, pose as a blank or as a frame, or change its neighbours, and is written out where somebody
/// decides by what they read.
pub fn is_plain(c: char) -> bool {
    match c {
        ' '..='~' => true,
        // A letter without a width of its own is drawn over the one before it.
        c => c.is_alphanumeric() && !is_hidden(c) && !turns(c) && c.width().is_some_and(|width| width > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_hidden, is_plain};

    #[test]
    fn letters_digits_and_signs_of_ascii_are_plain() {
        assert!("az AZ 09 ~|$`'\\\" naïve 日本 Ελλάδα кот ½".chars().all(is_plain));
    }

    #[test]
    fn what_is_no_visible_letter_digit_or_sign_is_not() {
        let other = "\t\n\u{1b}\u{7f}\u{9b}\u{a0}\u{ad}\u{301}\u{5b0}\u{115f}\u{2003}\u{2028}\u{202e}\u{2800}\u{3000}\u{3164}\u{e000}\u{fe0e}\u{fe0f}\u{ffa0}\u{fffd}\u{1f980}\u{e0041}\u{f0000}━→│⏎אا٣ߊ";
        for c in other.chars() {
            assert!(!is_plain(c), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn marks_separators_and_what_is_drawn_as_nothing_are_hidden() {
        let hidden = "\u{200b}\u{200d}\u{202e}\u{2066}\u{2028}\u{2029}\u{61c}\u{feff}\u{2060}\u{ad}\u{3164}\u{fe00}\u{1bca0}\u{e0041}\u{e0100}\u{e01ef}";
        assert!(hidden.chars().all(is_hidden));
    }

    #[test]
    fn what_people_write_is_not() {
        assert!(!"naïve 日本 🦀 ❤\u{fe0f} ☎\u{fe0e} ~|$`".chars().any(is_hidden));
    }
}
