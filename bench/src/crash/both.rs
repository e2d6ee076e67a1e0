//! Keeper and daemon killed at once: the one thing that may lose output. Children write until their pipe is gone and note
//! how much they wrote where the product never looks; then the product must have found them, and must have said of each of
//! them whose output is not whole that some of it is lost.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};
use serde::Deserialize;
use serde_json::json;

use super::victims::keeper_of;
use crate::instance::{Instance, TOKEN};
use crate::rng::Rng;
use crate::wire::{self, Attached};

/// Children of each round.
const CHILDREN: u64 = 3;
/// Bytes of one line: a number and its end.
const LINE: usize = 8;
/// How long a child may take to notice that its pipe is gone, and a killed one to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of the children of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    pub(crate) rounds: u64,
    /// Children of which output is missing.
    pub(crate) lost: u64,
    /// Children of which the product says that output is lost.
    pub(crate) said: u64,
    /// Children of which output is missing and nobody says so, that were not found alive, or that could not be ended.
    pub(crate) untold: u64,
}

impl Toll {
    pub(crate) fn last_line(&self) -> String {
        let Self { rounds, lost, said, untold } = self;
        format!("both={rounds} lost_of={lost} said_of={said} untold={untold}")
    }
}

struct Writer {
    alias: String,
    pid: i32,
    note: PathBuf,
}

/// A process as `ostler --json ps` shows it.
#[derive(Deserialize)]
struct Shown {
    id: String,
    state: String,
    #[serde(default)]
    alias: Option<Alias>,
}

#[derive(Deserialize)]
struct Alias {
    id: String,
}

pub(crate) fn run(instance: &Instance, rounds: u64, mut rng: Rng) -> Result<Toll> {
    let mut toll = Toll { rounds, ..Toll::default() };
    for round in 0..rounds {
        instance.start()?;
        let writers = (0..CHILDREN).map(|number| spawn(instance, round, number)).collect::<Result<Vec<_>>>()?;
        std::thread::sleep(rng.micros(5_000, 80_000));
        kill_both(instance, &writers)?;
        instance.start()?;
        for writer in &writers {
            judge(instance, writer, &mut toll)?;
        }
        instance.shutdown()?;
        for writer in &writers {
            if !gone_in_time(writer.pid) {
                toll.untold += 1;
                println!("WRONG {} (pid {}) outlived the shutdown", writer.alias, writer.pid);
            }
        }
    }
    Ok(toll)
}

fn spawn(instance: &Instance, round: u64, number: u64) -> Result<Writer> {
    let alias = format!("both/{round}-{number}");
    let note = instance.dir().join(format!("both-{round}-{number}"));
    let script = format!(
        "trap '' PIPE HUP; n=0; while printf '%07d\\n' $n 2>/dev/null; do n=$((n+1)); done; echo $n > '{}'; exec sleep 600",
        note.display()
    );
    let params = json!({"id": alias, "command": "sh", "args": ["-c", script], "wantPid": true});
    let mut conn = instance.dial()?;
    let line = wire::request(1, "process.spawn", Some(&params), TOKEN);
    let reply = conn.call(&line, 1, Instant::now() + PATIENCE, |_| ())?;
    let attached: Attached = serde_json::from_str(&reply)?;
    let identity = attached.identity().with_context(|| format!("spawn of {alias} gave no pid: {reply}"))?;
    Ok(Writer { alias, pid: identity.pid, note })
}

/// The daemon is stopped first, so that neither has a moment to replace the other.
fn kill_both(instance: &Instance, writers: &[Writer]) -> Result<()> {
    let daemon = instance.daemon()?;
    kill_process(daemon.pid(), Signal::STOP).context("stop the daemon")?;
    let first = writers.first().context("no children")?;
    let keeper = keeper_of(first.pid)?.with_context(|| format!("{} has no keeper", first.alias))?;
    kill_process(keeper, Signal::KILL).context("kill the keeper")?;
    daemon.kill()
}

fn judge(instance: &Instance, writer: &Writer, toll: &mut Toll) -> Result<()> {
    let written = written(writer)?;
    let all = listed(instance)?;
    let named = |shown: &&Shown| shown.alias.as_ref().is_some_and(|alias| alias.id == writer.alias);
    let shown = all.iter().find(named).with_context(|| format!("{} is not listed", writer.alias))?;
    let logs = instance.command(&["logs", &shown.id]).output()?;
    let received = logs.stdout.len() / LINE;
    let said = String::from_utf8_lossy(&logs.stderr).contains("lost");
    let lost = received < written;
    toll.lost += u64::from(lost);
    toll.said += u64::from(said);
    if (lost && !said) || shown.state != "running" {
        toll.untold += 1;
        println!("WRONG {}: {}, {received} of {written} lines, said {said}", writer.alias, shown.state);
    }
    Ok(())
}

/// Every process that the product lists. It is asked at another socket than it was started with, which may be there a moment
/// later: who comes too early asks again.
fn listed(instance: &Instance) -> Result<Vec<Shown>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = instance.command(&["--json", "ps", "-a"]).output()?;
        if said.status.success() {
            return serde_json::from_slice(&said.stdout).context("what ps says");
        }
        if Instant::now() > deadline {
            bail!("ps: {}", String::from_utf8_lossy(&said.stderr));
        }
    }
}

/// How many lines the child wrote; it says so once it cannot write any more.
fn written(writer: &Writer) -> Result<usize> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let text = std::fs::read_to_string(&writer.note).unwrap_or_default();
        if let Some(count) = text.strip_suffix('\n') {
            return count.parse().context("the note of a child");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    bail!("{} (pid {}) did not notice that its pipe is gone", writer.alias, writer.pid)
}

fn gone_in_time(pid: i32) -> bool {
    let deadline = Instant::now() + PATIENCE;
    // Dead is gone, whether or not somebody has asked how.
    let lives = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while lives() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
