//! The text of a patch: names as git quotes them, lines that came and went, and the patch of a file that git does not know.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::diff::{DIFF_FILE_MAX, Patch, whole_lines};
use crate::beneath::{BeneathError, Content, Range, Root};

/// Letters that git writes behind a backslash, and what they stand for.
const ESCAPES: [(u8, u8); 9] = [
    (b'a', 7),
    (b'b', 8),
    (b't', b'\t'),
    (b'n', b'\n'),
    (b'v', 11),
    (b'f', 12),
    (b'r', b'\r'),
    (b'"', b'"'),
    (b'\\', b'\\'),
];

/// A name without its quotes.
pub(super) fn unquoted(name: &[u8]) -> Vec<u8> {
    let Some(inner) = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")) else { return name.to_vec() };
    let (mut out, mut rest) = (Vec::new(), inner.iter().copied());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next() {
            Some(digit @ b'0'..=b'7') => {
                let digits = [digit, rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                out.push(
                    digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit.wrapping_sub(b'0'))),
                );
            }
            Some(letter) => {
                out.push(ESCAPES.iter().find(|(known, _)| *known == letter).map_or(letter, |(_, byte)| *byte))
            }
            None => {}
        }
    }
    out
}

/// A name as git writes it in a head: quoted where it must be.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let must = |byte: &u8| *byte < 0x20 || *byte == 0x7f || *byte == b'"' || *byte == b'\\';
    if !name.iter().any(must) {
        return name.to_vec();
    }
    let mut out = vec![b'"'];
    for byte in name {
        match ESCAPES.iter().find(|(_, escaped)| escaped == byte) {
            Some((letter, _)) => out.extend([b'\\', *letter]),
            None if must(byte) => out.extend(format!("\\{byte:03o}").bytes()),
            None => out.push(*byte),
        }
    }
    out.push(b'"');
    out
}

/// A file's part of a patch, with its lines counted as git counts them.
pub(super) fn of_text(text: Vec<u8>) -> Patch {
    let (mut added, mut removed, mut columns) = (0, 0, 0);
    for line in text.split(|byte| *byte == b'\n') {
        let signs = line.get(..columns).unwrap_or(line);
        match line {
            // As many columns of signs as there are sides to compare with.
            [b'@', b'@', ..] => columns = line.iter().take_while(|byte| **byte == b'@').count() - 1,
            _ if line.starts_with(b"diff --git ") => columns = 0,
            _ if columns == 0 && line.starts_with(b"Binary files ") => return Patch::Binary,
            _ if signs.contains(&b'+') => added += 1,
            _ if signs.contains(&b'-') => removed += 1,
            _ => {}
        }
    }
    Patch::Text { text, added, removed }
}

/// The patch that makes a file which git does not know; nothing if it is gone. Read beneath the root, a link as a link.
pub(super) fn of_new(root: &Root, path: &Path) -> Option<Patch> {
    let (mode, content) = match root.link(path) {
        Err(BeneathError::Missing(_)) => return None,
        Ok(Some(target)) => ("120000", target.as_bytes().to_vec()),
        Ok(None) | Err(_) => match root.read(path, Range::Whole { limit: DIFF_FILE_MAX as u64 }) {
            Ok(shown) => match shown.content {
                Content::Bytes(_) => return Some(Patch::Binary),
                Content::Text(text) => {
                    (if shown.stat.mode & 0o100 == 0 { "100644" } else { "100755" }, text.into_bytes())
                }
            },
            Err(BeneathError::TooLarge { size, .. }) => return Some(Patch::Cut(Some(size))),
            Err(BeneathError::Missing(_)) => return None,
            Err(_) => return Some(Patch::Cut(None)),
        },
    };
    Some(drawn(path, mode, &content))
}

/// The beginning of such a patch where the file is larger than is drawn; nothing for what is no text.
pub(super) fn begun(root: &Root, path: &Path, most: usize) -> Vec<u8> {
    let Ok(shown) = root.read(path, Range::Part { offset: 0, length: most as u64 }) else { return Vec::new() };
    let bytes = shown.content.bytes();
    let lines = bytes.get(..whole_lines(bytes, bytes.len())).unwrap_or_default();
    let mode = if shown.stat.mode & 0o100 == 0 { "100644" } else { "100755" };
    match drawn(path, mode, lines) {
        Patch::Text { text, .. } if std::str::from_utf8(lines).is_ok() && !lines.contains(&0) => text,
        _ => Vec::new(),
    }
}

fn drawn(path: &Path, mode: &str, content: &[u8]) -> Patch {
    let name = |prefix: &[u8]| quoted(&[prefix, path.as_os_str().as_bytes()].concat());
    let mut text = [b"diff --git ", name(b"a/").as_slice(), b" ", &name(b"b/"), b"\n"].concat();
    text.extend(format!("new file mode {mode}\n").bytes());
    let mut added = 0;
    if !content.is_empty() {
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        added = lines.len() as u64;
        let range = if added == 1 { "+1".to_owned() } else { format!("+1,{added}") };
        text.extend([b"--- /dev/null\n+++ ", name(b"b/").as_slice(), b"\n"].concat());
        text.extend(format!("@@ -0,0 {range} @@\n").bytes());
        for line in lines {
            text.push(b'+');
            text.extend_from_slice(line);
        }
        if !content.ends_with(b"\n") {
            text.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
    Patch::Text { text, added, removed: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quoted_name_is_the_same_name(name in prop::collection::vec(any::<u8>(), 1..40)) {
            prop_assert_eq!(unquoted(&quoted(&name)), name);
        }
    }

    #[test]
    fn what_is_not_whole_is_no_panic() {
        for name in ["\"", "\"\\", "\"\\1", "\"\\12\"", "\"\\x\"", ""] {
            let _ = unquoted(name.as_bytes());
        }
    }
}
