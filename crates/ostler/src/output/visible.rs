//! Text of a stranger, made safe for a terminal: nothing in it moves the cursor, turns the reading direction, breaks the
//! line or hides. What would is written out, so that one sees that it was there. Whatever prints what a client or a
//! command said must pass it through here.

use ostler_door_rpc::{is_hidden, is_plain};

/// A whole text in which every character is seen, for messages, prompts and table cells.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push('⏎'),
            c if c.is_ascii_control() => {
                shown.push('^');
                shown.push(char::from((c as u8) ^ 0x40));
            }
            c if c.is_control() || is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// As [`visible`], where somebody decides by what they read: whatever is not a visible letter, a digit or a sign of ASCII is
/// written out, and nothing else looks like what was written out.
pub(crate) fn spelled(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '\\' if text.get(at + 1..).is_some_and(|rest| rest.starts_with("u{")) => shown.extend(c.escape_unicode()),
            c if is_plain(c) => shown.push(c),
            c => shown.extend(c.escape_unicode()),
        }
    }
    shown
}

/// As [`visible`], for text of several lines: line ends stay, tabs become blanks.
pub(crate) fn visible_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            shown.push('\n');
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        for (index, part) in line.split('\t').enumerate() {
            if index > 0 {
                shown.push_str("    ");
            }
            shown.push_str(&visible(part));
        }
    }
    shown
}

/// JSON that is safe to show: what [`visible`] would write out is escaped, so that the value stays the same.
pub(crate) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c == '\n' || (!c.is_control() && !is_hidden(c)) {
            shown.push(c);
        } else {
            shown.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    shown
}

/// As [`visible`], for bytes that may be anything.
pub(crate) fn visible_bytes(bytes: &[u8]) -> String {
    visible(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_is_seen() {
        assert_eq!(visible("a\x1b[2J\u{9b}2J\n\x07\x7f\té"), "a^[[2J\\u{9b}2J⏎^G^?^Ié");
    }

    #[test]
    fn direction_marks_separators_and_characters_of_no_width_are_seen() {
        let hidden = "\u{202e}\u{2066}\u{200b}\u{200d}\u{2028}\u{2029}\u{61c}\u{feff}\u{2060}\u{ad}\u{e0041}";
        let shown = visible(hidden);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(shown.matches("\\u{").count(), hidden.chars().count());
    }

    #[test]
    fn lines_stay_lines_and_nothing_else_acts() {
        assert_eq!(visible_lines("a\tb\r\nc\x1b[2J\n\rd\n"), "a    b\nc^[[2J\n^Md\n");
    }

    #[test]
    fn json_says_the_same_and_shows_everything() {
        let value = serde_json::json!({"a": "\u{9b}2J\u{202e}\u{e0041}é"});
        let shown = visible_json(&value.to_string());
        assert_eq!(visible(&shown), shown);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn written_text_stays_as_it_is() {
        for text in ["plain", "日本 🦀 ❤\u{fe0f}", "naïve", "a|b 'c'"] {
            assert_eq!(visible(text), text);
        }
    }

    #[test]
    fn where_somebody_decides_everything_unusual_is_written_out() {
        assert_eq!(spelled("plain naïve 日本 ~|$`"), "plain naïve 日本 ~|$`");
        assert_eq!(
            spelled("a\u{a0}b\u{3000}\u{fe0f}\n\u{2800}🦀"),
            "a\\u{a0}b\\u{3000}\\u{fe0f}\\u{a}\\u{2800}\\u{1f980}"
        );
        assert_ne!(spelled("\\u{a0}"), spelled("\u{a0}"));
        assert_eq!(spelled("C:\\users"), "C:\\users");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_too() {
        assert_eq!(visible_bytes(b"a\xff\x1b]0;x\x07"), "a\u{fffd}^[]0;x^G");
    }

    /// Whoever approves reads what will run: whatever a request may carry is shown by plain characters alone.
    #[test]
    fn what_a_request_may_carry_is_shown_plainly() {
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let text = c.to_string();
            if !ostler_door_sudo_proxy::is_treacherous(&text) {
                let word = ostler_door_sudo_proxy::words::quoted(&text);
                assert!(word.chars().all(is_plain), "U+{:04X}: {word}", u32::from(c));
                assert!(spelled(&text).chars().all(is_plain), "U+{:04X}", u32::from(c));
            }
        }
    }
}
