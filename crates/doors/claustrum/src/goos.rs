//! Texts as Go's standard library words them: clients match on some of them.

use std::io;

/// What the system said, without the number: `no such file or directory`.
pub fn errno(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// A text in double quotes, with everything escaped that would not print.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            control if (control as u32) < 0x20 || control == '\x7f' => {
                out.push_str(&format!("\\x{:02x}", control as u32));
            }
            other if other.is_control() => out.push_str(&format!("\\u{:04x}", other as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_read_as_clients_know_them() {
        assert_eq!(errno(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(errno(&io::Error::from_raw_os_error(8)), "exec format error");
    }

    #[test]
    fn quoting_hides_nothing() {
        assert_eq!(quoted("a\"b\\\n\x01é"), r#""a\"b\\\n\x01é""#);
    }
}
