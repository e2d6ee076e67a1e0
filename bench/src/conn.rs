//! One client connection: non-blocking both ways, so that a client never stops reading because it wants to write.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::wire::{self, Incoming};

/// Bytes read at once: a few of the largest frames.
const READ: usize = 256 << 10;

pub(crate) struct Conn {
    stream: UnixStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    buffer: Vec<u8>,
}

/// Milliseconds and below as poll wants them.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: duration.subsec_nanos().into() }
}

impl Conn {
    pub(crate) fn dial(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, inbox: Vec::new(), outbox: Vec::new(), buffer: vec![0; READ] })
    }

    /// Queues a line; `turn` sends it.
    pub(crate) fn send(&mut self, line: &str) {
        self.send_bytes(line.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }

    /// Bytes queued and not yet taken by the kernel.
    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// Waits up to `timeout` for something to do, sends and receives what is possible, and hands every whole line on.
    /// An error means that the connection is over.
    pub(crate) fn turn(&mut self, timeout: Duration, mut on_line: impl FnMut(&[u8])) -> io::Result<()> {
        let mut wanted = PollFlags::IN;
        if !self.outbox.is_empty() {
            wanted |= PollFlags::OUT;
        }
        let mut ready = [PollFd::new(&self.stream, wanted)];
        poll(&mut ready, Some(&timespec(timeout)))?;
        self.flush()?;
        match self.stream.read(&mut self.buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => self.inbox.extend_from_slice(self.buffer.get(..n).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        let mut used = 0;
        for line in self.inbox.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else { break };
            used += line.len() + 1;
            on_line(line);
        }
        self.inbox.drain(..used);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(n) => drop(self.outbox.drain(..n)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => return Ok(()),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends one request and waits for its reply; stream frames that come meanwhile go to `on_line`.
    pub(crate) fn call(
        &mut self,
        line: &str,
        id: u64,
        deadline: Instant,
        mut on_frame: impl FnMut(&wire::Frame<'_>),
    ) -> Result<String> {
        self.send(line);
        let mut answer = None;
        while answer.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no reply before the deadline to {}", line.trim_end());
            }
            let mut broken = None;
            self.turn(left, |bytes| match wire::parse(bytes) {
                Ok(Incoming::Frame(frame)) => on_frame(&frame),
                Ok(Incoming::Reply { id: of, result }) if of == id => answer = Some(result.map(str::to_owned)),
                Ok(Incoming::Reply { .. }) => {}
                Err(error) => broken = Some(error.context(String::from_utf8_lossy(bytes).into_owned())),
            })
            .context("connection lost")?;
            if let Some(error) = broken {
                return Err(error);
            }
        }
        match answer {
            Some(Ok(result)) => Ok(result),
            Some(Err(failure)) => bail!("error {}: {} to {}", failure.code, failure.message, line.trim_end()),
            None => bail!("no reply"),
        }
    }
}
