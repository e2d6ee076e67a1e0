//! The command line of `claustrum`, parsed as Go's flag package does: one or two dashes, `-x v` or `-x=v`, any order,
//! ending at the first word that is no flag.

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

/// What the command line asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) serve: bool,
    pub(crate) bridge: bool,
    pub(crate) stop: bool,
    pub(crate) version: bool,
    pub(crate) install: bool,
    pub(crate) keep_children: bool,
    pub(crate) socket: String,
    pub(crate) token_file: String,
    pub(crate) token_fd: i64,
    pub(crate) metrics_addr: String,
    pub(crate) cli_dir: String,
    pub(crate) cli_version: String,
    pub(crate) cli_url: String,
    pub(crate) cli_checksum: String,
    pub(crate) cli_zst: String,
    pub(crate) cli_keep: i64,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            serve: false,
            bridge: false,
            stop: false,
            version: false,
            install: false,
            keep_children: false,
            socket: String::new(),
            token_file: String::new(),
            token_fd: -1,
            metrics_addr: String::new(),
            cli_dir: String::new(),
            cli_version: String::new(),
            cli_url: String::new(),
            cli_checksum: String::new(),
            cli_zst: String::new(),
            cli_keep: 3,
        }
    }
}

/// A command line that is not run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Help was asked for.
    Help,
    /// This is wrong with it.
    Wrong(String),
}

/// Name, kind of value (nothing for a switch), meaning; in the order in which help shows them.
const HELP: [(&str, &str, &str); 16] = [
    ("bridge", "", "relay stdin and stdout to the socket"),
    ("cli-checksum", " string", "expected SHA-256 of the agent CLI archive"),
    ("cli-dir", " string", "folder that holds one file per CLI version"),
    ("cli-keep", " int", "how many CLI versions to keep; 0 keeps all (default 3)"),
    ("cli-url", " string", "where to download the CLI (zstd)"),
    ("cli-version", " string", "the CLI version to ensure"),
    ("cli-zst", " string", "an uploaded CLI archive (zstd), used before -cli-url"),
    ("install", "", "ensure the agent CLI and print what is there"),
    ("keep-children", "", "leave processes running when the daemon stops"),
    ("metrics-addr", " string", "serve Prometheus counters on this address"),
    ("serve", "", "run the daemon"),
    ("socket", " string", "path of the socket (default ~/.claude/remote/rpc.sock)"),
    ("stop", "", "ask the daemon to stop; the token is read from CLAUDE_RPC_TOKEN"),
    ("token-fd", " int", "read the token from this open descriptor (default -1)"),
    ("token-file", " string", "read the token from this file, then delete it"),
    ("version", "", "print the version"),
];

impl Flags {
    pub(crate) fn parse(args: &[OsString]) -> Result<Self, Refused> {
        let mut flags = Self::default();
        let mut words = args.iter().map(|word| word.to_string_lossy());
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else { break };
            let name = name.strip_prefix('-').unwrap_or(name);
            if name.is_empty() {
                break;
            }
            if name.starts_with(['-', '=']) {
                return Err(Refused::Wrong(format!("bad flag syntax: {word}")));
            }
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let next = || words.next().map(|word| word.into_owned());
            flags.set(name, value, next)?;
        }
        Ok(flags)
    }

    fn set(&mut self, name: &str, value: Option<String>, next: impl FnOnce() -> Option<String>) -> Result<(), Refused> {
        if let Some(switch) = self.switch(name) {
            *switch = match value {
                None => true,
                Some(text) => parse_bool(&text).ok_or_else(|| {
                    Refused::Wrong(format!("invalid boolean value {text:?} for -{name}: parse error"))
                })?,
            };
            return Ok(());
        }
        let needed = || value.or_else(next).ok_or_else(|| Refused::Wrong(format!("flag needs an argument: -{name}")));
        if let Some(text) = self.text(name) {
            *text = needed()?;
        } else if let Some(number) = self.number(name) {
            let text = needed()?;
            *number = text.parse().map_err(|error| {
                Refused::Wrong(format!("invalid value {text:?} for flag -{name}: {}", wrong_number(&error)))
            })?;
        } else if matches!(name, "h" | "help") {
            return Err(Refused::Help);
        } else {
            return Err(Refused::Wrong(format!("flag provided but not defined: -{name}")));
        }
        Ok(())
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "serve" => &mut self.serve,
            "bridge" => &mut self.bridge,
            "stop" => &mut self.stop,
            "version" => &mut self.version,
            "install" => &mut self.install,
            "keep-children" => &mut self.keep_children,
            _ => return None,
        })
    }

    fn text(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "socket" => &mut self.socket,
            "token-file" => &mut self.token_file,
            "metrics-addr" => &mut self.metrics_addr,
            "cli-dir" => &mut self.cli_dir,
            "cli-version" => &mut self.cli_version,
            "cli-url" => &mut self.cli_url,
            "cli-checksum" => &mut self.cli_checksum,
            "cli-zst" => &mut self.cli_zst,
            _ => return None,
        })
    }

    fn number(&mut self, name: &str) -> Option<&mut i64> {
        Some(match name {
            "token-fd" => &mut self.token_fd,
            "cli-keep" => &mut self.cli_keep,
            _ => return None,
        })
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// What is wrong with a number.
fn wrong_number(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "parse error",
    }
}

/// What `-h` prints, and what follows every error, under the name that the program was called by.
pub(crate) fn usage(called_as: &str) -> String {
    let mut text = format!("Usage of {called_as}:\n");
    for (name, value, meaning) in HELP {
        text.push_str(&format!("  -{name}{value}\n    \t{meaning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Flags, Refused> {
        Flags::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn every_spelling_of_a_flag_means_the_same() {
        let want = Flags { serve: true, socket: "/s".into(), token_fd: 3, ..Flags::default() };
        for words in [
            &["-serve", "-socket", "/s", "-token-fd", "3"][..],
            &["--token-fd=3", "--socket=/s", "--serve"],
            &["-serve=true", "-socket=/s", "-token-fd=3", "--", "-stop"],
            &["-serve", "-socket=/s", "-token-fd=3", "word", "-stop"],
        ] {
            assert_eq!(parse(words).unwrap(), want, "{words:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_the_words_that_scripts_match() {
        for (words, message) in [
            (&["-zzz"][..], "flag provided but not defined: -zzz"),
            (&["-socket"], "flag needs an argument: -socket"),
            (&["-token-fd", "x"], "invalid value \"x\" for flag -token-fd: parse error"),
            (
                &["-token-fd=9223372036854775808"],
                "invalid value \"9223372036854775808\" for flag -token-fd: value out of range",
            ),
            (&["-serve=maybe"], "invalid boolean value \"maybe\" for -serve: parse error"),
            (&["-=x"], "bad flag syntax: -=x"),
        ] {
            assert_eq!(parse(words), Err(Refused::Wrong(message.into())));
        }
        assert_eq!(parse(&["-h"]), Err(Refused::Help));
    }
}
