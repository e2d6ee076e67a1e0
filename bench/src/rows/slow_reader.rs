//! A client that never reads must cost the daemon nothing: its memory is compared before and after gigabytes.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Bench;
use crate::instance::TOKEN;
use crate::measure::profile;
use crate::procfs;
use crate::running::Running;
use crate::table::{Row, Target};
use crate::wire;

const GIB: u64 = 1 << 30;
const MIB: f64 = 1024.0 * 1024.0;

/// The slope is told for so many further bytes.
const PER: u64 = 4 * GIB;

/// How long a flood may take to be written.
const WRITE_LIMIT: Duration = Duration::from_secs(300);

/// Buffers that are given back soon after a burst are not a slope.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let (first, further) = (bench.size(GIB, GIB / 4), bench.size(PER, GIB));
    let running = Running::start(&bench.bin, "slow-reader")?;
    let marker = running.instance.dir().join("first-part-written");
    let marker_text = marker.display().to_string();
    let (bytes, pause) = ((first + further).to_string(), first.to_string());
    let arguments = ["--bytes", &bytes, "--pause-at", &pause, "--marker", &marker_text];
    let mut stream = running.connect()?;
    let line = wire::request(1, "process.spawn", Some(&running.flood("flood", &arguments)), TOKEN);
    stream.write_all(line.as_bytes())?;

    // The child itself says how far it is: asking the daemon would cost it memory too.
    wait(&marker)?;
    let before = procfs::rss(running.pid())? as f64;
    std::fs::remove_file(&marker)?;
    wait(&marker)?;
    let after = procfs::rss(running.pid())? as f64;

    let slope = (after - before) / MIB * (PER as f64 / further as f64);
    let name = format!("RSS slope, client that never reads, {} GiB more", further / GIB);
    let target = Target::at_most(slope, 1.0, "MiB per 4 GiB");
    bench.show(Row::alone(name, "MiB", slope, target).profile(profile(running.pid())));
    Ok(())
}

fn wait(marker: &Path) -> Result<()> {
    let deadline = Instant::now() + WRITE_LIMIT;
    while !marker.exists() {
        if Instant::now() > deadline {
            bail!("the flood stands still although nobody needs to read it: {WRITE_LIMIT:?} passed");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(SETTLE);
    Ok(())
}
