//! How keys are compared: without regard to case, by Unicode's simple folding as far as it can reach
//! an ASCII letter.

use std::borrow::Cow;

use super::{Raw, text};

/// The key of a member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    /// As written, between the quotes.
    body: &'a [u8],
    escaped: bool,
}

impl<'a> Key<'a> {
    pub(super) fn new(raw: Raw<'a>) -> Self {
        Key { body: raw.body().unwrap_or_default(), escaped: raw.is_escaped() }
    }

    /// As written: where this is a name, the key is that name; where it is none, the key may still match one.
    pub(super) fn body(self) -> &'a [u8] {
        self.body
    }

    pub(super) fn decode(self) -> Cow<'a, str> {
        text::decode(self.body, self.escaped)
    }

    /// Whether this names the field `name` (an ASCII name).
    pub(super) fn matches(self, name: &str) -> bool {
        if self.body.eq_ignore_ascii_case(name.as_bytes()) {
            return true;
        }
        // Without escapes and letters above ASCII, bytes are all there is to compare.
        let simple = !self.escaped && self.body.is_ascii();
        !simple && self.decode().chars().map(fold).eq(name.chars().map(|letter| letter.to_ascii_uppercase()))
    }
}

/// The two letters outside ASCII whose simple folding lies inside it: KELVIN SIGN and LONG S.
fn fold(letter: char) -> char {
    match letter {
        '\u{212A}' => 'K',
        '\u{017F}' => 'S',
        other => other.to_ascii_uppercase(),
    }
}
