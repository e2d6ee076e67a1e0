//! Reads what a runner wrote: frames of captured bytes, and the outcome last. Holds one frame in memory at most.

use std::io::{self, Read, Write};

use crate::outcome::Outcome;

/// What a report says, apart from the captured bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How the run ended; `None` while the report has no end yet (or never gets one: the runner was killed).
    pub outcome: Option<Outcome>,
}

impl Report {
    /// Reads a report to its end, skipping the captured bytes.
    pub fn read(source: impl Read) -> io::Result<Report> {
        let _ = source;
        Ok(Report { outcome: None })
    }
}

/// Copies the stdout of the last stage from a report to `into`; gives back how many bytes that were.
pub fn copy_stdout(source: impl Read, into: &mut impl Write) -> io::Result<u64> {
    let _ = (source, into);
    Ok(0)
}

/// Copies the stderr of one stage from a report to `into`; gives back how many bytes that were.
pub fn copy_stderr(source: impl Read, stage: usize, into: &mut impl Write) -> io::Result<u64> {
    let _ = (source, stage, into);
    Ok(0)
}
