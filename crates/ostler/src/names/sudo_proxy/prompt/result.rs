//! What came of it, for the approval terminal: exit codes and the first lines of output, safe to show.

use ostler_door_sudo_proxy::{End, Excerpt};

use super::style::Style;
use crate::output::{visible, visible_bytes};

/// The lines that say how it ended; nothing for a client that left, which the prompt has said.
pub(super) fn lines(end: &End, style: &Style) -> Vec<String> {
    match end {
        End::Withdrawn => Vec::new(),
        End::Denied => vec![style.dim("denied")],
        End::Expired => vec![style.dim("timeout")],
        End::Failed(why) => vec![style.bold(&format!("error: {}", visible(why)))],
        End::Ran { codes, stdout, stderr } => {
            let mut lines = vec![exit(codes, style)];
            lines.extend(excerpt("stdout", stdout, style));
            for (number, stderr) in stderr.iter().enumerate() {
                let label = if codes.len() > 1 { format!("stderr[{number}]") } else { "stderr".to_owned() };
                lines.extend(excerpt(&label, stderr, style));
            }
            lines
        }
    }
}

fn exit(codes: &[i32], style: &Style) -> String {
    let words = match codes {
        [code] => format!("exit {code}"),
        codes => format!("exit [{}]", codes.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")),
    };
    if codes.last() == Some(&0) { style.dim(&words) } else { style.bold(&words) }
}

fn excerpt(label: &str, excerpt: &Excerpt, style: &Style) -> Vec<String> {
    if excerpt.lines == 0 {
        return Vec::new();
    }
    let cut = if excerpt.lines > excerpt.first.len() as u64 { ", truncated" } else { "" };
    let head = style.dim(&format!("== {label} == ({} lines{cut})", excerpt.lines));
    std::iter::once(head).chain(excerpt.first.iter().map(|line| visible_bytes(line))).collect()
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

    #[test]
    fn exit_codes_and_the_first_lines_are_shown() {
        let end = End::Ran { codes: vec![3], stdout: of("a\nb\nc\nd\n"), stderr: vec![of("e")] };
        let expected = ["exit 3", "== stdout == (4 lines, truncated)", "a", "b", "c", "== stderr == (1 lines)", "e"];
        assert_eq!(lines(&end, &Style::PLAIN), expected);
        let end = End::Ran { codes: vec![0, -1], stdout: of(""), stderr: vec![of(""), of("e\n")] };
        assert_eq!(lines(&end, &Style::PLAIN), ["exit [0, -1]", "== stderr[1] == (1 lines)", "e"]);
    }

    #[test]
    fn output_cannot_steer_the_terminal() {
        let end = End::Ran { codes: vec![0], stdout: of("x\u{1b}]0;owned\u{7}\u{1b}[8my\r\u{9b}2J\n"), stderr: vec![] };
        assert_eq!(lines(&end, &Style::PLAIN)[2], "x^[]0;owned^G^[[8my^M\\u{9b}2J");
        assert_eq!(lines(&End::Failed("a\u{1b}b".into()), &Style::PLAIN), ["error: a^[b"]);
    }
}
