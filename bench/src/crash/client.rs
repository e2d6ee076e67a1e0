//! A client of the battery: connects, reattaches everything from its last sequence number, reads, feeds stdin,
//! and starts again when the daemon dies under it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use super::battery::{Battery, Progress};
use super::feeder::{Chunk, Feeder, PAUSE};
use super::findings::lock;
use super::track::Track;
use crate::conn::Conn;
use crate::instance::TOKEN;
use crate::rng::Rng;
use crate::wire::{self, Applied, Attached, Failure, Incoming};

/// A reply that takes longer than this while the daemon lives never comes.
const REPLY_DEADLINE: Duration = Duration::from_secs(30);

/// Queued bytes above which a feeder waits for the daemon to read.
const MAX_UNSENT: usize = 256 << 10;

/// This client sleeps now and then, so that its cursor is far behind when the daemon dies.
const SLEEPY: usize = 1;

/// From this one on, clients feed stdin.
const FIRST_FEEDER: usize = 2;

pub(crate) struct Client<'a> {
    number: usize,
    battery: &'a Battery,
    tracks: Vec<Track>,
    feeders: Vec<Feeder>,
    rng: Rng,
    next_id: u64,
    pending: HashMap<u64, Pending>,
    payload: Vec<u8>,
}

struct Pending {
    asked: Instant,
    what: Asked,
}

enum Asked {
    /// Floors known before the question: an answer below them has forgotten something.
    Reattach {
        child: usize,
        applied: u64,
        seq: u64,
    },
    Stdin {
        feeder: usize,
        chunk: Chunk,
    },
}

impl<'a> Client<'a> {
    pub(crate) fn new(number: usize, battery: &'a Battery, rng: Rng) -> Self {
        let who = format!("client {number}");
        let feeds = battery.children.iter().enumerate().filter(|(_, child)| child.kind.reads_stdin());
        Self {
            number,
            battery,
            tracks: battery.children.iter().map(|child| Track::new(&who, child)).collect(),
            feeders: feeds
                .filter(|_| number >= FIRST_FEEDER)
                .map(|(index, child)| Feeder::new(index, child.kind))
                .collect(),
            rng,
            next_id: 1,
            pending: HashMap::new(),
            payload: Vec::new(),
        }
    }

    /// Follows the children until the battery says that it is over.
    pub(crate) fn follow(mut self, progress: &Progress) -> Vec<Track> {
        while !progress.over() {
            match Conn::dial(&self.battery.socket) {
                Ok(conn) => self.session(conn, progress),
                Err(_) => std::thread::sleep(self.rng.micros(200, 1_500)),
            }
        }
        self.tracks
    }

    fn session(&mut self, mut conn: Conn, progress: &Progress) {
        self.pending.clear();
        for child in 0..self.tracks.len() {
            self.reattach(child, &mut conn);
        }
        for feeder in &mut self.feeders {
            feeder.reconnected(&mut self.rng);
        }
        while !progress.over() {
            let before = self.received();
            // The daemon was killed: the next round connects again.
            if conn.turn(PAUSE, |line| self.line(line)).is_err() {
                return;
            }
            progress.received(self.received() - before);
            progress.exits(self.number, self.tracks.iter().filter(|track| track.has_exit()).count());
            self.feed(&mut conn);
            self.check_replies();
            if self.number == SLEEPY && self.rng.percent(3) {
                std::thread::sleep(self.rng.micros(1_000, 30_000));
            }
        }
    }

    fn received(&self) -> u64 {
        self.tracks.iter().map(|track| track.bytes).sum()
    }

    fn ask(&mut self, what: Asked) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, Pending { asked: Instant::now(), what });
        id
    }

    fn reattach(&mut self, child: usize, conn: &mut Conn) {
        let (Some(hosted), Some(track)) = (self.battery.children.get(child), self.tracks.get(child)) else { return };
        let params = json!({"id": hosted.id, "fromSeq": track.last_seq, "wantPid": true});
        let applied = hosted.applied.load(Ordering::Acquire);
        let seq = lock(&hosted.frames).last();
        let id = self.ask(Asked::Reattach { child, applied, seq });
        conn.send(&wire::request(id, "process.reattach", Some(&params), TOKEN));
    }

    fn feed(&mut self, conn: &mut Conn) {
        for at in 0..self.feeders.len() {
            while conn.unsent() < MAX_UNSENT {
                let Some(feeder) = self.feeders.get_mut(at) else { return };
                let Some(hosted) = self.battery.children.get(feeder.child) else { return };
                let Some(chunk) = feeder.next(hosted, &mut self.rng) else { break };
                self.payload.resize(chunk.length, 0);
                hosted.streams.stdin.fill(chunk.offset, &mut self.payload);
                let id = self.ask(Asked::Stdin { feeder: at, chunk });
                conn.send(&wire::stdin_request(id, &hosted.id, chunk.offset, &self.payload, TOKEN));
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        match wire::parse(line) {
            Ok(Incoming::Frame(frame)) => {
                let known = self.battery.children.iter().position(|child| child.id == frame.process);
                let Some((at, hosted)) = known.and_then(|at| Some((at, self.battery.children.get(at)?))) else {
                    self.battery.findings.reordered(1, &format!("a frame of an unknown process {}", frame.process));
                    return;
                };
                if let Some(track) = self.tracks.get_mut(at) {
                    track.receive(&frame, hosted, &self.battery.findings);
                }
            }
            Ok(Incoming::Reply { id, result }) => match self.pending.remove(&id) {
                Some(pending) => self.reply(pending.what, result),
                None => self.battery.findings.duplicated(1, &format!("client {}: a second reply to {id}", self.number)),
            },
            Err(error) => {
                let shown: String = String::from_utf8_lossy(line).chars().take(200).collect();
                self.battery.findings.lost(1, &format!("client {}: {error:#} in {shown}", self.number));
            }
        }
    }

    fn reply(&mut self, what: Asked, result: Result<&str, Failure>) {
        match what {
            Asked::Reattach { child, applied, seq } => self.reattached(child, applied, seq, result),
            Asked::Stdin { feeder, chunk } => {
                let reply = result.and_then(|text| {
                    serde_json::from_str::<Applied>(text)
                        .map_err(|error| Failure { code: 0, message: format!("{error} in {text}") })
                });
                let Some(feeder) = self.feeders.get_mut(feeder) else { return };
                let Some(hosted) = self.battery.children.get(feeder.child) else { return };
                feeder.replied(chunk, reply, hosted, &self.battery.findings);
            }
        }
    }

    fn reattached(&self, child: usize, applied: u64, seq: u64, result: Result<&str, Failure>) {
        let Some(hosted) = self.battery.children.get(child) else { return };
        let findings = &self.battery.findings;
        let who = format!("client {}, reattach of {}", self.number, hosted.id);
        let attached: Attached = match result.map(serde_json::from_str) {
            Ok(Ok(attached)) => attached,
            Ok(Err(error)) => return findings.lost(1, &format!("{who}: {error}")),
            Err(failure) => return findings.lost(1, &format!("{who}: {} {}", failure.code, failure.message)),
        };
        if !attached.found {
            return findings.fatal(&format!("{who}: not found"));
        }
        if !attached.running && !hosted.is_quitting() {
            return findings.fatal(&format!("{who}: not running, although nobody told it to end"));
        }
        match attached.identity() {
            Some(identity) if identity == hosted.identity => {}
            other => findings.pid_changed(&format!("{who}: {:?} became {other:?}", hosted.identity)),
        }
        findings.lost(seq.saturating_sub(attached.last_seq), &format!("{who}: lastSeq {} < {seq}", attached.last_seq));
        let forgotten = applied.saturating_sub(attached.stdin_applied);
        findings.lost(forgotten, &format!("{who}: stdinApplied {} < {applied}", attached.stdin_applied));
    }

    fn check_replies(&self) {
        let Some(oldest) = self.pending.values().min_by_key(|pending| pending.asked) else { return };
        if oldest.asked.elapsed() > REPLY_DEADLINE && !self.battery.findings.is_fatal() {
            let what = match &oldest.what {
                Asked::Reattach { child, .. } => format!("reattach of child {child}"),
                Asked::Stdin { feeder, chunk } => format!("stdin {feeder} {chunk:?}"),
            };
            self.battery.findings.fatal(&format!("client {}: no reply to {what} in {REPLY_DEADLINE:?}", self.number));
        }
    }
}
