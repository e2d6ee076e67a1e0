//! Resident memory: of an idle daemon, and of one idle child more. The children are hosted as an ordinary user
//! with a soft limit of 1024 descriptors, because root hides every such limit.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Bench;
use crate::instance::Instance;
use crate::measure::{RowTime, Sample, median, pairs};
use crate::procfs;
use crate::raw::Peer;
use crate::running::Running;
use crate::table::{Row, Target};

/// The login shell has been asked and threads have settled by then.
const SETTLE: Duration = Duration::from_millis(1500);

/// Enough to have every thread at work that a door may take.
const CLIENTS: usize = 16;
const REQUESTS: u64 = 60;
/// A file beyond what an allocator keeps in its heaps unasked, and how often each client reads it.
const LARGE_BYTES: usize = 3 << 20;
const LARGE_READS: u64 = 20;
/// Idle threads end after ten seconds, and memory is looked at every five.
const BACK_WITHIN: Duration = Duration::from_secs(16);

const MB: f64 = 1e6;
const KB: f64 = 1e3;

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    bench.show(idle(bench)?);
    bench.show(after_a_burst(bench, "a burst", 6.0, listings)?);
    bench.show(after_a_burst(bench, "streams and large reads", 6.0, large)?);
    children(bench)
}

/// What stays of a burst of requests that each took a thread and some memory.
fn after_a_burst(bench: &Bench, what: &str, most: f64, burst: fn(usize, UnixStream) -> Result<()>) -> Result<Row> {
    let mut left = Vec::new();
    let time = RowTime::begin();
    for _ in (0..bench.pairs).take_while(|taken| time.allows(*taken)) {
        let running = Running::start(&bench.bin, "burst")?;
        std::thread::sleep(SETTLE);
        let idle = procfs::rss_anon(running.pid())? as f64;
        let clients = (0..CLIENTS).map(|_| running.connect()).collect::<Result<Vec<_>>>()?;
        let clients = clients.into_iter().enumerate();
        let work: Vec<_> = clients.map(|(n, client)| std::thread::spawn(move || burst(n, client))).collect();
        for client in work {
            client.join().map_err(|_| anyhow::anyhow!("a client of the burst died"))??;
        }
        std::thread::sleep(BACK_WITHIN);
        left.push((procfs::rss_anon(running.pid())? as f64 - idle) / MB);
    }
    let left = median(left).unwrap_or(f64::NAN);
    let target = Target::at_most(left, most, "MB");
    Ok(Row::alone(format!("daemon's RssAnon above idle, 16 s after {what}"), "MB", left, target))
}

/// Asks for many listings at once, and reads them all.
fn listings(_: usize, client: UnixStream) -> Result<()> {
    let params = serde_json::json!({"path": "/usr/bin"});
    asked(client, REQUESTS, "files.list", &params)
}

/// Every second client follows output, the others read a large file again and again.
fn large(number: usize, client: UnixStream) -> Result<()> {
    if number.is_multiple_of(2) {
        let file = std::env::temp_dir().join(format!("ostler-bench-{}-{number}", std::process::id()));
        std::fs::write(&file, vec![b'x'; LARGE_BYTES])?;
        let read = asked(client, LARGE_READS, "files.read", &serde_json::json!({"path": file}));
        std::fs::remove_file(&file)?;
        return read;
    }
    let script = format!("yes | head -c {}", 8 * LARGE_BYTES);
    let params = serde_json::json!({"id": format!("large-{number}"), "command": "sh", "args": ["-c", script]});
    let line = crate::wire::request(1, "process.spawn", Some(&params), crate::instance::TOKEN);
    (&client).write_all(line.as_bytes())?;
    let ended = BufReader::new(client).lines().map_while(Result::ok).any(|line| line.contains("\"exit\""));
    anyhow::ensure!(ended, "a stream did not end");
    Ok(())
}

/// Asks so often at once, and reads every answer.
fn asked(client: UnixStream, requests: u64, method: &str, params: &serde_json::Value) -> Result<()> {
    let line = |id| crate::wire::request(id, method, Some(params), crate::instance::TOKEN);
    let lines: String = (0..requests).map(line).collect();
    let mut writer = client.try_clone()?;
    let asking = std::thread::spawn(move || writer.write_all(lines.as_bytes()));
    let answered = BufReader::new(client).lines().take(usize::try_from(requests)?).filter(Result::is_ok).count();
    anyhow::ensure!(answered as u64 == requests, "{answered} of {requests} answers to {method} came");
    asking.join().map_err(|_| anyhow::anyhow!("the asking thread died"))??;
    Ok(())
}

fn idle(bench: &Bench) -> Result<Row> {
    let measured = pairs(
        bench.pairs,
        || {
            let instance = Instance::new(&bench.bin, "raw-idle")?;
            let peer = Peer::start(instance.dir(), "echo", &[])?;
            peer.connect()?;
            std::thread::sleep(SETTLE);
            Ok(Sample::of(procfs::rss(peer.pid())? as f64 / MB))
        },
        || {
            let running = Running::start(&bench.bin, "idle")?;
            std::thread::sleep(SETTLE);
            Ok(Sample::of(procfs::rss(running.pid())? as f64 / MB))
        },
    )?;
    let target = Target::at_most(measured.ours, 10.0, "MB");
    Ok(Row::paired("idle daemon, RSS", "MB", measured, vec![target]).against("an idle program that listens"))
}

fn children(bench: &Bench) -> Result<()> {
    let counts = [100_usize, 1000];
    let mut daemon = [Vec::new(), Vec::new()];
    let mut keeper = [Vec::new(), Vec::new()];
    let time = RowTime::begin();
    for _ in (0..bench.pairs).take_while(|taken| time.allows(*taken)) {
        let running = Running::unprivileged(&bench.bin, "children")?;
        std::thread::sleep(SETTLE);
        let empty = procfs::rss(running.pid())? as f64;
        let mut hosted = 0;
        for ((count, daemon), keeper) in counts.iter().zip(&mut daemon).zip(&mut keeper) {
            let pids = running.sleepers(&format!("to{count}-"), count - hosted)?;
            hosted = *count;
            std::thread::sleep(SETTLE);
            daemon.push((procfs::rss(running.pid())? as f64 - empty) / *count as f64 / KB);
            let parent = running.keeper_of(*pids.first().context("children")?)?;
            keeper.push(procfs::rss_anon(parent)? as f64 / MB);
        }
    }
    for (count, values) in counts.iter().zip(daemon) {
        let each = median(values).unwrap_or(f64::NAN);
        let target = Target::at_most(each, 20.0, "kB");
        bench.show(Row::alone(
            format!("daemon's RSS per idle child, {count} children, ordinary user"),
            "kB",
            each,
            target,
        ));
    }
    for (count, values) in counts.iter().zip(keeper) {
        let anon = median(values).unwrap_or(f64::NAN);
        let target = Target::at_most(anon, 1.0 + 8e-3 * *count as f64, "MB");
        bench.show(Row::alone(format!("keeper's RssAnon, {count} children, ordinary user"), "MB", anon, target));
    }
    Ok(())
}
