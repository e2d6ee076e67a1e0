//! One JSON value as written on the wire, decoded on demand.

use std::borrow::Cow;

use super::scan::Scanner;
use super::{Malformed, Mistyped, Object, parse_object, text};

/// The text of one complete, already checked JSON value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    text: &'a [u8],
    /// For a string: it holds escapes, so it cannot be lent out as it stands.
    escaped: bool,
}

impl From<Malformed> for Mistyped {
    fn from(_: Malformed) -> Self {
        Mistyped
    }
}

impl<'a> Raw<'a> {
    pub(super) fn new(text: &'a [u8], escaped: bool) -> Self {
        Raw { text, escaped }
    }

    /// The value as written, without surrounding blanks.
    pub(crate) fn text(self) -> &'a [u8] {
        self.text
    }

    /// Whether this is the literal `null`.
    pub(crate) fn is_null(self) -> bool {
        self.text == b"null"
    }

    pub(super) fn is_escaped(self) -> bool {
        self.escaped
    }

    /// What stands between the quotes of a string.
    pub(super) fn body(self) -> Option<&'a [u8]> {
        self.text.strip_prefix(b"\"")?.strip_suffix(b"\"")
    }

    /// Whether this is a string.
    pub(crate) fn is_string(self) -> bool {
        self.text.first() == Some(&b'"')
    }

    /// A string, decoded.
    pub(crate) fn string(self) -> Result<Cow<'a, str>, Mistyped> {
        let body = self.body().ok_or(Mistyped)?;
        Ok(text::decode(body, self.escaped))
    }

    /// A string's bytes, not checked for UTF-8.
    pub(crate) fn string_bytes(self) -> Result<Cow<'a, [u8]>, Mistyped> {
        let body = self.body().ok_or(Mistyped)?;
        Ok(text::decode_bytes(body, self.escaped))
    }

    /// A boolean.
    pub(crate) fn bool(self) -> Result<bool, Mistyped> {
        match self.text {
            b"true" => Ok(true),
            b"false" => Ok(false),
            _ => Err(Mistyped),
        }
    }

    /// An integer written as one and within 64 bits.
    pub(crate) fn int(self) -> Result<i64, Mistyped> {
        std::str::from_utf8(self.text).ok().and_then(|digits| digits.parse().ok()).ok_or(Mistyped)
    }

    fn string_or_null(self) -> Result<String, Mistyped> {
        if self.is_null() { Ok(String::new()) } else { Ok(self.string()?.into_owned()) }
    }

    /// A list of strings, `null` standing for the empty one.
    pub(crate) fn strings(self) -> Result<Vec<String>, Mistyped> {
        let elements = Scanner::new(self.text).array()?;
        elements.into_iter().map(Raw::string_or_null).collect()
    }

    /// An object of strings in the order written, `null` standing for the empty one.
    pub(crate) fn string_map(self) -> Result<Vec<(String, String)>, Mistyped> {
        let Object { members } = parse_object(self.text)?.ok_or(Mistyped)?;
        members
            .into_iter()
            .map(|member| Ok((member.key.decode().into_owned(), member.value.string_or_null()?)))
            .collect()
    }
}
