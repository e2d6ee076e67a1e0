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
    /// Neither escapes nor anything above ASCII: comparing bytes is enough.
    simple: bool,
}

impl<'a> Key<'a> {
    pub(super) fn new(raw: Raw<'a>) -> Self {
        let body = raw.body().unwrap_or_default();
        let escaped = raw.is_escaped();
        Key { body, escaped, simple: !escaped && body.is_ascii() }
    }

    pub(super) fn decode(self) -> Cow<'a, str> {
        text::decode(self.body, self.escaped)
    }

    /// Whether this names the field `name` (an ASCII name).
    pub(super) fn matches(self, name: &str) -> bool {
        if self.simple {
            return self.body.eq_ignore_ascii_case(name.as_bytes());
        }
        self.decode().chars().map(fold).eq(name.chars().map(|letter| letter.to_ascii_uppercase()))
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
