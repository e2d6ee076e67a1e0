//! One client's stdin for one child: sent in chunks with offsets, resent blindly from an earlier offset after every
//! reconnect and now and then without any reason. Two clients feed each child, so most bytes are sent several times.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::findings::{Findings, lock};
use super::hosted::Hosted;
use crate::child::Kind;
use crate::rng::Rng;
use crate::wire::{Applied, Failure};

/// Requests without a reply: pipelined, because one connection's stdin keeps its order.
const WINDOW: usize = 8;

/// The largest chunk: its base64 text stays far below the line cap of 1 MiB.
const MAX_CHUNK: usize = 24 << 10;

/// How far behind the acknowledged offset a blind resend may begin.
const MAX_BACK: u64 = 96 << 10;

/// What a gap in stdin is refused with.
const GAP: i64 = -32003;

/// What stdin of an ended process is refused with, by the claustrum and by the native door.
const ENDED: [&str; 2] = ["Process not running", "the process has ended"];

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) offset: u64,
    pub(crate) length: usize,
}

pub(crate) struct Feeder {
    /// Index of the child.
    pub(crate) child: usize,
    /// Bytes per second; the slow reader gets a little less than it can read.
    rate: f64,
    started: Instant,
    acked: u64,
    cursor: u64,
    in_flight: usize,
}

impl Feeder {
    pub(crate) fn new(child: usize, kind: Kind) -> Self {
        let rate = match kind {
            Kind::SlowEcho => 500e3,
            // A terminal takes 4 KiB at a time.
            Kind::Terminal => 200e3,
            _ => 1.5e6,
        };
        Self { child, rate, started: Instant::now(), acked: 0, cursor: 0, in_flight: 0 }
    }

    /// A new connection: nothing is known about requests that were in flight.
    pub(crate) fn reconnected(&mut self, rng: &mut Rng) {
        self.in_flight = 0;
        self.step_back(rng);
    }

    fn step_back(&mut self, rng: &mut Rng) {
        self.cursor = self.acked.saturating_sub(rng.between(0, MAX_BACK));
    }

    /// The next chunk to send, if it is time for one.
    pub(crate) fn next(&mut self, hosted: &Hosted, rng: &mut Rng) -> Option<Chunk> {
        if self.in_flight >= WINDOW {
            return None;
        }
        if rng.percent(1) {
            self.step_back(rng);
        }
        let due = self.started.elapsed().as_secs_f64() * self.rate;
        if self.cursor as f64 > due && !hosted.is_quitting() {
            return None;
        }
        let wanted = if rng.percent(20) { rng.size(1, 16) } else { rng.size(1, MAX_CHUNK) };
        let length = lock(&hosted.stdin).grant(self.cursor, wanted);
        if length == 0 {
            return None;
        }
        let chunk = Chunk { offset: self.cursor, length };
        self.cursor += length as u64;
        self.in_flight += 1;
        Some(chunk)
    }

    pub(crate) fn replied(
        &mut self,
        chunk: Chunk,
        reply: Result<Applied, Failure>,
        hosted: &Hosted,
        findings: &Findings,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let end = chunk.offset + chunk.length as u64;
        let who = format!("stdin of {} at {}..{end}", hosted.id, chunk.offset);
        match reply {
            Ok(Applied { applied, duplicate }) => {
                hosted.applied.fetch_max(applied, Ordering::AcqRel);
                if applied < end || applied < self.acked {
                    let known = end.max(self.acked);
                    findings.lost(known - applied, &format!("{who}: applied is {applied}, was {}", self.acked));
                }
                if !duplicate && applied != end {
                    findings
                        .duplicated(applied.abs_diff(end), &format!("{who}: fresh bytes, but applied is {applied}"));
                }
                self.acked = self.acked.max(applied);
            }
            // The child had all it was promised and has ended: one message per door.
            Err(failure) if ENDED.contains(&failure.message.as_str()) && hosted.is_quitting() => {}
            Err(failure) if failure.code == GAP => {
                findings.lost(1, &format!("{who}: called a gap, although {} was applied", self.acked));
                self.cursor = self.acked.min(self.cursor);
            }
            Err(failure) => findings.lost(1, &format!("{who}: {} {}", failure.code, failure.message)),
        }
    }
}

/// How long a feeder with nothing to do may sleep.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);
