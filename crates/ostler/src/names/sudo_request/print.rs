//! `--print`: the whole result as a person reads it, codes first, then the first lines of every stream.

use std::io::{self, IsTerminal, Write};

use ostler_door_mcp::{Response, Status};

use crate::output::visible;

/// Lines that are shown of each stream.
const LINES: usize = 3;

struct Style {
    bold: &'static str,
    dim: &'static str,
    reset: &'static str,
    /// A terminal must not obey what a command wrote; a file may hold it as it is.
    safe: bool,
}

pub(super) fn result(out: &mut impl Write, answer: &Response) -> io::Result<()> {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let (bold, dim, reset) = if plain { ("", "", "") } else { ("\x1b[1m", "\x1b[2m", "\x1b[0m") };
    write(out, answer, &Style { bold, dim, reset, safe: io::stdout().is_terminal() })?;
    out.flush()
}

fn write(out: &mut impl Write, answer: &Response, style: &Style) -> io::Result<()> {
    let Style { bold, dim, reset, .. } = style;
    match answer.status {
        Status::Ok => {}
        Status::Denied => return writeln!(out, "{dim}denied{reset}"),
        Status::Timeout => return writeln!(out, "{dim}timeout{reset}"),
        Status::Error => return writeln!(out, "{bold}error: {}{reset}", visible(answer.message())),
    }
    let several = answer.stages.len() > 1;
    let codes: Vec<String> = answer.stages.iter().map(|stage| stage.exit_code.to_string()).collect();
    let codes = if several { format!("[{}]", codes.join(", ")) } else { answer.exit_code().to_string() };
    let weight = if answer.exit_code() == 0 { dim } else { bold };
    writeln!(out, "{weight}exit {codes}{reset}")?;
    stream(out, &answer.stdout, "stdout", style)?;
    for (i, stage) in answer.stages.iter().enumerate() {
        let label = if several { format!("stderr[{i}]") } else { "stderr".to_owned() };
        stream(out, &stage.stderr, &label, style)?;
    }
    Ok(())
}

fn stream(out: &mut impl Write, bytes: &[u8], label: &str, style: &Style) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(bytes);
    let count = text.lines().count();
    let cut = if count > LINES { ", truncated" } else { "" };
    writeln!(out, "{}== {label} == ({count} lines{cut}){}", style.dim, style.reset)?;
    for line in text.lines().take(LINES) {
        if style.safe {
            writeln!(out, "{}", visible(line))?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(line: &str, safe: bool) -> String {
        let style = Style { bold: "<b>", dim: "<d>", reset: "</>", safe };
        let mut out = Vec::new();
        write(&mut out, &Response::parse(line.as_bytes()).unwrap(), &style).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn three_lines_of_each_stream_are_shown() {
        let line = r#"{"id":"","status":"ok","stages":[{"exit_code":0,"stderr":""},{"exit_code":1,"stderr":"eA=="}],"stdout":"MQoyCjMKNAo="}"#;
        assert_eq!(
            printed(line, false),
            "<b>exit [0, 1]</>\n<d>== stdout == (4 lines, truncated)</>\n1\n2\n3\n<d>== stderr[1] == (1 lines)</>\nx\n"
        );
    }

    #[test]
    fn every_status_has_its_line() {
        assert_eq!(
            printed(r#"{"id":"","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":""}"#, false),
            "<d>exit 0</>\n"
        );
        assert_eq!(printed(r#"{"id":"","status":"denied"}"#, false), "<d>denied</>\n");
        assert_eq!(printed(r#"{"id":"","status":"timeout"}"#, false), "<d>timeout</>\n");
        assert_eq!(printed(r#"{"id":"","status":"error"}"#, false), "<b>error: unknown error</>\n");
    }

    #[test]
    fn a_terminal_never_sees_a_raw_escape_and_a_file_does() {
        let line = r#"{"id":"","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":"G1sySg=="}"#;
        assert!(!printed(line, true).contains('\x1b'));
        assert!(printed(line, false).contains("\x1b[2J"));
        assert!(!printed("{\"id\":\"\",\"status\":\"error\",\"message\":\"\\u001b[2J\"}", false).contains('\x1b'));
    }
}
