//! Decodes the body of a JSON string. What is not UTF-8, or is half a surrogate pair, becomes
//! U+FFFD instead of an error: clients have always been answered that way.

use std::borrow::Cow;

use super::scan::run_until;

/// The text of a string body (without quotes) that the scanner accepted.
pub(super) fn decode(body: &[u8], escaped: bool) -> Cow<'_, str> {
    if escaped {
        return Cow::Owned(into_text(unescape(body)));
    }
    match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replace_bad(body)),
    }
}

/// The bytes of a string body that the scanner accepted, escapes resolved.
pub(super) fn decode_bytes(body: &[u8], escaped: bool) -> Cow<'_, [u8]> {
    if escaped { Cow::Owned(unescape(body)) } else { Cow::Borrowed(body) }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| replace_bad(error.as_bytes()))
}

/// One U+FFFD for every bad byte (`String::from_utf8_lossy` gives one for each bad sequence).
fn replace_bad(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn unescape(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    loop {
        let (plain, rest) = body.split_at_checked(run_until(body, |byte| byte == b'\\')).unwrap_or((body, &[]));
        out.extend_from_slice(plain);
        let [_, escape, tail @ ..] = rest else {
            return out;
        };
        body = tail;
        match escape {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (letter, tail) = unicode_escape(body);
                let mut utf8 = [0; 4];
                out.extend_from_slice(letter.encode_utf8(&mut utf8).as_bytes());
                body = tail;
            }
            other => out.push(*other),
        }
    }
}

/// The character of a `\u` escape whose digits come next, a second half taken along if it fits.
fn unicode_escape(digits: &[u8]) -> (char, &[u8]) {
    let (first, tail) = hex4(digits);
    if let Some(letter) = char::from_u32(first) {
        return (letter, tail);
    }
    if let [b'\\', b'u', low @ ..] = tail {
        let (second, rest) = hex4(low);
        if (0xD800..0xDC00).contains(&first) && (0xDC00..0xE000).contains(&second) {
            let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), rest);
        }
    }
    (char::REPLACEMENT_CHARACTER, tail)
}

fn hex4(digits: &[u8]) -> (u32, &[u8]) {
    let (four, tail) = digits.split_at_checked(4).unwrap_or((digits, &[]));
    let value = four.iter().fold(0, |sum, &digit| sum * 16 + char::from(digit).to_digit(16).unwrap_or(0));
    (value, tail)
}
