//! Children that read: they check every stdin byte themselves and send it back.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::stdio::{stderr, stdin, stdout};

use super::control::{Command, Control};
use super::output::Output;
use super::{Kind, Report, Streams};
use crate::rng::Rng;
use crate::verifier::Verifier;

/// How long the last promised bytes of stdin may take before the child says that they never came.
pub(crate) const STARVED: Duration = Duration::from_secs(60);

/// How often a silent stdin is looked at together with the control FIFO.
const IDLE: Duration = Duration::from_millis(50);

pub(crate) fn run(kind: Kind, streams: Streams, mut control: Control) -> Result<Report> {
    let mut echo = Echo {
        slow: kind == Kind::SlowEcho,
        rng: Rng::new(0x0ec0),
        check: Verifier::new(streams.stdin),
        received: 0,
        echoed: 0,
        err: Output::new(stderr(), streams.stderr),
        buffer: vec![0; 64 << 10],
    };
    let mut promised = None;
    let mut heard = Instant::now();
    while promised.is_none_or(|total| echo.received < total) {
        let (command, readable) = control.wait_or(IDLE, Some(stdin()))?;
        match command {
            Some(Command::Quit(total)) => {
                promised = Some(total);
                echo.slow = false;
                heard = Instant::now();
            }
            // A surge of a reader is to read everything there is, soon.
            Some(Command::Surge(_)) | None => {}
        }
        if readable {
            echo.round()?;
            heard = Instant::now();
        } else if promised.is_some() && heard.elapsed() > STARVED {
            break;
        }
        if echo.slow
            && let Some(Command::Quit(total)) = control.wait(echo.rng.micros(0, 3_000))?
        {
            promised = Some(total);
            echo.slow = false;
        }
    }
    let stdin = echo.received;
    let stdin_tally = echo.check.finish(promised.unwrap_or(stdin));
    Ok(Report { stdout: echo.echoed, stderr: echo.err.written(), stdin, stdin_tally })
}

struct Echo {
    slow: bool,
    rng: Rng,
    check: Verifier,
    received: u64,
    echoed: u64,
    err: Output,
    buffer: Vec<u8>,
}

impl Echo {
    /// Reads once and sends back what came.
    fn round(&mut self) -> Result<()> {
        let most = if self.slow { self.rng.size(1, 3_000) } else { self.buffer.len() };
        let room = self.buffer.get_mut(..most).unwrap_or_default();
        let n = match rustix::io::read(stdin(), room) {
            Ok(0) => bail!("stdin ended although nobody closed it"),
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error).context("read stdin"),
        };
        self.received += n as u64;
        let mut rest = self.buffer.get(..n).unwrap_or_default();
        self.check.feed(rest);
        while !rest.is_empty() {
            match rustix::io::write(stdout(), rest) {
                Ok(n) => {
                    self.echoed += n as u64;
                    rest = rest.get(n..).unwrap_or_default();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("write"),
            }
        }
        if self.slow {
            self.err.write(n / 16 + 1)?;
        }
        Ok(())
    }
}
