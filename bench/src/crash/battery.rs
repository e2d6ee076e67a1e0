//! The battery as a whole: children, clients, kills, and the comparison at the end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::findings::Findings;
use super::hosted::Hosted;
use super::killer::Killer;
use super::replay;
use super::terminal::Terminal;
use super::terminal_client::{self, TerminalClient};
use super::track::Track;
use super::victims::Victims;
use crate::child::Kind;
use crate::instance::Instance;
use crate::rng::Rng;

/// Clients that follow every child.
const CLIENTS: usize = 4;

/// The place of the terminal's client among those who report progress.
pub(crate) const TERMINAL_CLIENT: usize = CLIENTS;

/// Without a single new byte or exit for this long, the end is hung.
const STALL: Duration = Duration::from_secs(30);

const KINDS: [Kind; 7] = [Kind::Text, Kind::Binary, Kind::Bytes, Kind::Burst, Kind::Both, Kind::Echo, Kind::SlowEcho];

pub(crate) struct Battery {
    pub(crate) socket: PathBuf,
    /// Those whom every claustrum client follows.
    pub(crate) children: Vec<Hosted>,
    /// The one on a terminal.
    pub(crate) terminal: Option<Terminal>,
    pub(crate) findings: Findings,
    pub(crate) victims: Victims,
}

/// How far the clients are; written by them, read by the battery.
#[derive(Default)]
pub(crate) struct Progress {
    over: AtomicBool,
    bytes: AtomicU64,
    exits: [AtomicUsize; CLIENTS + 1],
}

impl Progress {
    pub(crate) fn over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn exits(&self, client: usize, seen: usize) {
        if let Some(count) = self.exits.get(client) {
            count.store(seen, Ordering::Relaxed);
        }
    }

    fn all_exits(&self) -> usize {
        self.exits.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Battery {
    pub(crate) fn new(instance: &Instance, victims: Victims) -> Self {
        let (socket, findings) = (instance.socket(), Findings::default());
        Self { socket, children: Vec::new(), terminal: None, findings, victims }
    }

    /// Starts the daemon and its children.
    pub(crate) fn spawn_children(&mut self, instance: &Instance, seed: u64) -> Result<()> {
        instance.start()?;
        let mut conn = instance.dial()?;
        for (number, kind) in (0..).zip(KINDS) {
            let child = Hosted::spawn(instance, &mut conn, kind, number, seed)
                .with_context(|| format!("spawn the child {}", kind.name()))?;
            self.children.push(child);
        }
        self.terminal = Terminal::start(instance, KINDS.len() as u8, seed).context("host the terminal child")?;
        if self.terminal.is_none() {
            println!("the terminal child is off: this build of ostler has no `run`");
        }
        Ok(())
    }

    /// All children, the one on a terminal last.
    pub(crate) fn everyone(&self) -> impl Iterator<Item = &Hosted> {
        self.children.iter().chain(self.terminal.as_ref().map(|terminal| &terminal.hosted))
    }

    /// Kills, waits for the end, compares. The number of bytes that children wrote and read.
    pub(crate) fn run(&mut self, instance: &Instance, kills: u64, seed: u64) -> Result<u64> {
        let rng = Rng::new(seed);
        let progress = Progress::default();
        let (outcome, tracks) = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let client = Client::new(number, self, rng.fork(number as u64));
                    let progress = &progress;
                    scope.spawn(move || client.follow(progress))
                })
                .collect();
            let terminal = self.terminal.as_ref().map(|terminal| {
                let client = TerminalClient::new(terminal, self, rng.fork(TERMINAL_CLIENT as u64));
                let progress = &progress;
                scope.spawn(move || client.follow(progress))
            });
            let outcome = self.kill_and_settle(instance, kills, rng.fork(1000), &progress);
            progress.over.store(true, Ordering::Release);
            let mut tracks = Vec::new();
            for client in clients {
                tracks.extend(client.join().ok().into_iter().flatten());
            }
            tracks.extend(terminal.and_then(|client| client.join().ok()));
            (outcome, tracks)
        });
        outcome?;
        if tracks.len() != self.wanted_exits() {
            self.findings.fatal("a client of the battery itself failed");
        }
        if self.findings.is_fatal() {
            for track in &tracks {
                println!("  {}", track.describe());
            }
            return Ok(0);
        }
        replay::check(instance, self)?;
        if let Some(terminal) = &self.terminal {
            terminal_client::replay(terminal, self)?;
        }
        self.compare(tracks)
    }

    /// Every client sees every exit once.
    fn wanted_exits(&self) -> usize {
        CLIENTS * self.children.len() + usize::from(self.terminal.is_some())
    }

    fn kill_and_settle(&self, instance: &Instance, kills: u64, rng: Rng, progress: &Progress) -> Result<()> {
        Killer::new(instance, self, progress, rng).kill_all(kills)?;
        if self.findings.is_fatal() {
            return Ok(());
        }
        instance.start()?;
        for child in self.everyone() {
            child.quit()?;
        }
        let wanted = self.wanted_exits();
        let (mut seen, mut since) = ((0, 0), Instant::now());
        while progress.all_exits() < wanted && !self.findings.is_fatal() {
            let now = (progress.total(), progress.all_exits());
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if since.elapsed() > STALL {
                self.findings.fatal(&format!(
                    "clients saw {} of {wanted} exits and nothing new for {STALL:?} after the last kill",
                    progress.all_exits()
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn compare(&self, tracks: Vec<Track>) -> Result<u64> {
        let reports =
            self.everyone().map(|child| Ok((child.id.clone(), child.report()?))).collect::<Result<Vec<_>>>()?;
        let mut bytes = 0;
        for (child, (_, report)) in self.everyone().zip(&reports) {
            bytes += report.stdout + report.stderr + report.stdin;
            self.findings.wrong(report.stdin_tally, &format!("{}, stdin as the child read it", child.id));
            println!(
                "  {:<20} stdout {:>11}  stderr {:>10}  stdin {:>10}  frames {:>7}",
                child.id,
                report.stdout,
                report.stderr,
                report.stdin,
                super::findings::lock(&child.frames).last()
            );
        }
        for track in tracks {
            if let Some((_, report)) = reports.iter().find(|(id, _)| *id == track.child) {
                track.finish(report, &self.findings);
            }
        }
        Ok(bytes)
    }

    /// Leaves no process behind, whatever happened before.
    pub(crate) fn clean_up(&self, instance: &Instance) {
        let stopped = instance.shutdown().or_else(|_| {
            instance.start()?;
            instance.shutdown()
        });
        if let Err(error) = stopped {
            println!("the daemon could not be stopped: {error:#}");
        }
        for child in self.everyone() {
            let pid = child.identity.pid;
            let ours = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == instance.tool());
            if let (true, Some(pid)) = (ours, Pid::from_raw(pid)) {
                // It may have ended in this very moment.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
