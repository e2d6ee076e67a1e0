//! What came of it, for the approval terminal: exit codes and the first lines of output, safe to show.

use ostler_door_sudo_proxy::{End, Excerpt};

use crate::output::{Paint, spelled};
use crate::request::Row;

/// The lines that say how it ended; nothing for a client that left, which the prompt has said.
pub(super) fn lines(end: &End) -> Vec<Row> {
    match end {
        End::Withdrawn => Vec::new(),
        End::Denied => vec![Row::ours(Paint::Dim, "denied")],
        End::Expired => vec![Row::ours(Paint::Dim, "timeout")],
        End::Failed(why) => vec![Row::new(Paint::Head, &format!("error: {why}"))],
        End::Ran { codes, stdout, stderr } => {
            let mut lines = vec![exit(codes)];
            lines.extend(excerpt("stdout", stdout));
            for (number, stderr) in stderr.iter().enumerate() {
                let label = if codes.len() > 1 { format!("stderr[{number}]") } else { "stderr".to_owned() };
                lines.extend(excerpt(&label, stderr));
            }
            lines
        }
    }
}

fn exit(codes: &[i32]) -> Row {
    let words = match codes {
        [code] => format!("exit {code}"),
        codes => format!("exit [{}]", codes.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")),
    };
    Row::ours(if codes.last() == Some(&0) { Paint::Dim } else { Paint::Head }, words)
}

fn excerpt(label: &str, excerpt: &Excerpt) -> Vec<Row> {
    if excerpt.lines == 0 {
        return Vec::new();
    }
    let cut = if excerpt.lines > excerpt.first.len() as u64 { ", truncated" } else { "" };
    let head = Row::ours(Paint::Dim, format!("== {label} == ({} lines{cut})", excerpt.lines));
    let line = |line: &Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        Row::ours(Paint::Plain, text.split('\t').map(spelled).collect::<Vec<_>>().join("    "))
    };
    std::iter::once(head).chain(excerpt.first.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(text: &str) -> Excerpt {
        let mut excerpt = Excerpt::default();
        excerpt.write_all(text.as_bytes()).unwrap();
        excerpt
    }

    fn texts(end: &End) -> Vec<String> {
        lines(end).into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn exit_codes_and_the_first_lines_are_shown() {
        let end = End::Ran { codes: vec![3], stdout: of("a\nb\nc\nd\n"), stderr: vec![of("e")] };
        let expected = ["exit 3", "== stdout == (4 lines, truncated)", "a", "b", "c", "== stderr == (1 lines)", "e"];
        assert_eq!(texts(&end), expected);
        let end = End::Ran { codes: vec![0, -1], stdout: of(""), stderr: vec![of(""), of("e\n")] };
        assert_eq!(texts(&end), ["exit [0, -1]", "== stderr[1] == (1 lines)", "e"]);
    }

    #[test]
    fn output_cannot_steer_the_terminal() {
        let end = End::Ran { codes: vec![0], stdout: of("x\u{1b}]0;owned\u{7}\u{1b}[8my\r\u{9b}2J\n"), stderr: vec![] };
        assert_eq!(texts(&end)[2], "x\\u{1b}]0;owned\\u{7}\\u{1b}[8my\\u{d}\\u{9b}2J");
        assert_eq!(texts(&End::Failed("a\u{1b}b".into())), ["error: a\\u{1b}b"]);
    }
}
