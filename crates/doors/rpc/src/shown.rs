//! What a text of a stranger may not do where it is read: hide in what is shown, or turn it round.

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

#[cfg(test)]
mod tests {
    use super::is_hidden;

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
