//! What one client has received of one child.

use super::findings::{Findings, lock};
use super::hosted::{FrameLog, Hosted};
use crate::child::Report;
use crate::verifier::Verifier;
use crate::wire::{self, Body, Frame};

pub(crate) struct Track {
    who: String,
    /// The id of the child.
    pub(crate) child: String,
    /// The last sequence number received without a gap: where a reattach goes on.
    pub(crate) last_seq: u64,
    pub(crate) bytes: u64,
    exits: u32,
    stdout: Verifier,
    stderr: Verifier,
    scratch: Vec<u8>,
}

/// The names of the two streams in fingerprints.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;

impl Track {
    pub(crate) fn new(who: &str, hosted: &Hosted) -> Self {
        Self {
            who: format!("{who}, {}", hosted.id),
            child: hosted.id.clone(),
            last_seq: 0,
            bytes: 0,
            exits: 0,
            stdout: Verifier::new(hosted.streams.stdout),
            stderr: Verifier::new(hosted.streams.stderr),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn has_exit(&self) -> bool {
        self.exits > 0
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{}: at seq {}, stdout {}, stderr {}, exit frames {}",
            self.who,
            self.last_seq,
            self.stdout.position(),
            self.stderr.position(),
            self.exits
        )
    }

    /// Takes one frame and says what is wrong with it.
    pub(crate) fn receive(&mut self, frame: &Frame<'_>, hosted: &Hosted, findings: &Findings) {
        let (tag, data) = match frame.body {
            Body::Stdout(data) => (STDOUT, data),
            Body::Stderr(data) => (STDERR, data),
            Body::Exit(_) => (EXIT, ""),
        };
        if let Err(error) = wire::decode(data, &mut self.scratch) {
            findings.lost(1, &format!("{}: frame {} is not base64: {error}", self.who, frame.seq));
            return;
        }
        if let Body::Exit(code) = frame.body {
            self.scratch.extend(code.to_le_bytes());
        }
        let size = self.scratch.len() as u64;
        let fingerprint = FrameLog::fingerprint(tag, &self.scratch);
        if !lock(&hosted.frames).agrees(frame.seq, fingerprint) {
            findings.reordered(size.max(1), &format!("{}: frame {} is not what was seen before", self.who, frame.seq));
        }
        if frame.seq <= self.last_seq {
            let what = format!("{}: frame {} came again (last was {})", self.who, frame.seq, self.last_seq);
            findings.duplicated(size.max(1), &what);
            return;
        }
        if frame.seq > self.last_seq + 1 {
            let missing = frame.seq - self.last_seq - 1;
            findings.lost(missing, &format!("{}: frames after {} are missing", self.who, self.last_seq));
        }
        if self.has_exit() {
            findings.reordered(1, &format!("{}: frame {} after the exit", self.who, frame.seq));
        }
        self.last_seq = frame.seq;
        match frame.body {
            Body::Stdout(_) => self.stdout.feed(&self.scratch),
            Body::Stderr(_) => self.stderr.feed(&self.scratch),
            Body::Exit(code) => self.exit(code, hosted, findings),
        }
        if tag != EXIT {
            self.bytes += size;
        }
    }

    fn exit(&mut self, code: i64, hosted: &Hosted, findings: &Findings) {
        self.exits += 1;
        if self.exits > 1 {
            findings.duplicated(1, &format!("{}: a second exit frame", self.who));
        }
        if !hosted.is_quitting() {
            findings.fatal(&format!("{}: exit {code} before it was told to end", self.who));
        } else if code != i64::from(hosted.exit) {
            findings.lost(1, &format!("{}: exit code {code} instead of {}", self.who, hosted.exit));
        }
    }

    /// The verdict, given what the child says it wrote.
    pub(crate) fn finish(self, report: &Report, findings: &Findings) {
        findings.wrong(self.stdout.finish(report.stdout), &format!("{}, stdout", self.who));
        findings.wrong(self.stderr.finish(report.stderr), &format!("{}, stderr", self.who));
        if self.exits == 0 {
            findings.lost(1, &format!("{}: no exit frame", self.who));
        }
    }
}
