//! The feed: how fast changes are taken and told to one reader, and how long one change takes to everybody who follows.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ostler_api::client::Client;
use ostler_api::{SessionChangeParams, methods};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

use super::Bench;
use crate::approvals::{Daemon, native};
use crate::conn::timespec;
use crate::instance::Instance;
use crate::measure::{Sample, median, pairs};
use crate::table::{Row, Target};

/// Cursors on one connection: as many as a client with many windows has.
const ON_ONE: usize = 10;
/// Between two changes that are timed: what follows another at once is collected for some milliseconds.
const APART: Duration = Duration::from_millis(10);
/// Nothing here waits; a silent peer is a hung one.
const SILENCE: Duration = Duration::from_secs(20);
const RAW: &str = "one thread that writes the same bytes to as many socket pairs, read in the same way";
const TOLD: &[u8] = b"\"feed.changes\"";

pub(crate) fn rows(bench: &Bench) -> Result<()> {
    let instance = Instance::new(&bench.bin, "feed")?;
    let mut daemon = Daemon::new(&instance)?;
    daemon.start()?;
    let mut client = Client::connect(&native(instance.dir()))?;
    client.answer_within(Some(SILENCE))?;
    let session = json!({ "agent": "echo", "workspace": instance.dir() });
    let id = client.call::<methods::SessionCreate>(&serde_json::from_value(session)?)?.id;
    let mut number = 0;
    let mut change = || {
        number += 1;
        let change = SessionChangeParams {
            id: id.clone(),
            name: Some(format!("n{number}")),
            autonomy: None,
            raw_mode: None,
            model: None,
            key: None,
        };
        client.call::<methods::SessionChange>(&change).map(drop)
    };

    let count = bench.size(2_000, 300);
    let mut one = Readers::follow(&instance, 1)?;
    let started = Instant::now();
    for _ in 0..count {
        change()?;
    }
    one.until_told(usize::try_from(count)?)?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    let target = Target { text: ">= 500 /s".to_owned(), met: rate >= 500.0 };
    bench.show(Row::alone("changes made one by one, appended and told to 1 cursor", "/s", rate, target));
    drop(one);

    for (cursors, most) in [(1, 5.0), (100, 20.0), (1000, 100.0)] {
        let mut readers = Readers::follow(&instance, cursors)?;
        change()?;
        let bytes = readers.until_told(cursors)?;
        let mut raw = Raw::new(readers.streams.len(), bytes / readers.streams.len())?;
        let rounds = bench.size(20, 5);
        let measured = pairs(
            bench.pairs,
            || median_of(rounds, || raw.round()),
            || {
                median_of(rounds, || {
                    change()?;
                    readers.until_told(cursors).map(drop)
                })
            },
        )?;
        let targets = vec![Target::at_most(measured.ours, most, "ms")];
        let name = format!("a change made, appended and told to {cursors} cursors");
        bench.show(Row::paired(name, "ms", measured, targets).against(RAW));
    }
    daemon.stop()
}

fn median_of(rounds: u64, mut round: impl FnMut() -> Result<()>) -> Result<Sample> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        std::thread::sleep(APART);
        let started = Instant::now();
        round()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Sample::of(median(times).unwrap_or(f64::NAN)))
}

/// Everybody who follows, on as many connections as they need.
struct Readers {
    streams: Vec<UnixStream>,
    /// What came of a line that is not whole yet, for each.
    held: Vec<Vec<u8>>,
}

impl Readers {
    fn follow(instance: &Instance, cursors: usize) -> Result<Self> {
        let mut streams = Vec::new();
        for first in (0..cursors).step_by(ON_ONE) {
            let mut stream = UnixStream::connect(native(instance.dir()))?;
            stream.set_read_timeout(Some(SILENCE))?;
            let many = ON_ONE.min(cursors - first);
            for id in 0..many {
                let follow = json!({"jsonrpc": "2.0", "id": id, "method": "feed.follow", "params": {"kinds": ["session.changed"]}});
                writeln!(stream, "{follow}")?;
            }
            let (mut said, mut buffer) = (Vec::<u8>::new(), [0; 4096]);
            while said.iter().filter(|byte| **byte == b'\n').count() < many {
                let n = stream.read(&mut buffer)?;
                said.extend(buffer.get(..n).filter(|piece| !piece.is_empty()).context("closed")?);
            }
            stream.set_nonblocking(true)?;
            streams.push(stream);
        }
        let held = vec![Vec::new(); streams.len()];
        Ok(Self { streams, held })
    }

    /// Reads until so many changes were told; how many bytes that were.
    fn until_told(&mut self, wanted: usize) -> Result<usize> {
        let (mut told, mut bytes) = (0, 0);
        while told < wanted {
            for at in ready(&self.streams)? {
                let (Some(stream), Some(held)) = (self.streams.get_mut(at), self.held.get_mut(at)) else { continue };
                bytes += take(stream, held)?;
                while let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = held.drain(..=end).collect();
                    // A notification may tell several changes at once.
                    if line.windows(TOLD.len()).any(|part| part == TOLD) {
                        told += line.windows(10).filter(|part| **part == *b"\"position\"").count();
                    }
                }
            }
        }
        Ok(bytes)
    }
}

/// The same without a feed.
struct Raw {
    ours: Vec<UnixStream>,
    theirs: Vec<UnixStream>,
    line: Vec<u8>,
}

impl Raw {
    fn new(streams: usize, bytes: usize) -> Result<Self> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..streams {
            let (left, right) = UnixStream::pair()?;
            left.set_nonblocking(true)?;
            ours.push(left);
            theirs.push(right);
        }
        Ok(Self { ours, theirs, line: vec![b'x'; bytes] })
    }

    fn round(&mut self) -> Result<()> {
        let Self { ours, theirs, line } = self;
        let wanted = ours.len() * line.len();
        std::thread::scope(|scope| {
            scope.spawn(|| theirs.iter_mut().all(|stream| stream.write_all(line).is_ok()));
            let (mut bytes, mut held) = (0, Vec::new());
            while bytes < wanted {
                for at in ready(ours)? {
                    let Some(stream) = ours.get_mut(at) else { continue };
                    bytes += take(stream, &mut held)?;
                    held.clear();
                }
            }
            Ok(())
        })
    }
}

/// Those with something to read.
fn ready(streams: &[UnixStream]) -> Result<Vec<usize>> {
    let mut fds: Vec<PollFd<'_>> = streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    if poll(&mut fds, Some(&timespec(SILENCE)))? == 0 {
        bail!("nothing more is told");
    }
    Ok(fds.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(at, _)| at).collect())
}

fn take(stream: &mut UnixStream, held: &mut Vec<u8>) -> Result<usize> {
    let mut buffer = [0; 64 << 10];
    match stream.read(&mut buffer) {
        Ok(0) => bail!("the daemon closed a connection"),
        Ok(n) => {
            held.extend(buffer.get(..n).unwrap_or_default());
            Ok(n)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}
