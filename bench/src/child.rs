//! What the hosted children of the crash battery do: this program again, in a hidden mode.
//! A child writes coded streams, obeys its control FIFO, and says in a file beside the product's reach what it wrote.

mod control;
mod echo;
mod output;
mod paced;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::args::Args;
use crate::code::{Alphabet, Code};
use crate::verifier::Tally;

pub(crate) use control::Steering;

/// The ways in which a child can write and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Lines of text in writes of a few hundred bytes.
    Text,
    /// Binary in writes of 1 to 100,000 bytes.
    Binary,
    /// One byte per write.
    Bytes,
    /// 32 KiB writes, several at once, then silence.
    Burst,
    /// stdout and stderr by turns.
    Both,
    /// Everything read from stdin goes to stdout.
    Echo,
    /// The same, reading slowly, so that stdin piles up; says on stderr that it goes on.
    SlowEcho,
    /// Binary through a raw terminal, reading what is typed.
    Terminal,
}

const NAMES: [(Kind, &str); 8] = [
    (Kind::Text, "text"),
    (Kind::Binary, "binary"),
    (Kind::Bytes, "bytes"),
    (Kind::Burst, "burst"),
    (Kind::Both, "both"),
    (Kind::Echo, "echo"),
    (Kind::SlowEcho, "slow-echo"),
    (Kind::Terminal, "terminal"),
];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(kind, _)| *kind == self).map_or("?", |(_, name)| name)
    }

    pub(crate) fn reads_stdin(self) -> bool {
        matches!(self, Self::Echo | Self::SlowEcho)
    }
}

#[derive(Debug)]
pub(crate) struct UnknownKind;

impl std::fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no such kind of child")
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        NAMES.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or(UnknownKind)
    }
}

/// The coded streams of one child, known to the child and to everyone who checks it.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    pub(crate) stdin: Code,
    pub(crate) stdout: Code,
    pub(crate) stderr: Code,
}

impl Streams {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        let stdin = Code::new(seed ^ 0x1, Alphabet::Binary);
        let stdout = match kind {
            Kind::Echo | Kind::SlowEcho => stdin,
            Kind::Text => Code::new(seed ^ 0x2, Alphabet::Text),
            Kind::Binary | Kind::Bytes | Kind::Burst | Kind::Both | Kind::Terminal => {
                Code::new(seed ^ 0x2, Alphabet::Binary)
            }
        };
        Self { stdin, stdout, stderr: Code::new(seed ^ 0x3, Alphabet::Text) }
    }
}

/// What a child says about itself when it ends: the truth that clients are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
    pub(crate) stdin: u64,
    pub(crate) stdin_tally: Tally,
}

impl Report {
    pub(crate) fn to_line(self) -> String {
        let t = self.stdin_tally;
        let fields = [self.stdout, self.stderr, self.stdin, t.lost, t.duplicated, t.reordered, t.foreign];
        fields.map(|n| n.to_string()).join(" ")
    }

    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let fields: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let &[stdout, stderr, stdin, lost, duplicated, reordered, foreign] = fields.as_slice() else { return None };
        Some(Self { stdout, stderr, stdin, stdin_tally: Tally { lost, duplicated, reordered, foreign } })
    }
}

/// `bench child KIND --seed S --control FIFO --report FILE --exit CODE --parent PID`.
pub(crate) fn run(mut args: Args) -> Result<u8> {
    let kind: Kind = args.word().unwrap_or_default().parse()?;
    let seed: u64 = args.required("--seed")?;
    let control: PathBuf = args.required("--control")?;
    let report: PathBuf = args.required("--report")?;
    let exit: u8 = args.required("--exit")?;
    let parent: i32 = args.required("--parent")?;
    args.finish()?;
    let control = control::Control::open(&control, parent)?;
    let streams = Streams::new(kind, seed);
    let result = match kind {
        Kind::Echo | Kind::SlowEcho => echo::run(kind, streams, control),
        Kind::Text | Kind::Binary | Kind::Bytes | Kind::Burst | Kind::Both | Kind::Terminal => {
            paced::run(kind, seed, streams, control)
        }
    };
    let text = match &result {
        Ok(told) => told.to_line(),
        Err(error) => format!("failed: {error:#}"),
    };
    // Renamed into place: a reader sees the whole line or none.
    let draft = report.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::rename(&draft, &report)?;
    if let Err(error) = result {
        bail!("child {}: {error:#}", kind.name());
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for (kind, name) in NAMES {
            assert_eq!(name.parse::<Kind>().unwrap(), kind);
            assert_eq!(kind.name(), name);
        }
        assert!("nothing".parse::<Kind>().is_err());
    }

    #[test]
    fn a_report_survives_its_file() {
        let tally = Tally { lost: 4, duplicated: 5, reordered: 6, foreign: 7 };
        let report = Report { stdout: 1, stderr: 2, stdin: 3, stdin_tally: tally };
        assert_eq!(Report::from_line(&report.to_line()), Some(report));
        assert_eq!(Report::from_line("failed: broken pipe"), None);
        assert_eq!(Report::from_line("1 2 3"), None);
    }
}
