//! The command line of `sudo-proxy`: long options with a value behind them or after `=`, and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) socket: Option<PathBuf>,
    pub(super) host: Option<String>,
    pub(super) login: Option<String>,
    pub(super) pkexec: bool,
    pub(super) verbose: bool,
    /// What the person said; nothing leaves it to the policy in the hosts file.
    pub(super) unattended_eligible: Option<bool>,
    pub(super) forward_agent: bool,
}

/// What a command line may mean beside running.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Instead {
    Help,
    Version,
    Unknown(String),
}

pub(super) const USAGE: &str = "\
Usage: sudo-proxy [--socket PATH] [--host HOST] [-v] [--unattended-eligible] [--forward-agent]

Privileged command execution proxy.
Listens on a Unix socket for JSON requests and executes them via sudo.
Every command (privileged or not) goes through the TUI Y/N gate.

Options:
  --socket PATH               Socket path (default: $XDG_RUNTIME_DIR/sudo-proxy.sock)
  --host HOST                 Connect to remote host via SSH tunnel
  --login USER                With --host: the user to log in as
  --verbose, -v               Print startup info and log each request to stderr
  --unattended-eligible       Allow a human to grant unattended unprivileged execution
                              for this session via the prompt's `a` answer (overrides hosts.json;
                              the grant is in-memory only and never persisted)
  --no-unattended-eligible    Never offer that, whatever hosts.json says
  --forward-agent             With --host: enable SSH agent forwarding (-A) so unprivileged
                              commands that opt in via forward_agent can use the local agent
";

impl Flags {
    pub(super) fn parse(args: &[OsString]) -> Result<Self, Instead> {
        let mut flags = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let text = arg.to_string_lossy();
            let (name, attached) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(OsString::from(value))),
                _ => (text.as_ref(), None),
            };
            let mut value = || attached.clone().or_else(|| args.next().cloned());
            let word = |value: OsString| value.to_string_lossy().into_owned();
            match (name, attached.is_some()) {
                ("--socket", _) => flags.socket = value().map(PathBuf::from),
                ("--host", _) => flags.host = value().map(word),
                ("--login", _) => flags.login = value().map(word),
                ("--pkexec", false) => flags.pkexec = true,
                ("--verbose" | "-v", false) => flags.verbose = true,
                ("--unattended-eligible", false) => flags.unattended_eligible = Some(true),
                ("--no-unattended-eligible", false) => flags.unattended_eligible = Some(false),
                ("--forward-agent", false) => flags.forward_agent = true,
                ("--version" | "-V", false) => return Err(Instead::Version),
                ("--help" | "-h", false) => return Err(Instead::Help),
                _ => return Err(Instead::Unknown(text.into_owned())),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, Instead> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Flags::parse(&args)
    }

    #[test]
    fn values_come_behind_or_after_an_equals_sign() {
        for line in ["--socket /a --host h --login u", "--socket=/a --host=h --login=u"] {
            let flags = parse(line).unwrap();
            assert_eq!(flags.socket, Some("/a".into()));
            assert_eq!((flags.host.as_deref(), flags.login.as_deref()), (Some("h"), Some("u")));
        }
        assert_eq!(parse("--socket").unwrap().socket, None);
    }

    #[test]
    fn the_last_word_about_unattended_grants_counts() {
        assert_eq!(parse("").unwrap().unattended_eligible, None);
        let line = "--unattended-eligible --no-unattended-eligible -v --forward-agent";
        let flags = parse(line).unwrap();
        assert_eq!((flags.unattended_eligible, flags.verbose, flags.forward_agent), (Some(false), true, true));
    }

    #[test]
    fn anything_else_is_named() {
        for bad in ["--nope", "x", "--verbose=yes", "-x", "--"] {
            assert_eq!(parse(bad), Err(Instead::Unknown(bad.to_owned())));
        }
        assert_eq!(parse("-V --nope"), Err(Instead::Version));
        assert_eq!(parse("-h"), Err(Instead::Help));
    }
}
