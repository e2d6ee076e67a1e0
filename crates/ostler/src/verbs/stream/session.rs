//! The loop of a watch: what the daemon sends, what is typed, what signals ask.

use std::io;
use std::time::{Duration, Instant};

use ostler_api::client::{ClientError, Incoming};
use ostler_api::{AttachParams, Exit, Notification, ProcessInfo, ResizeParams, WinSize, methods};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use super::input::{Input, Typed};
use super::link::{Back, Link};
use super::repaint::repaint;
use super::signals::{Signals, Wish};
use super::sink::{Sink, decode};
use super::terminal::{self, Raw};
use super::trouble::Trouble;
use crate::config::DetachKey;
use crate::output::escape::Modes;
use crate::output::{CommandError, Kind};

/// Full-screen programs draw again when their size changes; two changes this far apart are seen as two.
const NUDGE: Duration = Duration::from_millis(60);
/// How far back modes are looked for that a program set once, at its start.
const MODES_WITHIN: u64 = 1024 * 1024;

/// What to watch, and how.
pub(in crate::verbs) struct View {
    /// The first frame wanted; else as much of the end as `tail` says.
    pub(in crate::verbs) from: Option<u64>,
    pub(in crate::verbs) tail: Option<u64>,
    /// Stop where the journal ends now.
    pub(in crate::verbs) until_now: bool,
    /// Every key goes to the child, and this one leaves.
    pub(in crate::verbs) keyboard: Option<DetachKey>,
    /// Draw a terminal program's screen from the past instead of playing it.
    pub(in crate::verbs) repaint: bool,
}

/// How a watch ended.
#[derive(Debug)]
pub(in crate::verbs) enum Outcome {
    Exited(Exit),
    /// All that was asked for has been shown.
    UpToNow,
    /// Left by key or Ctrl-C; `next` is the first frame not shown.
    Left {
        next: u64,
        interrupted: bool,
    },
    /// Ended by a signal.
    Ended {
        next: u64,
        signal: i32,
    },
}

pub(in crate::verbs) struct Session<'a> {
    link: Link<'a>,
    id: String,
    view: View,
    sink: Sink,
    input: Input,
    signals: Signals,
    modes: Modes,
    raw: Option<Raw>,
    /// The first frame not shown yet.
    next: u64,
    /// Up to this frame the journal's past goes.
    past_end: u64,
    /// Frames of the past that wait for a repaint.
    past: Option<Vec<u8>>,
    /// When to set the true size after a nudge.
    nudge: Option<Instant>,
}

impl<'a> Session<'a> {
    pub(in crate::verbs) fn new(link: Link<'a>, id: &str, view: View, sink: Sink, input: Input) -> io::Result<Self> {
        let input = input.with_detach_key(view.keyboard);
        Ok(Self {
            link,
            id: id.to_owned(),
            view,
            sink,
            input,
            signals: Signals::listen()?,
            modes: Modes::default(),
            raw: None,
            next: 1,
            past_end: 0,
            past: None,
            nudge: None,
        })
    }

    /// Watches until something ends it. The terminal is as it was when this returns.
    pub(in crate::verbs) fn run(mut self) -> Result<Outcome, CommandError> {
        let (from, tail) = (self.view.from, self.view.tail);
        let tail = if self.view.repaint { tail.map(|tail| tail.max(MODES_WITHIN)) } else { tail };
        let process = self.attach(from, tail)?;
        if self.view.until_now && process.last_seq < self.next {
            return Ok(Outcome::UpToNow);
        }
        if self.view.keyboard.is_some() {
            self.raw = Some(Raw::enter()?);
        }
        if self.view.repaint {
            self.past = Some(Vec::new());
            self.repaint_if_due()?;
        } else {
            self.resize(terminal::size())?;
        }
        let outcome = self.watch();
        let shown = self.leave_screen();
        outcome.and_then(|outcome| shown.map(|()| outcome).map_err(CommandError::from))
    }

    fn watch(&mut self) -> Result<Outcome, CommandError> {
        loop {
            match self.turn() {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Lost) => {
                    if let Some(outcome) = self.come_back()? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Handles what has arrived, then waits for more.
    fn turn(&mut self) -> Result<Option<Outcome>, Trouble> {
        while let Some(incoming) = self.link.client.take()? {
            if let Some(outcome) = self.handle(incoming)? {
                return Ok(Some(outcome));
            }
        }
        let (readable, typed, signalled) = self.wait()?;
        if signalled {
            for wish in self.signals.take() {
                if let Some(outcome) = self.obey(wish)? {
                    return Ok(Some(outcome));
                }
            }
        }
        if typed && self.input.read(&mut self.link.client, &self.id)? == Typed::Detach {
            return Ok(Some(Outcome::Left { next: self.next, interrupted: false }));
        }
        if readable {
            self.link.client.fill()?;
        }
        if self.nudge.is_some_and(|due| Instant::now() >= due) {
            self.nudge = None;
            self.resize(terminal::size())?;
        }
        Ok(None)
    }

    fn wait(&self) -> Result<(bool, bool, bool), Trouble> {
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.link.client, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        if self.input.wants_more() {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let timeout = self.nudge.map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::Fatal(error.into())),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok((ready(0), ready(2), ready(1)))
    }

    fn handle(&mut self, incoming: Incoming) -> Result<Option<Outcome>, Trouble> {
        match incoming {
            Incoming::Reply { id, result } => {
                self.input.answered(&mut self.link.client, &self.id, id, result.err().as_ref())?;
            }
            Incoming::Notification(Notification::Frame(frame)) => {
                let bytes = decode(&frame)?;
                self.next = frame.seq + 1;
                match &mut self.past {
                    Some(past) => past.extend_from_slice(&bytes),
                    None => {
                        self.sink.frame(&frame, &bytes)?;
                        if self.view.keyboard.is_some() {
                            self.modes.feed(&bytes);
                        }
                    }
                }
                self.repaint_if_due()?;
            }
            Incoming::Notification(Notification::Gap(gap)) => {
                self.next = gap.first_seq;
                // Who asked for the end of the journal knows that there was more.
                if self.view.from.is_some() || self.view.tail.is_none() {
                    self.sink.gap(gap.first_seq)?;
                }
                self.repaint_if_due()?;
            }
            Incoming::Notification(Notification::Lost(lost)) => {
                self.sink.finish()?;
                return Err(Trouble::Fatal(
                    CommandError::failed(format!(
                        "the journal of {} cannot be read after {}: {}",
                        self.id,
                        self.next - 1,
                        lost.message
                    ))
                    .hint("`ostler doctor` looks at the disk"),
                ));
            }
            Incoming::Notification(Notification::Exit(exited)) => {
                self.past_end = 0;
                self.repaint_if_due()?;
                self.sink.exited(&exited)?;
                return Ok(Some(Outcome::Exited(exited.exit)));
            }
            // This connection watches no session.
            Incoming::Notification(_) => {}
        }
        let done = self.view.until_now && self.next > self.past_end;
        if done {
            self.sink.finish()?;
        }
        Ok(done.then_some(Outcome::UpToNow))
    }

    fn obey(&mut self, wish: Wish) -> Result<Option<Outcome>, Trouble> {
        match wish {
            Wish::Interrupt => return Ok(Some(Outcome::Left { next: self.next, interrupted: true })),
            Wish::End(signal) => return Ok(Some(Outcome::Ended { next: self.next, signal })),
            Wish::Resized => self.resize(terminal::size())?,
            Wish::Suspend => {
                self.leave_screen()?;
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
            }
            Wish::Continued => self.resume()?,
        }
        Ok(None)
    }

    /// Back in the foreground: the shell has had the terminal.
    fn resume(&mut self) -> Result<(), Trouble> {
        if self.view.keyboard.is_some() {
            self.raw = None;
            self.raw = Some(Raw::enter()?);
            self.sink.raw(&self.modes.restore())?;
            self.begin_nudge()?;
        }
        Ok(())
    }

    fn repaint_if_due(&mut self) -> Result<(), Trouble> {
        if self.next <= self.past_end {
            return Ok(());
        }
        let Some(past) = self.past.take() else { return Ok(()) };
        let tail = usize::try_from(self.view.tail.unwrap_or_default()).unwrap_or(usize::MAX);
        let picture = repaint(&past, tail, &mut self.modes);
        self.sink.raw(&picture)?;
        self.begin_nudge()
    }

    /// One line less now, the true size a moment later: whoever draws whole screens draws twice.
    fn begin_nudge(&mut self) -> Result<(), Trouble> {
        let Some(size) = terminal::size().filter(|_| self.view.keyboard.is_some()) else { return Ok(()) };
        let rows = if size.rows > 1 { size.rows - 1 } else { 2 };
        self.nudge = Some(Instant::now() + NUDGE);
        self.resize(Some(WinSize { rows, ..size }))
    }

    fn resize(&mut self, size: Option<WinSize>) -> Result<(), Trouble> {
        if let (Some(size), Some(_)) = (size, self.view.keyboard) {
            let params = ResizeParams { id: self.id.clone(), rows: size.rows, cols: size.cols };
            self.link.client.send::<methods::ProcessResize>(&params)?;
        }
        Ok(())
    }

    fn leave_screen(&mut self) -> io::Result<()> {
        if self.raw.is_some() {
            let off = self.modes.leave();
            self.sink.raw(&off)?;
        }
        self.raw = None;
        Ok(())
    }

    fn attach(&mut self, from: Option<u64>, tail: Option<u64>) -> Result<ProcessInfo, ClientError> {
        let params = AttachParams { id: self.id.clone(), from, tail };
        let attached = self.link.client.call::<methods::ProcessAttach>(&params)?;
        self.next = attached.from;
        self.past_end = attached.process.last_seq;
        Ok(attached.process)
    }

    /// The connection is gone: waits for the daemon's return and goes on at the same frame.
    fn come_back(&mut self) -> Result<Option<Outcome>, CommandError> {
        let next = self.next;
        self.say("connection lost; waiting for ostler to come back");
        loop {
            match self.link.reconnect(&mut self.signals)? {
                Back::Connected => {}
                Back::Wished(Wish::End(signal)) => return Ok(Some(Outcome::Ended { next, signal })),
                Back::Wished(_) => return Ok(Some(Outcome::Left { next, interrupted: true })),
                Back::Alone => {
                    return Err(CommandError::new(Kind::NoInstance, "the daemon is gone and has not come back").hint(
                        format!("what it hosts goes on; ostler up, then: ostler attach {} --from {next}", self.id),
                    ));
                }
            }
            let again = self.attach(Some(next), None).and_then(|_| self.input.resend(&mut self.link.client, &self.id));
            match again.map_err(Trouble::from) {
                Ok(0) => break,
                Ok(doubtful) => {
                    self.say(&format!("the last {doubtful} bytes typed may not have arrived"));
                    break;
                }
                Err(Trouble::Lost) => {}
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
        self.say("connected again; nothing was lost");
        // Our words stand in the middle of a full-screen program's own.
        match self.begin_nudge() {
            Err(Trouble::Fatal(error)) => Err(error),
            // Lost again: the next turn finds out.
            Ok(()) | Err(Trouble::Lost) => Ok(None),
        }
    }

    /// A word to the person, on a line of its own also in raw mode.
    fn say(&self, text: &str) {
        use std::io::Write;
        let end = if self.raw.is_some() { "\r\n" } else { "\n" };
        let _ = write!(io::stderr(), "{}ostler: {text}{end}", if self.raw.is_some() { "\r\n" } else { "" });
    }
}
