//! A pipeline as one line for people. No two different pipelines give the same line, and none is read as another: a word that
//! a shell would take for something else, or that holds what is not seen, is quoted as shells quote it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::is_plain;

/// The whole pipeline, stages joined by pipes.
pub fn pipeline(stages: &[Vec<String>]) -> String {
    let stages: Vec<String> = stages.iter().map(|stage| command(stage)).collect();
    stages.join(" | ")
}

/// One stage.
pub fn command(argv: &[String]) -> String {
    let words = argv.iter().enumerate().map(|(index, word)| match index {
        // In front of a command it would be an assignment.
        0 if word.contains('=') && is_bare(word) => format!("'{word}'"),
        _ => quoted(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A variable and its value.
pub fn variable(name: &str, value: &str) -> String {
    match value {
        "" => format!("{name}="),
        value => format!("{name}={}", quoted(value)),
    }
}

/// A word as it is, unless that would be read as something else.
pub fn quoted(word: &str) -> String {
    match word {
        _ if is_bare(word) => word.to_owned(),
        _ => in_quotes(word),
    }
}

/// In quotes, whatever it is.
pub fn in_quotes(text: &str) -> String {
    match text.chars().all(is_plain) {
        true => format!("'{}'", text.replace('\'', r"'\''")),
        false => escaped(text.as_bytes()),
    }
}

/// A path, which may hold any bytes.
pub fn path(path: &Path) -> String {
    match path.to_str() {
        Some(text) => quoted(text),
        None => escaped(path.as_os_str().as_bytes()),
    }
}

/// What a person says of something, one sentence: as it is, unless blanks or signs in it could pose as more than words.
pub fn sentence(text: &str) -> String {
    let open = text.chars().all(is_plain) && !text.contains(['\\', '"']) && !text.contains("  ");
    match open && !text.starts_with([' ', '\'']) && !text.ends_with(' ') {
        true => text.to_owned(),
        false => in_quotes(text),
    }
}

/// A value that stands to the end of its line: as it is, unless that is nothing, begins like a quote, or has blanks that are
/// not seen or make room.
pub fn value(text: &str) -> String {
    let open = text.chars().all(is_plain) && !text.contains("  ") && !text.starts_with(['\'', '"', '$']);
    match open && !text.is_empty() && text.trim() == text {
        true => text.to_owned(),
        false => in_quotes(text),
    }
}

/// The same where `end` follows, which must not come earlier.
pub fn before(text: &str, end: &str) -> String {
    match text.contains(end) || text.ends_with(end.trim_end()) {
        true => in_quotes(text),
        false => value(text),
    }
}

/// Whether a shell takes it as one word, and a person too.
fn is_bare(word: &str) -> bool {
    let bare = |c: char| match c {
        c if c.is_ascii() => c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c),
        c => is_plain(c),
    };
    !word.is_empty() && word.chars().all(bare)
}

/// With everything written out that is not seen.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\\' | '\'' => text.extend(['\\', c]),
                c if is_plain(c) => text.push(c),
                c if c.is_ascii() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
                c if u32::from(c) <= 0xffff => text.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => text.push_str(&format!("\\U{:08x}", u32::from(c))),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stages: &[&[&str]]) -> String {
        let stages: Vec<Vec<String>> =
            stages.iter().map(|stage| stage.iter().map(|word| (*word).to_owned()).collect()).collect();
        pipeline(&stages)
    }

    #[test]
    fn words_are_quoted_only_where_they_would_be_misread() {
        assert_eq!(
            line(&[&["apt", "install", "-y", "a=b", "nginx+x@1:2,3_4%5", "日本"]]),
            "apt install -y a=b nginx+x@1:2,3_4%5 日本"
        );
        assert_eq!(
            line(&[&["echo", "shown words", "", "$HOME", ">", "x;y"]]),
            "echo 'shown words' '' '$HOME' '>' 'x;y'"
        );
        assert_eq!(line(&[&["printf", "it's", "\"q\""]]), r#"printf 'it'\''s' '"q"'"#);
        assert_eq!(line(&[&["LD_CANARY=1", "env"]]), "'LD_CANARY=1' env");
    }

    #[test]
    fn two_paths_do_not_look_like_one() {
        assert_eq!(line(&[&["rm", "-r", r"/srv/old\", "/etc"]]), r"rm -r '/srv/old\' /etc");
        assert_ne!(line(&[&["rm", r"/srv/old\", "/etc"]]), line(&[&["rm", "/srv/old /etc"]]));
    }

    #[test]
    fn a_literal_bar_is_shown_unlike_a_pipe() {
        assert_eq!(line(&[&["echo", "a", "|", "cat"]]), "echo a '|' cat");
        assert_eq!(line(&[&["echo", "a"], &["cat"]]), "echo a | cat");
        assert_eq!(line(&[&["echo", "a | cat"]]), "echo 'a | cat'");
    }

    #[test]
    fn what_is_not_seen_is_written_out() {
        assert_eq!(line(&[&["printf", "a\tb'\\"]]), r"printf $'a\tb\'\\'");
        assert_eq!(line(&[&["x\u{3000}y\u{a0}"]]), r"$'x\u3000y\u00a0'");
        assert_eq!(line(&[&["\u{2800}\u{fe0f}\u{1f980}\u{e000}\u{1b}"]]), r"$'\u2800\ufe0f\U0001f980\ue000\x1b'");
        let bytes = std::ffi::OsStr::from_bytes(b"/srv/\xff\\");
        assert_eq!(path(Path::new(bytes)), r"$'/srv/\xff\\'");
    }

    #[test]
    fn a_variable_is_quoted_by_its_value() {
        assert_eq!(variable("TZ", "UTC"), "TZ=UTC");
        assert_eq!(variable("LANG", ""), "LANG=");
        assert_eq!(variable("LANG", "C   Command: df"), "LANG='C   Command: df'");
    }

    #[test]
    fn a_sentence_stays_a_sentence_and_nothing_more() {
        for plain in ["Install nginx, it's needed (now)!", "a|b > c $x", ""] {
            assert_eq!(sentence(plain), plain);
        }
        assert_eq!(sentence("x   Command: df"), "'x   Command: df'");
        assert_eq!(sentence(" x"), "' x'");
        assert_eq!(sentence("a\\u0020"), "'a\\u0020'");
        assert_eq!(sentence("a\u{a0}b's"), r"$'a\u00a0b\'s'");
    }

    #[test]
    fn a_value_is_quoted_where_its_ends_would_not_be_seen() {
        for plain in ["make all && echo \"it's\" C:\\x", "red (recommended)", "日本"] {
            assert_eq!(value(plain), plain);
            assert_eq!(before(plain, ", "), plain);
        }
        for (text, shown) in [
            ("", "''"),
            (" x", "' x'"),
            ("x ", "'x '"),
            ("'x", r"''\''x'"),
            ("$'x", r"'$'\''x'"),
            ("red     1 keep everything", "'red     1 keep everything'"),
            ("red\u{a0}\u{2800}\u{3000}x\n", r"$'red\u00a0\u2800\u3000x\n'"),
        ] {
            assert_eq!(value(text), shown);
        }
        assert_eq!((before("a: b", ": ").as_str(), before("a:", ": ").as_str()), ("'a: b'", "'a:'"));
        assert_eq!((before("a:b", ": ").as_str(), value("a: b").as_str()), ("a:b", "a: b"));
    }

    #[test]
    fn different_pipelines_give_different_lines() {
        let words =
            ["a", "|", "'", "' '", "", "\t", "$'\\t'", "'\\''", "a b", "\\t", "$'a'", "\\", "a\\", "\u{a0}", "\\u00a0"];
        let mut seen = std::collections::HashMap::new();
        for one in words {
            for two in words {
                for stages in [vec![vec![one, two]], vec![vec![one], vec![two]], vec![vec![one]]] {
                    let line = line(&stages.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    let before = seen.insert(line.clone(), stages.clone());
                    assert!(before.is_none_or(|before| before == stages), "{line}");
                }
            }
        }
    }
}
