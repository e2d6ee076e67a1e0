//! How a run ended. Written once, as the last frame of the report.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every stage ran and ended.
    Done {
        /// One per stage; -1 for a stage that a signal ended.
        exit_codes: Vec<i32>,
        /// What the last stage wrote.
        stdout: Captured,
        /// What each stage wrote to its stderr.
        stderr: Vec<Captured>,
    },
    /// The limit passed, and the stages were killed.
    TimedOut {
        /// The limit.
        secs: u64,
        /// Stages of which something lives on all the same: it hangs in the kernel, or runs as root and sudo did not end it.
        /// Where there is a terminal, it hangs up on them when the runner ends.
        left: Vec<usize>,
    },
    /// It did not come to a run, or not to the end of one.
    Failed {
        /// The stage that is to blame, counted from 0, if it was a single one.
        stage: Option<usize>,
        /// What kind of failure.
        kind: FailKind,
        /// For people: names the thing and says what to do. Contains no output and no secret.
        message: String,
    },
}

/// What the report holds of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Bytes in the report.
    pub length: u64,
    /// SHA-256 of those bytes, in hex.
    pub sha256: String,
    /// There was more, which was dropped.
    pub truncated: bool,
}

/// Why a run failed. Unless it says otherwise, nothing was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailKind {
    /// The spec is not the one that was approved, or makes no sense.
    BadSpec,
    /// A program is not there any more.
    NotFound,
    /// A program is not the file that was shown.
    Changed,
    /// A program can not be executed. In a pipeline, stages before it may have begun; they were killed.
    NotExecutable,
    /// There is no sudo that could be trusted.
    NoSudo,
    /// The spec wants a terminal and there is none.
    NoTerminal,
    /// sudo needs a password and was not allowed to ask.
    PasswordNeeded,
    /// The password was wrong or was not given.
    NotAuthenticated,
    /// The sudo policy remembers no password, which a pipeline needs.
    NotRemembered,
    /// The sudo policy does not allow a stage.
    NotPermitted,
    /// The system refused something that the runner needs (descriptors, processes). What had begun was killed.
    System,
}
