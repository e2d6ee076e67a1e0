//! How keys are compared: without regard to case, by Unicode's simple folding as far as it can reach
//! an ASCII letter.

use super::{Raw, text};

/// Whether `key` names the field `name` (an ASCII name).
pub(super) fn key_matches(key: Raw<'_>, name: &str) -> bool {
    let Some(body) = key.body() else {
        return false;
    };
    if body.eq_ignore_ascii_case(name.as_bytes()) {
        return true;
    }
    if body.is_ascii() && !key.is_escaped() {
        return false;
    }
    let decoded = text::decode(body, key.is_escaped());
    decoded
        .chars()
        .map(fold)
        .eq(name.chars().map(|letter| letter.to_ascii_uppercase()))
}

/// The two letters outside ASCII whose simple folding lies inside it: KELVIN SIGN and LONG S.
fn fold(letter: char) -> char {
    match letter {
        '\u{212A}' => 'K',
        '\u{017F}' => 'S',
        other => other.to_ascii_uppercase(),
    }
}
