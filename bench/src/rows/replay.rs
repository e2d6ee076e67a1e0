//! Replay of everything a process ever wrote, against reading a file, encoding it and sending it.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::Bench;
use super::stream::rate;
use crate::code::{Alphabet, Code};
use crate::lines::{Lines, Seen};
use crate::measure::{CpuMeter, Sample, pairs, profile};
use crate::raw::Peer;
use crate::running::Running;
use crate::table::{Row, Target};
use crate::wire::Attached;

/// How long a flood may take to reach the journal.
const WRITE_LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let bytes = bench.size(1 << 30, 1 << 28);
    let running = Running::start(&bench.bin, "replay")?;
    running.call("process.spawn", &running.flood("flood", &["--bytes", &bytes.to_string()]))?;
    wait_for_exit(&running)?;

    let file = running.instance.dir().join("raw.data");
    let mut block = vec![0; 1 << 20];
    Code::new(1, Alphabet::Binary).fill(0, &mut block);
    let mut data = File::create(&file)?;
    for _ in 0..bytes >> 20 {
        data.write_all(&block)?;
    }
    let peer = Peer::start(running.instance.dir(), "replay", &["--file", &file.display().to_string()])?;

    let measured = pairs(bench.pairs, || raw(&peer, bytes), || ours(&running, bytes))?;
    let targets = vec![Target::ratio_at_least(measured.ratio, 0.8)];
    bench.show(
        Row::paired(format!("replay of {} MiB", bytes >> 20), "MB/s", measured, targets)
            .cpu(" s/GB")
            .against("read, base64, socket in one loop")
            .profile(profile(running.pid())),
    );
    Ok(())
}

fn wait_for_exit(running: &Running) -> Result<()> {
    let deadline = Instant::now() + WRITE_LIMIT;
    loop {
        // From beyond the end: nothing is replayed.
        let reply = running.call("process.reattach", &json!({"id": "flood", "fromSeq": i64::MAX}))?;
        let attached: Attached = serde_json::from_str(&reply)?;
        if attached.found && !attached.running {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the flood was not over after {WRITE_LIMIT:?}: {reply}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn raw(peer: &Peer, bytes: u64) -> Result<Sample> {
    let stream = peer.connect()?;
    let started = Instant::now();
    let meter = CpuMeter::start(peer.pid())?;
    let mut lines = Lines::new(stream)?;
    lines.until(Seen::Exit)?;
    ensure!(lines.bytes == bytes, "the raw loop sent {} of {bytes} bytes", lines.bytes);
    rate(bytes, started, &meter)
}

fn ours(running: &Running, bytes: u64) -> Result<Sample> {
    let meter = CpuMeter::start(running.pid())?;
    let started = Instant::now();
    let mut lines = running.ask("process.reattach", &json!({"id": "flood", "fromSeq": 0}))?;
    lines.until(Seen::Reply)?;
    ensure!(lines.bytes == bytes, "the replay had {} of {bytes} bytes", lines.bytes);
    rate(bytes, started, &meter)
}
