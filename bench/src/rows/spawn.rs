//! Spawn and exit of /bin/true through the door, journal on, against the least that starting a program costs here: a C loop of
//! posix_spawn with three pipes, and wait. It is compiled when the row is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use serde_json::json;

use super::Bench;
use crate::instance::TOKEN;
use crate::lines::{Lines, Seen};
use crate::measure::{CpuMeter, Pairs, Sample, all_pairs, pairs, profile};
use crate::running::Running;
use crate::table::{Row, Target};
use crate::wire;

/// The limit: one call instead of a protocol, no journal, nobody else to be told.
const LIMIT: &str = include_str!("../raw/spawn.c");

/// How many at a time, how many in all, and in a quick look.
const SIZES: [(u64, u64, u64); 2] = [(1, 400, 100), (16, 1500, 300)];

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let running = Running::start(&bench.bin, "spawn")?;
    let mut raw = Raw::start(running.instance.dir())?;
    let mut ours = Ours::connect(&running)?;
    for ((window, full, quick), target) in SIZES.into_iter().zip([0.7, 0.85]) {
        let count = bench.size(full, quick);
        let measured = pairs(bench.pairs, || raw.sample(count, window), || ours.sample(count, window))?;
        let targets = vec![Target::ratio_at_least(measured.ratio, target)];
        let against = "a C loop of posix_spawn with three pipes, and wait; CPU is keeper and daemon, or that loop";
        bench.show(row(window, measured, targets, &running).against(against));
    }
    Ok(())
}

/// CPU is counted in hundredths of a second: more of them, where two figures are nearly the same.
const TO_COMPARE: u64 = 5;

/// The same against another program.
pub(super) fn beside(bench: &Bench) -> Result<()> {
    let (running, other) = (Running::start(&bench.bin, "spawn")?, Running::start(bench.other()?, "beside")?);
    let (mut ours, mut theirs) = (Ours::connect(&running)?, Ours::connect(&other)?);
    for (window, full, quick) in SIZES {
        let count = bench.size(full, quick) * TO_COMPARE;
        let measured = all_pairs(bench.pairs, || theirs.sample(count, window), || ours.sample(count, window))?;
        bench.show(row(window, measured, super::no_slower(&measured), &running));
    }
    Ok(())
}

fn row(window: u64, measured: Pairs, targets: Vec<Target>, running: &Running) -> Row {
    let name = format!("spawn + exit, {window} at a time");
    Row::paired(name, "/s", measured, targets).cpu(" ms").profile(profile(running.pid()))
}

fn sample(count: u64, started: Instant, meters: &[CpuMeter]) -> Result<Sample> {
    let value = count as f64 / started.elapsed().as_secs_f64();
    let cpu = meters.iter().map(CpuMeter::seconds).sum::<Result<f64>>()?;
    Ok(Sample { value, cpu: Some(cpu / count as f64 * 1e3) })
}

/// The C loop while it runs; ended when dropped.
struct Raw {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Raw {
    fn start(dir: &Path) -> Result<Self> {
        let (source, program) = (dir.join("spawn.c"), dir.join("raw-spawn"));
        std::fs::write(&source, LIMIT)?;
        let compiled = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(&source).status();
        ensure!(compiled.context("cc, which compiles the raw limit")?.success(), "cc failed");
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().context("stdout")?);
        Ok(Self { child, answers })
    }

    fn sample(&mut self, count: u64, window: u64) -> Result<Sample> {
        let meters = [CpuMeter::start(Pid::from_child(&self.child))?];
        let started = Instant::now();
        writeln!(self.child.stdin.as_mut().context("stdin")?, "{count} {window}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(line == "done\n", "the loop failed");
        sample(count, started, &meters)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Ending twice is no error worth a word.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
