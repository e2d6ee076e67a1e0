//! Reads what a runner wrote: frames of captured bytes, and the outcome last. Holds one frame in memory at most, and
//! takes a report that ends anywhere: its runner may still be writing, or may have been killed.

use std::io::{self, Read, Write};

use crate::frame::{self, Kind};
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
        let mut outcome = None;
        each(source, |kind, _, bytes| {
            if kind == Kind::Outcome {
                outcome = Some(serde_json::from_slice(bytes).map_err(io::Error::other)?);
            }
            Ok(())
        })?;
        Ok(Report { outcome })
    }
}

/// Copies the stdout of the last stage from a report to `into`; gives back how many bytes that were.
pub fn copy_stdout(source: impl Read, into: &mut impl Write) -> io::Result<u64> {
    copy(source, |kind, _| kind == Kind::Stdout, into)
}

/// Copies the stderr of one stage from a report to `into`; gives back how many bytes that were.
pub fn copy_stderr(source: impl Read, stage: usize, into: &mut impl Write) -> io::Result<u64> {
    copy(source, |kind, of| kind == Kind::Stderr && usize::from(of) == stage, into)
}

fn copy(source: impl Read, wanted: impl Fn(Kind, u16) -> bool, into: &mut impl Write) -> io::Result<u64> {
    let mut copied = 0;
    each(source, |kind, stage, bytes| {
        if wanted(kind, stage) {
            into.write_all(bytes)?;
            copied += bytes.len() as u64;
        }
        Ok(())
    })?;
    Ok(copied)
}

/// Calls `with` for every whole frame up to the outcome.
fn each(mut source: impl Read, mut with: impl FnMut(Kind, u16, &[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; frame::DATA_MAX];
    let mut first = true;
    while let Some(head) = frame::head(&mut source)? {
        // An outcome may be longer than the frames before it; both have limits.
        buffer.resize(buffer.len().max(head.length), 0);
        let Some(bytes) = buffer.get_mut(..head.length) else { break };
        if !frame::fill(&mut source, bytes)? {
            break;
        }
        if first && (head.kind != Kind::Version || bytes != frame::VERSION) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a report of a version that is known here"));
        }
        first = false;
        with(head.kind, head.stage, bytes)?;
        if head.kind == Kind::Outcome {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::FailKind;

    fn failed() -> Outcome {
        Outcome::Failed { stage: Some(1), kind: FailKind::Changed, message: "why".into() }
    }

    fn whole() -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::put(&mut bytes, Kind::Version, 0, frame::VERSION);
        frame::put(&mut bytes, Kind::Stderr, 0, b"zero");
        frame::put(&mut bytes, Kind::Stdout, 1, b"one ");
        frame::put(&mut bytes, Kind::Stderr, 1, b"other");
        frame::put(&mut bytes, Kind::Stdout, 1, b"two");
        frame::put(&mut bytes, Kind::Outcome, 0, &serde_json::to_vec(&failed()).unwrap());
        bytes
    }

    #[test]
    fn each_stream_is_copied_apart_from_the_others() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert_eq!(copy_stdout(whole().as_slice(), &mut out).unwrap(), 7);
        assert_eq!(copy_stderr(whole().as_slice(), 1, &mut err).unwrap(), 5);
        assert_eq!((out.as_slice(), err.as_slice()), (b"one two".as_slice(), b"other".as_slice()));
        assert_eq!(copy_stderr(whole().as_slice(), 2, &mut err).unwrap(), 0);
    }

    #[test]
    fn a_report_torn_anywhere_has_no_outcome_and_is_no_error() {
        let bytes = whole();
        assert_eq!(Report::read(bytes.as_slice()).unwrap().outcome, Some(failed()));
        for length in 0..bytes.len() {
            assert_eq!(Report::read(&bytes[..length]).unwrap().outcome, None, "torn at {length}");
        }
    }

    #[test]
    fn what_comes_after_the_outcome_is_not_read() {
        let mut bytes = whole();
        bytes.extend_from_slice(&[0xff; 64]);
        assert_eq!(Report::read(bytes.as_slice()).unwrap().outcome, Some(failed()));
    }

    #[test]
    fn something_else_is_told_from_a_report() {
        for other in [b"hello, this is a text".as_slice(), b"\0\0\0\x01\0\0\x002", b"\x01\0\0\xff\xff\xff\xff"] {
            let error = Report::read(other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{other:?}");
        }
    }
}
