//! Characters that no request may carry: what is approved is read on a terminal, so nothing in it may move the cursor,
//! change the reading direction, break the line or take no room.

use ostler_door_rpc::is_hidden;

/// Whether a text holds a character that must not reach an approval.
pub fn is_treacherous(text: &str) -> bool {
    text.chars().any(treacherous)
}

/// A tab is the one control character that clients have always been allowed to send.
fn treacherous(c: char) -> bool {
    c != '\t' && (c.is_control() || is_hidden(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bidi_and_zero_width_characters_are_treacherous() {
        let bad = "\0\u{1}\u{7}\u{8}\n\r\u{b}\u{1b}\u{1f}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\
                   \u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        assert!(bad.chars().all(treacherous));
    }

    #[test]
    fn eight_bit_controls_delete_separators_and_invisible_characters_are_treacherous() {
        let bad = "\u{7f}\u{80}\u{9b}\u{9f}\u{2028}\u{2029}\u{61c}\u{feff}\u{2060}\u{ad}\u{3164}\u{e0041}\u{e0100}";
        assert!(bad.chars().all(treacherous));
    }

    #[test]
    fn tabs_and_written_text_pass() {
        assert!(!is_treacherous("a\tb 'q' \"é\" 日本 🦀 ❤\u{fe0f} ~|$`"));
    }
}
