//! A process that is watched: its frames as they come, our keys on their way to it, its screen on ours.

mod back;
mod quiet;
mod screen;

use std::io;
use std::time::{Duration, Instant};

use ostler_api::client::{self, ClientError, Incoming};
use ostler_api::{
    AttachParams, Attached, Exit, Frame, IdParams, Missing, Notification, ProcessInfo, RpcError, Timestamp,
    ViewerParams, WinSize, methods,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use serde_json::value::RawValue;

use self::quiet::Quiet;
use super::input::{Input, Typed};
use super::link::Link;
use super::signals::{Signals, Wish, stop};
use super::sink::{Sink, decode};
use super::terminal::{self, Mode, Raw};
use super::trouble::Trouble;
use super::watched::{self, Watched};
use crate::config::DetachKey;
use crate::output::escape::Modes;
use crate::output::{Called, CommandError, visible};

/// Full-screen programs draw again when their size changes; two changes this far apart are seen as two.
const NUDGE: Duration = Duration::from_millis(60);
/// How long somebody who leaves waits for the answers to what was typed last.
const SETTLE: Duration = Duration::from_millis(500);
/// How far back modes are looked for that a program set once, at its start.
const MODES_WITHIN: u64 = 1024 * 1024;

/// A program that has only just asked its terminal something waits for the answer; one that asked before does not.
const FRESH: Duration = Duration::from_secs(5);

/// What to watch, and how: without more, all of it as it comes, and nothing else of the terminal's.
#[derive(Default)]
pub(in crate::verbs) struct View {
    /// The first frame wanted; else as much of the end as `tail` says.
    pub(in crate::verbs) from: Option<u64>,
    pub(in crate::verbs) tail: Option<u64>,
    /// Else the last so many lines, of what was written since then.
    pub(in crate::verbs) lines: Option<u64>,
    pub(in crate::verbs) since: Option<Timestamp>,
    /// Stop where the journal ends now.
    pub(in crate::verbs) until_now: bool,
    /// Every key is read as it is pressed, and this one leaves.
    pub(in crate::verbs) keyboard: Option<(DetachKey, Mode)>,
    /// Draw a terminal program's screen from the past instead of playing it.
    pub(in crate::verbs) repaint: bool,
    /// It has a terminal of its own, and what it writes there draws on ours.
    pub(in crate::verbs) draws: bool,
    /// Be listed as attached.
    pub(in crate::verbs) attached: bool,
    /// The size of our terminal counts for the child's.
    pub(in crate::verbs) sized: bool,
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

pub(in crate::verbs) struct ProcessWatch<'a> {
    link: Link<'a>,
    id: String,
    /// What people call it.
    called: String,
    /// Said once, when keys are read as they are pressed.
    banner: Option<String>,
    view: View,
    sink: Sink,
    input: Input,
    signals: Signals,
    modes: Modes,
    raw: Option<Raw>,
    /// The first frame not shown yet.
    next: u64,
    /// Bytes at the beginning of the first frame that were not asked for.
    skip: usize,
    /// Up to this frame the journal's past goes.
    past_end: u64,
    /// What it wrote after some frame is lost, and that was not said yet.
    loss_due: bool,
    /// Frames of the past that wait for a repaint, and whether they are all there ever were.
    past: Option<(Vec<u8>, bool)>,
    /// When to set the true size after a nudge.
    nudge: Option<Instant>,
    /// The size that the child's terminal has for the sake of all who look at it.
    size: Option<WinSize>,
    /// The newest question about it.
    sizing: Option<u64>,
    /// Since when nothing has come; nothing where the past is all that is wanted.
    quiet: Option<Quiet>,
    /// A new daemon was found, and what was typed meanwhile is not answered yet: something is to be said then.
    owed: Option<back::Owed>,
}

impl<'a> ProcessWatch<'a> {
    pub(in crate::verbs) fn new(
        link: Link<'a>,
        process: &ProcessInfo,
        view: View,
        sink: Sink,
        input: Input,
    ) -> io::Result<Self> {
        let input = input.with_detach_key(view.keyboard.map(|(key, _)| key));
        Ok(Self {
            link,
            id: process.id.clone(),
            called: process.called(),
            banner: None,
            view,
            sink,
            input,
            signals: Signals::listen()?,
            modes: Modes::default(),
            raw: None,
            next: 1,
            skip: 0,
            past_end: 0,
            loss_due: false,
            past: None,
            nudge: None,
            size: None,
            sizing: None,
            quiet: None,
            owed: None,
        })
    }

    /// Says this first, to somebody whose keys count from then on.
    pub(in crate::verbs) fn saying(self, banner: Option<String>) -> Self {
        Self { banner, ..self }
    }

    /// Watches until something ends it. The terminal is as it was when this returns.
    pub(in crate::verbs) fn run(mut self) -> Result<Outcome, CommandError> {
        // Before anything is said: whoever reads how to leave may press that key at once.
        if let Some((_, mode)) = self.view.keyboard {
            self.raw = Some(Raw::enter(mode)?);
        }
        let (from, tail) = (self.view.from, self.view.tail);
        let tail = if self.view.repaint { tail.map(|tail| tail.max(MODES_WITHIN)) } else { tail };
        let process = self.begin(from, tail)?.process;
        if self.view.until_now && process.last_seq < self.next && !self.loss_due {
            return Ok(Outcome::UpToNow);
        }
        if let Some(banner) = self.banner.take() {
            self.greet(&banner);
        }
        if self.view.repaint {
            self.past = Some((Vec::new(), self.next <= 1 && self.skip == 0));
            match self.repaint_if_due() {
                // A connection that is lost already is taken up again below.
                Ok(()) | Err(Trouble::Lost) => {}
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
        self.quiet = (!self.view.until_now).then(|| Quiet::new(Instant::now()));
        let outcome = self.watch();
        if let Ok(Outcome::Left { .. }) = outcome {
            self.settle_typed();
        }
        let shown = self.leave_screen();
        match outcome {
            // Nobody sits there any more to be shown anything.
            Ok(Outcome::Ended { .. }) => outcome,
            _ => outcome.and_then(|outcome| shown.map(|()| outcome).map_err(CommandError::from)),
        }
    }

    fn watch(&mut self) -> Result<Outcome, CommandError> {
        match watched::follow(self, Ok(None)) {
            // What cannot be shown to a terminal that is gone is no failure: somebody has left.
            Err(_) if terminal::was_lost() => Ok(self.hung_up()),
            watched => watched,
        }
    }

    /// What a key, or the end of all keys, asks for.
    fn left_by(&mut self, typed: &Typed) -> Option<Outcome> {
        let next = self.next;
        match typed {
            Typed::Taken => None,
            Typed::Ignored => {
                self.say(&self.takes_no_input());
                None
            }
            Typed::Detach => Some(Outcome::Left { next, interrupted: false }),
            Typed::Interrupt => Some(Outcome::Left { next, interrupted: true }),
            Typed::HungUp => Some(self.hung_up()),
        }
    }

    fn takes_no_input(&self) -> String {
        let leave = self.view.keyboard.map_or("Ctrl-C".to_owned(), |(key, _)| key.to_string());
        format!("{} takes no input; {leave} leaves it", self.called)
    }

    /// Somebody leaves: waits a moment for the answers to what was typed, and says what went nowhere.
    fn settle_typed(&mut self) {
        let deadline = Instant::now() + SETTLE;
        while self.input.on_its_way() != (0, 0) {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&self.link.client, PollFlags::IN)];
            let ready = Timespec::try_from(left).ok().and_then(|left| poll(&mut fds, Some(&left)).ok());
            if left.is_zero() || ready.is_none_or(|ready| ready == 0) || self.hear_answers().is_err() {
                break;
            }
        }
        let words = match self.input.on_its_way() {
            (0, 0) => return,
            (0, sent) => format!("the last {sent} bytes typed may not have arrived"),
            (held, 0) => format!("the last {held} bytes typed were not sent: it does not read"),
            (held, sent) => {
                let all = held + sent;
                format!(
                    "of the last {all} bytes typed {held} were not sent, and {sent} may not have arrived: it does not read"
                )
            }
        };
        self.say(&words);
    }

    /// What the process says meanwhile is shown to whoever comes back.
    fn hear_answers(&mut self) -> Result<(), Trouble> {
        self.link.client.fill()?;
        while let Some(incoming) = self.link.client.take()? {
            if let Incoming::Reply { id, result } = incoming {
                self.answered(id, result)?;
            }
        }
        Ok(())
    }

    /// The terminal is gone, and with it whoever sat there.
    fn hung_up(&self) -> Outcome {
        Outcome::Ended { next: self.next, signal: signal_hook::consts::SIGHUP }
    }

    /// Whether it was there before we came, and not only just.
    fn is_long_past(&self, frame: &Frame) -> bool {
        frame.seq <= self.past_end && frame.time.elapsed() > FRESH
    }

    fn answered(&mut self, request: u64, result: Result<Box<RawValue>, RpcError>) -> Result<(), Trouble> {
        if self.sizing == Some(request) {
            self.size = result.ok().and_then(|size| client::parse::<methods::ProcessResize>(&size).ok());
            return Ok(());
        }
        if let Some(quiet) = self.quiet.as_mut().filter(|quiet| quiet.asked == Some(request)) {
            quiet.asked = None;
            let process = result.ok().and_then(|info| client::parse::<methods::ProcessGet>(&info).ok());
            if let Some(why) = quiet.told(process.and_then(|process| process.held_back)) {
                self.say(&format!("waiting: {}", visible(&why)));
            }
            return Ok(());
        }
        let answered = self.input.answered(request, result.err().as_ref())?;
        self.input.push(&mut self.link.client, &self.id)?;
        self.tell_owed(&answered);
        Ok(())
    }

    /// Attaches where the view begins.
    fn begin(&mut self, from: Option<u64>, tail: Option<u64>) -> Result<Attached, ClientError> {
        let (lines, since) = (self.view.lines, self.view.since);
        let params = AttachParams { id: self.id.clone(), from, tail, lines, since, viewer: None };
        let attached = self.attach(params)?;
        self.skip = usize::try_from(attached.skip).unwrap_or(usize::MAX);
        Ok(attached)
    }

    /// Attaches, as the viewer that we are.
    fn attach(&mut self, params: AttachParams) -> Result<Attached, ClientError> {
        let size = if self.view.sized { terminal::size() } else { None };
        let viewer = self.view.attached.then(|| ViewerParams { size, types: self.input.types() });
        let params = AttachParams { viewer, ..params };
        let attached = self.link.client.call::<methods::ProcessAttach>(&params)?;
        self.next = attached.from;
        self.past_end = attached.process.last_seq;
        self.loss_due = attached.process.lost_after.is_some_and(|after| after + 1 >= attached.from);
        self.size = attached.size.clone();
        Ok(attached)
    }
}

impl<'a> Watched<'a> for ProcessWatch<'a> {
    type End = Outcome;

    fn ends(&mut self) -> (&mut Link<'a>, &mut Signals) {
        (&mut self.link, &mut self.signals)
    }

    fn keys(&self) -> Option<PollFlags> {
        self.input.interest()
    }

    fn due(&self) -> Option<Instant> {
        self.nudge.into_iter().chain(self.quiet.as_ref().map(|quiet| quiet.due)).min()
    }

    fn arrived(&mut self, incoming: Incoming) -> Result<Option<Outcome>, Trouble> {
        match incoming {
            Incoming::Reply { id, result } => {
                self.answered(id, result)?;
            }
            Incoming::Notification(Notification::Frame(frame)) => {
                let mut bytes = decode(&frame)?;
                let skip = std::mem::take(&mut self.skip).min(bytes.len());
                bytes.drain(..skip);
                self.next = frame.seq + 1;
                self.quiet.iter_mut().for_each(|quiet| quiet.heard(Instant::now()));
                match &mut self.past {
                    Some((past, _)) => past.extend_from_slice(&bytes),
                    None => {
                        match self.is_long_past(&frame) {
                            true => self.sink.past(&frame, &bytes)?,
                            false => self.sink.frame(&frame, &bytes)?,
                        }
                        self.modes.feed(&bytes);
                    }
                }
                self.repaint_if_due()?;
            }
            Incoming::Notification(Notification::Gap(gap)) => {
                self.next = gap.first_seq;
                let let_go = matches!(gap.missing, None | Some(Missing::LetGo));
                self.loss_due &= let_go;
                // Who asked for the end of the journal knows that there was more.
                let wants_end = self.view.tail.is_some() || self.view.lines.is_some() || self.view.since.is_some();
                if (!let_go || self.view.from.is_some() || !wants_end)
                    && let Some(text) = self.sink.gap(&gap)?
                {
                    self.say(&text);
                }
                self.repaint_if_due()?;
            }
            Incoming::Notification(Notification::Lost(lost)) => {
                self.sink.finish()?;
                return Err(Trouble::Fatal(
                    CommandError::failed(format!(
                        "cannot read the output of {} after {}: {}",
                        self.called,
                        self.next - 1,
                        lost.message
                    ))
                    .hint("check the disk: ostler doctor"),
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
        let done = self.view.until_now && self.next > self.past_end && !self.loss_due;
        if done {
            self.sink.finish()?;
        }
        Ok(done.then_some(Outcome::UpToNow))
    }

    fn typed(&mut self) -> Result<Option<Outcome>, Trouble> {
        let typed = self.input.read()?;
        let pushed = self.input.push(&mut self.link.client, &self.id);
        // A key that leaves does so also when nobody takes what was typed before it.
        match self.left_by(&typed) {
            None => Ok(pushed.map(|()| None)?),
            left => Ok(left),
        }
    }

    fn obey(&mut self, wish: Wish) -> Result<Option<Outcome>, Trouble> {
        match wish {
            Wish::Interrupt => return Ok(Some(Outcome::Left { next: self.next, interrupted: true })),
            Wish::End(signal) => return Ok(Some(Outcome::Ended { next: self.next, signal })),
            Wish::Resized => self.resize(terminal::size())?,
            Wish::Suspend => {
                self.leave_screen()?;
                if !stop() {
                    self.resume()?;
                }
            }
            Wish::Continued => self.resume()?,
        }
        Ok(None)
    }

    fn is_due(&mut self) -> Result<(), Trouble> {
        let now = Instant::now();
        if let Some(quiet) = self.quiet.as_mut().filter(|quiet| now >= quiet.due) {
            quiet.asks(self.link.client.send::<methods::ProcessGet>(&IdParams { id: self.id.clone() })?, now);
        }
        if self.nudge.take_if(|nudge| now >= *nudge).is_some() {
            self.resize(terminal::size())?;
        }
        Ok(())
    }

    fn lost(&mut self) {
        self.owed = None;
        // Another connection counts its requests anew.
        self.quiet = self.quiet.take().map(|_| Quiet::new(Instant::now()));
        self.say("connection lost; reconnecting");
    }

    fn alone(&mut self, pause: Duration) -> Result<Option<Outcome>, CommandError> {
        Ok(back::keys(&mut self.input, pause)?.and_then(|typed| self.left_by(&typed)))
    }

    fn go_on(&mut self) -> Result<Option<Outcome>, Trouble> {
        self.take_up()?;
        // Our words stand in the middle of a full-screen program's own.
        self.begin_nudge()?;
        Ok(None)
    }

    fn way_back(&self) -> String {
        let (name, next) = (&self.called, self.next);
        format!("start it: ostler up; then: ostler attach {name} --from {next}")
    }
}
