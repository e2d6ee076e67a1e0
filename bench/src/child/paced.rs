//! Children that write: each in its own manner, slowly enough for a thousand kills and in surges when told to.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::control::{Command, Control};
use super::echo::STARVED;
use super::output::Output;
use super::{Kind, Report, Streams};
use crate::code::Code;
use crate::conn::timespec;
use crate::rng::Rng;
use crate::verifier::Verifier;

/// The size of a burst's writes.
const BURST: usize = 32 << 10;

/// Single-byte writes are slow; more of them than this in one surge would only make the child late.
const MAX_BYTE_SURGE: u64 = 4000;

struct Writer {
    kind: Kind,
    rng: Rng,
    out: Output,
    err: Output,
}

pub(crate) fn run(kind: Kind, seed: u64, streams: Streams, mut control: Control) -> Result<Report> {
    if kind == Kind::Terminal {
        raw_terminal()?;
    }
    let mut writer = Writer {
        kind,
        rng: Rng::new(seed),
        out: Output::new(stdout(), streams.stdout),
        err: Output::new(stderr(), streams.stderr),
    };
    let mut typed = (kind == Kind::Terminal).then(|| Typed::new(streams.stdin));
    let mut promised = None;
    while promised.is_none_or(|total| typed.as_ref().is_some_and(|typed| typed.waits_for(total))) {
        writer.round()?;
        let pause = writer.pause();
        match (control.wait(pause)?, &mut typed) {
            (Some(Command::Surge(bytes)), _) => writer.surge(bytes)?,
            (Some(Command::Quit(total)), _) => promised = Some(total),
            (None, Some(typed)) => typed.read()?,
            (None, None) => {}
        }
    }
    // The last bytes before an exit are where a careless host loses some.
    writer.round()?;
    let mut report = Report { stdout: writer.out.written(), stderr: writer.err.written(), ..Report::default() };
    if let Some(typed) = typed {
        report.stdin = typed.received;
        report.stdin_tally = typed.check.finish(promised.unwrap_or(0));
    }
    Ok(report)
}

/// What came in through the terminal.
struct Typed {
    check: Verifier,
    received: u64,
    heard: Instant,
    buffer: Vec<u8>,
}

impl Typed {
    fn new(code: Code) -> Self {
        Self { check: Verifier::new(code), received: 0, heard: Instant::now(), buffer: vec![0; 64 << 10] }
    }

    /// Takes what is there and does not wait for more.
    fn read(&mut self) -> Result<()> {
        let mut ready = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        if poll(&mut ready, Some(&timespec(Duration::ZERO)))? == 0 {
            return Ok(());
        }
        let n = rustix::io::read(stdin(), &mut self.buffer).context("read the terminal")?;
        self.check.feed(self.buffer.get(..n).unwrap_or_default());
        self.received += n as u64;
        self.heard = Instant::now();
        Ok(())
    }

    /// More is promised and may still come.
    fn waits_for(&self, total: u64) -> bool {
        self.received < total && self.heard.elapsed() < STARVED
    }
}

/// The terminal must not translate bytes, or positions would move.
fn raw_terminal() -> Result<()> {
    let mut settings = tcgetattr(stdin()).context("not on a terminal")?;
    settings.make_raw();
    tcsetattr(stdin(), OptionalActions::Now, &settings).context("raw mode")
}

impl Writer {
    /// One visit to the pipe in the manner of this kind.
    fn round(&mut self) -> Result<()> {
        match self.kind {
            Kind::Bytes => (0..self.rng.between(1, 80)).try_for_each(|_| self.out.write(1)),
            Kind::Burst => (0..self.rng.between(1, 6)).try_for_each(|_| self.out.write(BURST)),
            Kind::Both => (0..self.rng.between(1, 8)).try_for_each(|_| self.one()),
            _ => self.one(),
        }
    }

    /// One write.
    fn one(&mut self) -> Result<()> {
        match self.kind {
            Kind::Bytes => self.out.write(1),
            Kind::Burst => self.out.write(BURST),
            Kind::Text | Kind::Terminal => self.out.write(self.rng.size(1, 4096)),
            Kind::Both => {
                let size = self.rng.size(1, 3000);
                if self.rng.percent(50) { self.out.write(size) } else { self.err.write(size) }
            }
            Kind::Binary | Kind::Echo | Kind::SlowEcho => self.out.write(self.rng.size(1, 100_000)),
        }
    }

    fn surge(&mut self, bytes: u64) -> Result<()> {
        let bytes = if self.kind == Kind::Bytes { bytes.min(MAX_BYTE_SURGE) } else { bytes };
        let start = self.out.written() + self.err.written();
        while self.out.written() + self.err.written() < start + bytes {
            self.one()?;
        }
        Ok(())
    }

    fn pause(&mut self) -> Duration {
        match self.kind {
            Kind::Bytes => self.rng.micros(200, 3_000),
            Kind::Text | Kind::Terminal | Kind::Both => self.rng.micros(500, 6_000),
            Kind::Binary | Kind::Echo | Kind::SlowEcho => self.rng.micros(2_000, 30_000),
            Kind::Burst => self.rng.micros(5_000, 60_000),
        }
    }
}
