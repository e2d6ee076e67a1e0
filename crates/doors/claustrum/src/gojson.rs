//! JSON as the clients of this door know it: the grammar, the tolerances and the escaping of Go's
//! `encoding/json`, which differ from those of `serde_json` in ways that show on the wire.
//!
//! A line is split into keys and raw values without copying; values are decoded only when a method
//! asks for them. Nothing here may recurse, panic or allocate in proportion to nesting depth.

mod key;
mod scan;
mod text;
mod value;
mod write;

use std::borrow::Cow;

use key::Key;
use scan::Scanner;
pub(crate) use value::Raw;
pub use write::push_string;
pub(crate) use write::{push_bool, push_bytes_lossy, push_compact_id, push_int};

/// The text is not one JSON object (nor the literal `null`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a JSON object")
    }
}

impl std::error::Error for Malformed {}

/// A field holds a value of another type than the one asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mistyped;

impl std::fmt::Display for Mistyped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a field has the wrong type")
    }
}

impl std::error::Error for Mistyped {}

/// Params rarely have more members: one allocation for nearly every object.
const USUAL_MEMBERS: usize = 8;

/// Splits one JSON object into its members; `None` for the literal `null`.
///
/// The whole text is checked, nested values included, and nothing but blanks may follow it.
pub(crate) fn parse_object(raw: &[u8]) -> Result<Option<Object<'_>>, Malformed> {
    let mut members = Vec::with_capacity(USUAL_MEMBERS);
    let found = scan_object(raw, |member| members.push(member))?;
    Ok(found.then_some(Object { members }))
}

/// As [`parse_object`], but hands each member over as it comes and keeps none.
pub(crate) fn scan_object<'a>(raw: &'a [u8], take: impl FnMut(Member<'a>)) -> Result<bool, Malformed> {
    let mut scanner = Scanner::new(raw);
    let found = scanner.object_or_null(take)?;
    scanner.end()?;
    Ok(found)
}

/// One member of an object: the key and the value, both as written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    key: Key<'a>,
    value: Raw<'a>,
}

impl<'a> Member<'a> {
    /// The key as most clients write it: where this is the name of a field, it is that field.
    pub(crate) fn usual_key(self) -> &'a [u8] {
        self.key.body()
    }

    /// Whether it is the field `name`, however it is written.
    pub(crate) fn is(self, name: &str) -> bool {
        self.key.matches(name)
    }

    /// What stands under it.
    pub(crate) fn value(self) -> Raw<'a> {
        self.value
    }
}

/// The members of one JSON object, in the order written.
///
/// Keys match without regard to case. When a key is repeated the last value that is not `null`
/// counts, but every one of them must have the right type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object<'a> {
    members: Vec<Member<'a>>,
}

impl<'a> Object<'a> {
    fn all<'s>(&'s self, name: &'s str) -> impl DoubleEndedIterator<Item = Raw<'a>> + 's {
        self.members.iter().filter(move |member| member.key.matches(name)).map(|member| member.value)
    }

    fn scalar<T>(&self, name: &str, decode: impl Fn(Raw<'a>) -> Result<T, Mistyped>) -> Result<Option<T>, Mistyped> {
        let mut last = None;
        for value in self.all(name).filter(|value| !value.is_null()) {
            last = Some(decode(value)?);
        }
        Ok(last)
    }

    /// A string, decoded; borrowed from the line when it has no escapes.
    pub(crate) fn string(&self, name: &str) -> Result<Option<Cow<'a, str>>, Mistyped> {
        self.scalar(name, Raw::string)
    }

    /// A string's bytes without the check for UTF-8: for payloads such as base64, which are large
    /// and checked by their own decoder.
    pub(crate) fn string_bytes(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>, Mistyped> {
        self.scalar(name, Raw::string_bytes)
    }

    /// A boolean.
    pub(crate) fn bool(&self, name: &str) -> Result<Option<bool>, Mistyped> {
        self.scalar(name, Raw::bool)
    }

    /// An integer written as one: `5.0`, `1e2` and what leaves the 64-bit range are mistyped.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i64>, Mistyped> {
        self.scalar(name, Raw::int)
    }

    /// A list of strings; a `null` in it is the empty string.
    pub(crate) fn strings(&self, name: &str) -> Result<Option<Vec<String>>, Mistyped> {
        let mut last = None;
        for value in self.all(name) {
            last = if value.is_null() { None } else { Some(value.strings()?) };
        }
        Ok(last)
    }

    /// A map of strings in the order written; a `null` in it is the empty string. Of repeated keys
    /// the later one is meant to win; a repeated map adds to the former.
    pub(crate) fn string_map(&self, name: &str) -> Result<Option<Vec<(String, String)>>, Mistyped> {
        let mut merged: Option<Vec<(String, String)>> = None;
        for value in self.all(name) {
            if value.is_null() {
                merged = None;
            } else {
                merged.get_or_insert_with(Vec::new).append(&mut value.string_map()?);
            }
        }
        Ok(merged)
    }
}

#[cfg(test)]
mod tests;
