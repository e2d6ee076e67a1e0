//! What was approved, in the words of the runner. Plain values: nothing here does anything.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A whole approved command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// At least one and at most [`crate::STAGES_MAX`]; stdout of each is stdin of the next.
    pub stages: Vec<Stage>,
    /// The whole environment of every stage. Through sudo each is an assignment, which the policy may refuse, and what
    /// sudo sets itself (HOME, PATH, USER of the target) comes on top: name only what was asked for.
    pub env: Vec<(String, String)>,
    /// Where the stages start.
    pub cwd: PathBuf,
    /// Their umask.
    pub umask: u32,
    /// How long all of it may take, a password typed in included.
    pub limit: Duration,
    /// Whether and how the stages become root.
    pub elevate: Elevate,
}

impl Spec {
    /// A command line with the surroundings that every approved command has: `/`, umask 0077.
    pub fn new(stages: Vec<Stage>, env: Vec<(String, String)>, limit: Duration, elevate: Elevate) -> Self {
        Self { stages, env, cwd: PathBuf::from("/"), umask: 0o077, limit, elevate }
    }
}

/// One command of the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The file that was shown; absolute.
    pub program: PathBuf,
    /// The arguments, `argv[0]` as it was asked for.
    pub argv: Vec<String>,
    /// The file's identity when it was shown; `None` where the asking user could not see it.
    pub seal: Option<Seal>,
}

/// Which file it was, and in which state. The change time is what a writer can not put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// Device of the file.
    pub dev: u64,
    /// Inode of the file.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last write, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Time of the last change of any kind, in nanoseconds since 1970.
    pub ctime_ns: i64,
}

impl Seal {
    /// The seal of a file as it is now.
    pub fn of(file: &Metadata) -> Self {
        let nanos = |secs: i64, nanos: i64| secs.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            dev: file.dev(),
            ino: file.ino(),
            size: file.size(),
            mtime_ns: nanos(file.mtime(), file.mtime_nsec()),
            ctime_ns: nanos(file.ctime(), file.ctime_nsec()),
        }
    }
}

/// Whether and how the stages become root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elevate {
    /// They run as the user that the runner runs as.
    No,
    /// Through sudo, which may ask for a password on the terminal whose session the runner leads.
    AskOnTerminal,
    /// Through `sudo -n`: there is nobody to ask.
    NeverAsk,
}
