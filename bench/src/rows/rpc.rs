//! Round trips of `server.ping`, against a blocking server that sends the same bytes.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::Pid;

use super::Bench;
use crate::instance::TOKEN;
use crate::measure::{CpuMeter, Sample, pairs, profile};
use crate::raw::Peer;
use crate::raw::echo::PONG;
use crate::running::Running;
use crate::table::{Row, Target};
use crate::wire;

/// Nothing here waits; a silent peer is a hung one.
const SILENCE: Duration = Duration::from_secs(10);

/// Nothing less can answer: the same bytes in, the same bytes out, one read and one write per batch.
const RAW: &str = "a blocking echo in one thread: same bytes in and out, lines counted but not looked at";

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let running = Running::start(&bench.bin, "rpc")?;
    let peer = Peer::start(running.instance.dir(), "echo", &[])?;
    let (raw, ours) = (peer.connect()?, running.connect()?);

    let count = bench.size(30_000, 5_000);
    let one = pairs(
        bench.pairs,
        || sample(&raw, peer.pid(), 1, count).map(latency),
        || sample(&ours, running.pid(), 1, count).map(latency),
    )?;
    let target = Target::ratio_at_most(one.ratio, 1.35);
    let row = Row::paired("RPC round trip, 1 in flight", "us", one, vec![target]).cpu(" us");
    bench.show(row.against(RAW).profile(profile(running.pid())));

    let count = bench.size(600_000, 100_000);
    let many = pairs(
        bench.pairs,
        || sample(&raw, peer.pid(), 64, count).map(rate),
        || sample(&ours, running.pid(), 64, count).map(rate),
    )?;
    let target = Target::ratio_at_least(many.ratio, 0.6);
    let row = Row::paired("RPC, 64 in flight", "k/s", many, vec![target]).cpu(" us");
    bench.show(row.against(RAW).profile(profile(running.pid())));
    Ok(())
}

struct Trips {
    seconds: f64,
    cpu: f64,
    count: f64,
}

fn latency(trips: Trips) -> Sample {
    Sample { value: trips.seconds / trips.count * 1e6, cpu: Some(trips.cpu / trips.count * 1e6) }
}

fn rate(trips: Trips) -> Sample {
    Sample { value: trips.count / trips.seconds / 1e3, cpu: Some(trips.cpu / trips.count * 1e6) }
}

/// `count` round trips with `depth` of them on their way at any time.
fn sample(mut stream: &UnixStream, pid: Pid, depth: u64, count: u64) -> Result<Trips> {
    stream.set_read_timeout(Some(SILENCE))?;
    let request = wire::request(1, "server.ping", None, TOKEN);
    let mut buffer = vec![0; 64 << 10];
    let meter = CpuMeter::start(pid)?;
    let started = Instant::now();
    let (mut sent, mut bytes) = (0, 0);
    let mut answered = 0;
    while answered < count {
        let now = depth.min(count - answered).saturating_sub(sent - answered).min(count - sent);
        stream.write_all(request.repeat(usize::try_from(now)?).as_bytes())?;
        sent += now;
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            bail!("the server closed the connection after {answered} answers");
        }
        bytes += n;
        answered += buffer.iter().take(n).filter(|byte| **byte == b'\n').count() as u64;
    }
    let seconds = started.elapsed().as_secs_f64();
    if bytes != PONG.len() * usize::try_from(count)? {
        bail!("{count} answers were {bytes} bytes, not {} each", PONG.len());
    }
    Ok(Trips { seconds, cpu: meter.seconds()?, count: count as f64 })
}
