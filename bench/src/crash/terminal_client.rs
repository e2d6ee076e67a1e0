//! The client of the terminal child: attach from the next frame, feed stdin with offsets, come back after every kill.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::battery::{Battery, Progress, TERMINAL_CLIENT};
use super::feeder::{Chunk, Feeder, PAUSE};
use super::findings::lock;
use super::terminal::{Incoming, Terminal, identity, parse, request};
use super::track::Track;
use crate::child::Kind;
use crate::conn::Conn;
use crate::rng::Rng;
use crate::wire::{Applied, Failure};

/// A reply that takes longer than this while the daemon lives never comes.
const REPLY_DEADLINE: Duration = Duration::from_secs(30);

/// A whole replay on a loaded machine.
const REPLAY_DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct TerminalClient<'a> {
    terminal: &'a Terminal,
    battery: &'a Battery,
    track: Track,
    feeder: Feeder,
    rng: Rng,
    next_id: u64,
    /// Requests under way; nothing for an attach.
    pending: HashMap<u64, (Instant, Option<Chunk>)>,
    payload: Vec<u8>,
}

impl<'a> TerminalClient<'a> {
    pub(crate) fn new(terminal: &'a Terminal, battery: &'a Battery, rng: Rng) -> Self {
        Self {
            terminal,
            battery,
            track: Track::new("terminal client", &terminal.hosted),
            feeder: Feeder::new(0, Kind::Terminal),
            rng,
            next_id: 1,
            pending: HashMap::new(),
            payload: Vec::new(),
        }
    }

    pub(crate) fn follow(mut self, progress: &Progress) -> Track {
        while !progress.over() {
            match Conn::dial(&self.terminal.socket) {
                Ok(conn) => self.session(conn, progress),
                Err(_) => std::thread::sleep(self.rng.micros(200, 1_500)),
            }
        }
        self.track
    }

    fn session(&mut self, mut conn: Conn, progress: &Progress) {
        self.pending.clear();
        self.feeder.reconnected(&mut self.rng);
        // After the exit there is nothing to come; attaching there must not tell it a second time.
        if !self.track.has_exit() {
            let params = json!({"id": self.terminal.hosted.id, "from": self.track.last_seq + 1});
            let id = self.ask(None);
            conn.send(&request(id, "process.attach", &params));
        }
        while !progress.over() {
            let before = self.track.bytes;
            if conn.turn(PAUSE, |line| self.line(line)).is_err() {
                return;
            }
            progress.received(self.track.bytes - before);
            progress.exits(TERMINAL_CLIENT, usize::from(self.track.has_exit()));
            self.feed(&mut conn);
            self.check_replies();
        }
    }

    fn ask(&mut self, chunk: Option<Chunk>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, (Instant::now(), chunk));
        id
    }

    fn feed(&mut self, conn: &mut Conn) {
        // Before its first byte the child has not made its terminal raw.
        if self.track.last_seq == 0 || self.track.has_exit() {
            return;
        }
        while let Some(chunk) = self.feeder.next(&self.terminal.hosted, &mut self.rng) {
            self.payload.resize(chunk.length, 0);
            self.terminal.hosted.streams.stdin.fill(chunk.offset, &mut self.payload);
            let data = STANDARD.encode(&self.payload);
            let params = json!({"id": self.terminal.hosted.id, "data": data, "offset": chunk.offset});
            let id = self.ask(Some(chunk));
            conn.send(&request(id, "process.stdin", &params));
        }
    }

    fn line(&mut self, line: &[u8]) {
        let findings = &self.battery.findings;
        match parse(line) {
            Ok(Incoming::Frame(frame)) => self.track.receive(&frame, &self.terminal.hosted, findings),
            Ok(Incoming::Reply { id, result }) => match self.pending.remove(&id) {
                Some((_, Some(chunk))) => {
                    let reply = result.and_then(|text| {
                        serde_json::from_str::<Applied>(text)
                            .map_err(|error| Failure { code: 0, message: format!("{error} in {text}") })
                    });
                    self.feeder.replied(chunk, reply, &self.terminal.hosted, findings);
                }
                Some((_, None)) => self.attached(result),
                None => findings.duplicated(1, &format!("terminal client: a second reply to {id}")),
            },
            Err(error) => {
                let shown: String = String::from_utf8_lossy(line).chars().take(200).collect();
                findings.lost(1, &format!("terminal client: {error:#} in {shown}"));
            }
        }
    }

    fn attached(&self, result: Result<&str, Failure>) {
        let findings = &self.battery.findings;
        match result.map(identity) {
            Ok(Ok(found)) if found == self.terminal.hosted.identity => {}
            Ok(found) => {
                findings.pid_changed(&format!("terminal: {:?} became {found:?}", self.terminal.hosted.identity));
            }
            Err(failure) => findings.fatal(&format!("terminal: attach: {} {}", failure.code, failure.message)),
        }
    }

    fn check_replies(&self) {
        let oldest = self.pending.values().map(|(asked, _)| asked).min();
        if oldest.is_some_and(|asked| asked.elapsed() > REPLY_DEADLINE) && !self.battery.findings.is_fatal() {
            self.battery.findings.fatal(&format!("terminal client: no reply in {REPLY_DEADLINE:?}"));
        }
    }
}

/// Everything again from frame 1 on a fresh connection: must be what was seen live.
pub(crate) fn replay(terminal: &Terminal, battery: &Battery) -> Result<()> {
    let hosted = &terminal.hosted;
    let live = lock(&hosted.frames).last();
    let mut track = Track::new("replay from 0", hosted);
    let mut conn = Conn::dial(&terminal.socket).context("connect to the native door")?;
    conn.send(&request(1, "process.attach", &json!({"id": hosted.id, "from": 1})));
    let deadline = Instant::now() + REPLAY_DEADLINE;
    while !track.has_exit() {
        if Instant::now() > deadline {
            bail!("replay of the terminal: {}", track.describe());
        }
        conn.turn(Duration::from_millis(100), |line| {
            if let Ok(Incoming::Frame(frame)) = parse(line) {
                track.receive(&frame, hosted, &battery.findings);
            }
        })?;
    }
    let apart = live.abs_diff(track.last_seq);
    battery.findings.lost(apart, &format!("replay of the terminal: {live} frames live, {} now", track.last_seq));
    track.finish(&hosted.report()?, &battery.findings);
    Ok(())
}
