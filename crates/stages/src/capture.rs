//! Carries what the stages write into the report, as it comes, until they have ended. One loop, one buffer: the memory
//! it takes does not depend on what they write.

use std::io::{PipeReader, Read};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};
use sha2::{Digest, Sha256};

use crate::CAPTURE_MAX;
use crate::child::{Child, STOPPED_TICK, timespec};
use crate::failure::{Failure, Stop};
use crate::frame::{DATA_MAX, Kind};
use crate::launch::Running;
use crate::outcome::Captured;
use crate::sink::Sink;

/// A child in the background that holds a pipe open may still be about to write; nobody waits for it longer.
const GRACE: Duration = Duration::from_millis(250);

/// As much of a stderr as is needed to recognise a refusal of sudo, warnings about the host's name included.
const START_MAX: usize = 1024;

/// One stream of a stage.
pub(crate) struct Stream {
    kind: Kind,
    stage: usize,
    pipe: Option<PipeReader>,
    kept: u64,
    truncated: bool,
    hash: Sha256,
    start: Vec<u8>,
    /// Bytes that were in the pipe when the stages had ended, and have not been read yet.
    owed: u64,
}

impl Stream {
    pub(crate) fn new(kind: Kind, stage: usize, pipe: PipeReader) -> Self {
        let (hash, start) = (Sha256::new(), Vec::new());
        Self { kind, stage, pipe: Some(pipe), kept: 0, truncated: false, hash, start, owed: 0 }
    }

    /// All of it, if it was short.
    pub(crate) fn short(&self) -> &[u8] {
        if self.kept == self.start.len() as u64 { &self.start } else { &[] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept == 0
    }

    pub(crate) fn captured(&self) -> Captured {
        Captured { length: self.kept, sha256: hex(&self.hash.clone().finalize()), truncated: self.truncated }
    }

    /// What is dropped needs no room in the report.
    fn may_read(&self, sink: &Sink) -> bool {
        self.kept == CAPTURE_MAX || sink.is_idle()
    }

    /// Reads once, keeps what there is room for.
    fn read(&mut self, buffer: &mut [u8], sink: &mut Sink) {
        let Some(pipe) = &mut self.pipe else { return };
        let count = match pipe.read(buffer) {
            Ok(0) => {
                self.pipe = None;
                return;
            }
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return,
            Err(_) => {
                self.pipe = None;
                return;
            }
        };
        self.owed = self.owed.saturating_sub(count as u64);
        let room = usize::try_from(CAPTURE_MAX - self.kept).unwrap_or(usize::MAX);
        let bytes = buffer.get(..count.min(room)).unwrap_or_default();
        self.truncated |= count > room;
        if bytes.is_empty() {
            return;
        }
        self.kept += bytes.len() as u64;
        self.hash.update(bytes);
        self.start.extend(bytes.iter().take(START_MAX.saturating_sub(self.start.len())));
        sink.put(self.kind, self.stage, bytes);
    }
}

/// Carries until every stage has ended and nothing they wrote is left in a pipe, or until `deadline`.
pub(crate) fn capture(running: &mut Running, sink: &mut Sink, deadline: Instant) -> Result<(), Stop> {
    let mut buffer = vec![0; DATA_MAX];
    let mut grace: Option<Instant> = None;
    loop {
        let ended = look(&mut running.children);
        if ended && grace.is_none() {
            for stream in &mut running.streams {
                stream.owed = stream.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok()).unwrap_or(0);
            }
            grace = Some(Instant::now() + GRACE);
        }
        let now = Instant::now();
        match grace {
            Some(_) if running.streams.iter().all(|stream| stream.pipe.is_none()) => return Ok(()),
            Some(grace) if now >= grace && running.streams.iter().all(|stream| stream.owed == 0) => return Ok(()),
            None if now >= deadline => return Err(Stop::TimedOut(running.end()?)),
            _ => {}
        }
        let until = match grace {
            Some(grace) if now < grace => Some(grace - now),
            // What is owed can be read at once, or when the report's reader takes more.
            Some(_) => None,
            None => Some((deadline - now).min(STOPPED_TICK)),
        };
        wait(running, sink, &mut buffer, until)?;
    }
}

/// Waits for something to do, and does it.
fn wait(running: &mut Running, sink: &mut Sink, buffer: &mut [u8], until: Option<Duration>) -> Result<(), Failure> {
    let out = sink.fd();
    let mut fds = Vec::with_capacity(running.children.len() + running.streams.len() + 1);
    let readers: Vec<usize> = (0..running.streams.len())
        .filter(|&index| {
            running.streams.get(index).is_some_and(|stream| stream.pipe.is_some() && stream.may_read(sink))
        })
        .collect();
    let pipes = readers.iter().filter_map(|&index| running.streams.get(index)?.pipe.as_ref());
    fds.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    let running_ones = running.children.iter().filter(|child| child.code.is_none());
    fds.extend(running_ones.map(|child| PollFd::new(child.exited(), PollFlags::IN)));
    if !sink.is_idle() {
        fds.push(PollFd::new(&out, PollFlags::OUT));
    }
    match poll(&mut fds, until.map(timespec).as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(Failure::system("waiting for output", error)),
    }
    let ready: Vec<usize> =
        readers.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(&index, _)| index).collect();
    sink.push();
    for index in ready {
        // One stream after the other has the only frame; the rest stay readable.
        if let Some(stream) = running.streams.get_mut(index)
            && stream.may_read(sink)
        {
            stream.read(buffer, sink);
        }
    }
    Ok(())
}

/// Looks at every child; true when all have ended.
fn look(children: &mut [Child]) -> bool {
    children.iter_mut().for_each(Child::look);
    children.iter().all(|child| child.code.is_some())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
