//! Spawn and exit of /bin/true, against a real keeper that is asked directly.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use serde_json::json;

use super::Bench;
use crate::instance::{Instance, TOKEN};
use crate::lines::{Lines, Seen};
use crate::measure::{CpuMeter, Sample, pairs, profile};
use crate::raw::Peer;
use crate::running::Running;
use crate::table::{Row, Target};
use crate::wire;

/// Far beyond what a sample takes.
const SILENCE: Duration = Duration::from_secs(60);

/// Where journals cost no disk: file systems differ a lot in what a new file costs, and this shows how much of it is theirs.
const MEMORY: &str = "/dev/shm";

pub(crate) fn rows(bench: &Bench) -> Result<Vec<Row>> {
    let few = (1, bench.size(400, 100));
    let many = (16, bench.size(1500, 300));
    let mut rows = family(bench, Instance::new(&bench.bin, "spawn")?, "", &[few, many])?;
    if Path::new(MEMORY).is_dir() {
        let instance = Instance::within(Path::new(MEMORY), &bench.bin, "spawn")?;
        rows.extend(family(bench, instance, ", journals in memory", &[many])?);
    }
    Ok(rows)
}

fn family(bench: &Bench, instance: Instance, suffix: &str, windows: &[(u64, u64)]) -> Result<Vec<Row>> {
    let running = Running::of(instance)?;
    let dir = running.instance.dir().join("raw-keeper");
    let peer = Peer::start(running.instance.dir(), "spawn", &["--dir", &dir.display().to_string()])?;
    let mut raw = Raw::connect(&peer)?;
    let mut ours = Ours::connect(&running)?;
    let mut rows = Vec::new();
    for (window, count) in windows {
        let measured = pairs(bench.pairs, || raw.sample(*count, *window), || ours.sample(*count, *window))?;
        let targets = vec![Target::ratio_at_least(measured.ratio, 0.8)];
        rows.push(
            Row::paired(format!("spawn + exit, {window} at a time{suffix}"), "/s", measured, targets)
                .cpu(" ms")
                .against("a bare keeper's fork, exec and wait; CPU is keeper and asker")
                .profile(profile(running.pid())),
        );
    }
    drop(raw);
    peer.finish()?;
    Ok(rows)
}

fn sample(count: u64, started: Instant, meters: &[CpuMeter]) -> Result<Sample> {
    let value = count as f64 / started.elapsed().as_secs_f64();
    let cpu = meters.iter().map(CpuMeter::seconds).sum::<Result<f64>>()?;
    Ok(Sample { value, cpu: Some(cpu / count as f64 * 1e3) })
}

struct Raw {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
    pids: [Pid; 2],
}

impl Raw {
    fn connect(peer: &Peer) -> Result<Self> {
        let stream = peer.connect()?;
        stream.set_read_timeout(Some(SILENCE))?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let keeper = Pid::from_raw(line.trim().parse()?).context("pid of the keeper")?;
        Ok(Self { stream, answers, pids: [peer.pid(), keeper] })
    }

    fn sample(&mut self, count: u64, window: u64) -> Result<Sample> {
        let meters = self.pids.map(CpuMeter::start).into_iter().collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        writeln!(self.stream, "{count} {window}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(line == "done\n", "the bare keeper failed");
        sample(count, started, &meters)
    }
}

struct Ours {
    stream: UnixStream,
    lines: Lines,
    pids: [Pid; 2],
    last_id: u64,
}

impl Ours {
    fn connect(running: &Running) -> Result<Self> {
        let sleeper = running.sleepers("sleep", 1)?;
        let keeper = running.keeper_of(*sleeper.first().context("one child")?)?;
        let stream = running.connect()?;
        let lines = Lines::new(stream.try_clone()?)?;
        Ok(Self { stream, lines, pids: [running.pid(), keeper], last_id: 0 })
    }

    /// A spawn is over when its reply and its exit frame have come.
    fn sample(&mut self, count: u64, window: u64) -> Result<Sample> {
        let meters = self.pids.map(CpuMeter::start).into_iter().collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        let (mut asked, mut replies, mut exits) = (0, 0, 0);
        while exits < count || replies < count {
            while asked < count && asked - exits.min(replies) < window {
                asked += 1;
                self.last_id += 1;
                let params = json!({"id": format!("true{}", self.last_id), "command": "/bin/true"});
                let line = wire::request(self.last_id, "process.spawn", Some(&params), TOKEN);
                self.stream.write_all(line.as_bytes())?;
            }
            match self.lines.next()? {
                Seen::Exit => exits += 1,
                Seen::Reply => {
                    let text = String::from_utf8_lossy(self.lines.text());
                    ensure!(text.contains(r#""success":true"#), "spawn: {text}");
                    replies += 1;
                }
                Seen::Data => {}
            }
        }
        sample(count, started, &meters)
    }
}
