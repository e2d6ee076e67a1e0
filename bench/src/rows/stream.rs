//! A child's stdout to a client that reads as fast as it can, against the bare loop that does the same work:
//! splice, index record, read, base64, socket. Cached: 1 GiB stays in memory. Sustained: 6 GiB meets the disk.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::Bench;
use crate::instance::Instance;
use crate::lines::{Lines, Seen};
use crate::measure::{CpuMeter, Pairs, Sample, all_pairs, pairs, profile};
use crate::raw::Peer;
use crate::running::Running;
use crate::table::{Row, Target};

const GIB: u64 = 1 << 30;

/// What it is called, how many bytes, and in a quick look.
const SIZES: [(&str, u64, u64); 2] =
    [("stdout streaming, cached", GIB, GIB / 4), ("stdout streaming, sustained", 6 * GIB, GIB)];

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    for (name, full, quick) in SIZES {
        let (bytes, mut spent) = (bench.size(full, quick), String::new());
        let measured = pairs(bench.pairs, || raw(bench, bytes), || ours(&bench.bin, bytes, &mut spent))?;
        let targets = vec![Target::ratio_at_least(measured.ratio, 0.8), Target::cpu_at_most(measured.cpu_ratio, 1.3)];
        bench.show(
            row(name, bytes, measured, targets, spent).against("splice, index, read, base64, socket in one loop"),
        );
    }
    Ok(())
}

/// The same against another program.
pub(super) fn beside(bench: &Bench) -> Result<()> {
    for (name, full, quick) in SIZES {
        let (bytes, other) = (bench.size(full, quick), bench.other()?);
        let (mut spent, mut unused) = (String::new(), String::new());
        let measured =
            all_pairs(bench.pairs, || ours(other, bytes, &mut unused), || ours(&bench.bin, bytes, &mut spent))?;
        bench.show(row(name, bytes, measured, super::no_slower(&measured), spent));
    }
    Ok(())
}

fn row(name: &str, bytes: u64, measured: Pairs, targets: Vec<Target>, spent: String) -> Row {
    let name = format!("{name} {} MiB", bytes >> 20);
    Row::paired(name, "MB/s", measured, targets).cpu(" s/GB").profile(spent)
}

pub(super) fn rate(bytes: u64, started: Instant, meter: &CpuMeter) -> Result<Sample> {
    let seconds = started.elapsed().as_secs_f64();
    let gigabytes = bytes as f64 / 1e9;
    Ok(Sample { value: gigabytes * 1e3 / seconds, cpu: Some(meter.seconds()? / gigabytes) })
}

/// A new process and new files each time, as the product has them.
fn raw(bench: &Bench, bytes: u64) -> Result<Sample> {
    let instance = Instance::new(&bench.bin, "raw-stream")?;
    let dir = instance.dir().display().to_string();
    let peer = Peer::start(instance.dir(), "stream", &["--dir", &dir, "--bytes", &bytes.to_string()])?;
    let stream = peer.connect()?;
    let started = Instant::now();
    let meter = CpuMeter::start(peer.pid())?;
    let mut lines = Lines::new(stream)?;
    lines.until(Seen::Exit)?;
    ensure!(lines.bytes == bytes, "the raw loop sent {} of {bytes} bytes", lines.bytes);
    rate(bytes, started, &meter)
}

fn ours(bin: &Path, bytes: u64, spent: &mut String) -> Result<Sample> {
    let running = Running::start(bin, "stream")?;
    let params = running.flood("flood", &["--bytes", &bytes.to_string()]);
    let meter = CpuMeter::start(running.pid())?;
    let started = Instant::now();
    let mut lines = running.ask("process.spawn", &params)?;
    lines.until(Seen::Exit)?;
    ensure!(lines.bytes == bytes, "{} of {bytes} bytes came", lines.bytes);
    *spent = profile(running.pid());
    rate(bytes, started, &meter)
}
