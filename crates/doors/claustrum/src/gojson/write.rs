//! Writes JSON text with Go's escaping: `<`, `>` and `&` never appear raw, nor do the two line
//! separators that break JavaScript; everything else above ASCII stays as it is.

use std::io::Write;

use super::scan::run_until;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// U+2028 and U+2029 share the first two bytes of their UTF-8 form.
const SEPARATOR_LEAD: u8 = 0xE2;

/// A string with its quotes.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_body(out, text.as_bytes());
    out.push(b'"');
}

/// Bytes that should be text, with quotes: every byte that is not UTF-8 is written as `\ufffd`.
pub(crate) fn push_bytes_lossy(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        push_body(out, chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

/// A boolean.
pub(crate) fn push_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// An integer.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{value}");
}

/// A value echoed as it was written, with blanks between tokens left out and HTML characters
/// escaped. `raw` is the text of a value that was already checked.
pub(crate) fn push_compact_id(out: &mut Vec<u8>, raw: &[u8]) {
    let mut rest = raw;
    let mut in_string = false;
    loop {
        let plain = run_until(rest, |byte| {
            matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\\' | b'<' | b'>' | b'&' | SEPARATOR_LEAD)
        });
        let (run, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.extend_from_slice(run);
        rest = match tail {
            [] => return,
            [blank @ (b' ' | b'\t' | b'\r' | b'\n'), tail @ ..] => {
                if in_string {
                    out.push(*blank);
                }
                tail
            }
            [b'"', tail @ ..] => {
                in_string = !in_string;
                out.push(b'"');
                tail
            }
            [b'\\', escape, tail @ ..] => {
                out.extend_from_slice(&[b'\\', *escape]);
                tail
            }
            _ => push_special(out, tail),
        };
    }
}

fn push_body(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let plain = run_until(rest, |byte| {
            (byte < 0x20)
                | (byte == b'"')
                | (byte == b'\\')
                | (byte == b'<')
                | (byte == b'>')
                | (byte == b'&')
                | (byte == SEPARATOR_LEAD)
        });
        let (run, tail) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        out.extend_from_slice(run);
        if tail.is_empty() {
            return;
        }
        rest = push_special(out, tail);
    }
}

/// Writes the first character of `text`, which may need escaping, and gives back what follows it.
fn push_special<'a>(out: &mut Vec<u8>, text: &'a [u8]) -> &'a [u8] {
    match text {
        [] => text,
        [SEPARATOR_LEAD, 0x80, last @ (0xA8 | 0xA9), tail @ ..] => {
            out.extend_from_slice(b"\\u202");
            out.push(if *last == 0xA8 { b'8' } else { b'9' });
            tail
        }
        [byte, tail @ ..] => {
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                0x08 => out.extend_from_slice(b"\\b"),
                0x0c => out.extend_from_slice(b"\\f"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0x00..0x20 | b'<' | b'>' | b'&' => {
                    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                    out.extend_from_slice(b"\\u00");
                    out.push(digit(byte >> 4));
                    out.push(digit(byte & 15));
                }
                other => out.push(*other),
            }
            tail
        }
    }
}
