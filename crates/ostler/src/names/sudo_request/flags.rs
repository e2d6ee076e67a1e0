//! The command line of `sudo-request`: options first, then the command, in which a lone `|` separates stages.

use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const USAGE: &str = "Usage: sudo-request [OPTIONS] COMMAND [ARGS...] ['|' COMMAND [ARGS...] ...]";

pub(super) const HELP: &str = "\
Usage: sudo-request [OPTIONS] COMMAND [ARGS...] ['|' COMMAND [ARGS...] ...]

Asks sudo-proxy to run a command, or a pipeline of commands separated by '|'.

Options:
  --socket PATH    Unix socket path (default: $XDG_RUNTIME_DIR/sudo-proxy.sock)
  --reason TEXT    Reason for the request
  --session NAME   Session identifier (default: sudo-request-cli)
  --print          Print all output to stdout (exit code, stdout, stderr)
  --no-privilege   Run command without privilege escalation
  --forward-agent  Forward the local SSH agent to the command (unprivileged only)
  --               End of options
  -V, --version    Print the version
  -h, --help       Print this help

SUDO_REQUEST_TIMEOUT_SECS limits how long to wait for the answer (default: 600).

Pipeline example:
  sudo-request --no-privilege ls /tmp '|' wc -l
";

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) socket: Option<PathBuf>,
    pub(super) reason: String,
    pub(super) session: String,
    pub(super) print: bool,
    pub(super) privileged: bool,
    pub(super) forward_agent: bool,
    pub(super) pipeline: Vec<Vec<String>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Run(Flags),
    Help,
    Version,
}

impl Flags {
    pub(super) fn parse(args: &[OsString]) -> Result<Parsed, String> {
        let mut flags = Self {
            socket: None,
            reason: String::new(),
            session: "sudo-request-cli".to_owned(),
            print: false,
            privileged: true,
            forward_agent: false,
            pipeline: Vec::new(),
        };
        let mut rest = args;
        while let [word, after @ ..] = rest {
            // A socket may have any name; everything else becomes JSON.
            let value = || after.first().ok_or_else(|| format!("{} requires a value", word.to_string_lossy()));
            let skip = after.get(1..).unwrap_or_default();
            rest = match word.to_str() {
                Some("--version" | "-V") => return Ok(Parsed::Version),
                Some("--help" | "-h") => return Ok(Parsed::Help),
                Some("--socket") => {
                    flags.socket = Some(value()?.into());
                    skip
                }
                Some("--reason") => {
                    flags.reason = text(value()?)?;
                    skip
                }
                Some("--session") => {
                    flags.session = text(value()?)?;
                    skip
                }
                Some("--print") => {
                    flags.print = true;
                    after
                }
                Some("--no-privilege") => {
                    flags.privileged = false;
                    after
                }
                Some("--forward-agent") => {
                    flags.forward_agent = true;
                    after
                }
                Some("--") => {
                    flags.pipeline = stages(after)?;
                    break;
                }
                Some(other) if other.starts_with("--") => return Err(format!("unknown option: {other}")),
                _ => {
                    flags.pipeline = stages(rest)?;
                    break;
                }
            };
        }
        if flags.forward_agent && flags.privileged {
            return Err(
                "--forward-agent is only allowed with --no-privilege (privileged commands cannot use the agent)"
                    .to_owned(),
            );
        }
        if flags.pipeline.is_empty() {
            return Err("no command specified".to_owned());
        }
        Ok(Parsed::Run(flags))
    }
}

fn text(word: &OsString) -> Result<String, String> {
    word.to_str().map(str::to_owned).ok_or_else(|| format!("not UTF-8: {}", word.to_string_lossy()))
}

/// Stages without a word are dropped.
fn stages(words: &[OsString]) -> Result<Vec<Vec<String>>, String> {
    let stages = words.split(|word| word == "|").filter(|stage| !stage.is_empty());
    stages.map(|stage| stage.iter().map(text).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn parse(words: &[&str]) -> Result<Parsed, String> {
        Flags::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn flags(words: &[&str]) -> Flags {
        match parse(words) {
            Ok(Parsed::Run(flags)) => flags,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn options_end_at_the_command() {
        let found = flags(&["--print", "--reason", "why", "ls", "--print", "-V", "--"]);
        assert_eq!((found.print, found.reason.as_str()), (true, "why"));
        assert_eq!(found.pipeline, [["ls", "--print", "-V", "--"]]);
        assert_eq!(found.session, "sudo-request-cli");
        assert!(found.privileged);
    }

    #[test]
    fn two_dashes_end_the_options() {
        assert_eq!(flags(&["--no-privilege", "--", "--odd", "x"]).pipeline, [["--odd", "x"]]);
        assert_eq!(flags(&["--", "--", "x"]).pipeline, [["--", "x"]]);
    }

    #[test]
    fn a_lone_bar_separates_stages_and_empty_ones_are_dropped() {
        assert_eq!(flags(&["|", "a", "b|", "|", "|", "c", "|"]).pipeline, [vec!["a", "b|"], vec!["c"]]);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, message) in [
            (&["--odd", "x"][..], "unknown option: --odd"),
            (&["--socket"], "--socket requires a value"),
            (&["--reason"], "--reason requires a value"),
            (&["--session"], "--session requires a value"),
            (&[], "no command specified"),
            (&["--"], "no command specified"),
            (&["|"], "no command specified"),
            (
                &["--forward-agent", "id"],
                "--forward-agent is only allowed with --no-privilege (privileged commands cannot use the agent)",
            ),
        ] {
            assert_eq!(parse(words), Err(message.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn help_and_version_win_where_they_stand() {
        assert_eq!(parse(&["--print", "-h", "--odd"]), Ok(Parsed::Help));
        assert_eq!(parse(&["-V"]), Ok(Parsed::Version));
        assert!(parse(&["--odd", "-h"]).is_err());
    }

    #[test]
    fn a_word_that_json_cannot_carry_is_refused() {
        let bad = OsString::from_vec(vec![0xff]);
        assert!(Flags::parse(&["id".into(), bad.clone()]).unwrap_err().starts_with("not UTF-8: "));
        assert!(matches!(Flags::parse(&["--socket".into(), bad, "id".into()]), Ok(Parsed::Run(_))));
    }
}
