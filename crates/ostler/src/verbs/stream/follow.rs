//! Following a session: its records in order, each once, across lost connections and new daemons.

use std::io::{self, Write};

use ostler_api::client::{ClientError, Incoming};
use ostler_api::{Missing, Notification, SessionEvents, SessionGap, SessionInfo, WatchParams, Watching, methods};
use rustix::event::{PollFd, PollFlags, poll};

use super::lines::{Line, Lines};
use super::link::{Back, Link};
use super::signals::{Signals, Wish};
use super::terminal;
use super::trouble::Trouble;
use crate::output::{Called, CommandError, Kind};
use crate::transcript::{Fact, Said};
use crate::verbs::session::{Gone, InPlace};

/// What comes to whoever follows.
pub(in crate::verbs) enum Came<'a> {
    /// The watch begins, or goes on after the connection was lost.
    Begun(&'a Watching),
    Record(&'a SessionEvents),
    /// Records are missing.
    Gap(&'a SessionGap),
    /// A line was typed.
    Line(&'a str),
    /// Ctrl-C, where lines are typed.
    Interrupt,
}

/// What is missing must not look as if it had never been.
pub(in crate::verbs) fn missing(gap: &SessionGap) -> String {
    let first = gap.first;
    match gap.missing {
        None | Some(Missing::LetGo) => format!("ostler: everything before {first} was deleted (retention)"),
        Some(Missing::Damaged | Missing::Lost) => {
            format!("ostler: something is missing here, before record {first}: the journal's index is damaged")
        }
    }
}

/// How following ended.
#[derive(Debug)]
pub(in crate::verbs) enum Followed<T> {
    /// What was followed has come to its end.
    Over(T),
    /// By a key; `next` is the first record that was not shown.
    Left { next: u64 },
    /// A signal ended it.
    Ended { next: u64, signal: i32 },
}

pub(in crate::verbs) struct Follow<'a> {
    link: Link<'a>,
    id: String,
    /// What people call it.
    called: String,
    signals: Signals,
    /// The first record not shown yet.
    next: u64,
    /// Instead, for the beginning: the last so many prompts.
    prompts: Option<u64>,
    /// Our stdin is a terminal, or was when it lived.
    terminal: bool,
    lines: Option<Lines>,
    in_place: Option<InPlace<'a>>,
    /// What there was when the watch began, and which of its requests wait.
    past: u64,
    waiting: Vec<String>,
}

impl<'a> Follow<'a> {
    /// Follows the session from record `from` on.
    pub(in crate::verbs) fn new(link: Link<'a>, session: &SessionInfo, from: u64) -> io::Result<Self> {
        let terminal = terminal::is_one(rustix::stdio::stdin());
        let (signals, next, waiting) = (Signals::listen()?, from.max(1), Vec::new());
        let (id, called) = (session.id.clone(), session.called());
        let (prompts, lines, in_place, past) = (None, None, None, 0);
        Ok(Self { link, id, called, signals, next, prompts, terminal, lines, in_place, past, waiting })
    }

    /// Begins with the last so many prompts instead.
    pub(in crate::verbs) fn with_last(self, prompts: Option<u64>) -> Self {
        Self { prompts, ..self }
    }

    /// Lines are typed meanwhile.
    pub(in crate::verbs) fn typing(self, lines: Lines) -> Self {
        Self { lines: Some(lines), ..self }
    }

    /// Requests of the session are put to the person who follows.
    pub(in crate::verbs) fn asking(self, in_place: InPlace<'a>) -> Self {
        Self { in_place: Some(in_place), ..self }
    }

    /// Hands on what comes until `take` has something to give back, or the person leaves.
    pub(in crate::verbs) fn run<T>(
        mut self,
        mut take: impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Followed<T>, CommandError> {
        if let Some(followed) = self.begin(false, &mut take)? {
            return Ok(followed);
        }
        loop {
            match self.turn(&mut take) {
                Ok(None) => {}
                Ok(Some(followed)) => return Ok(followed),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Lost) => {
                    if let Some(followed) = self.come_back(&mut take)? {
                        return Ok(followed);
                    }
                }
            }
        }
    }

    /// Begins the watch, or takes it up again.
    fn begin<T>(
        &mut self,
        again: bool,
        take: &mut impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Option<Followed<T>>, Trouble> {
        // Only the first time: after that it is known where to go on.
        let prompts = self.prompts.take();
        let from = prompts.is_none().then_some(self.next);
        let params = WatchParams { id: self.id.clone(), from, prompts };
        let watching = self.link.client.call::<methods::SessionWatch>(&params)?;
        if prompts.is_some() {
            self.next = watching.from;
        }
        if again {
            self.lines.iter_mut().for_each(Lines::hide);
            say(&match watching.from > self.next {
                true => format!("reconnected; everything before {} was deleted (retention)", watching.from),
                false => "reconnected; nothing was lost".to_owned(),
            });
        }
        self.past = watching.last;
        self.waiting.clone_from(&watching.session.approvals);
        let done = take(Came::Begun(&watching))?.map(Followed::Over);
        let gone = self.with_the_terminal(InPlace::again)?;
        Ok(done.or(gone.map(|gone| self.gone(gone))))
    }

    /// Lends the terminal to whatever is to be asked there.
    fn with_the_terminal(
        &mut self,
        ask: impl FnOnce(&mut InPlace<'a>) -> Result<Option<Gone>, CommandError>,
    ) -> Result<Option<Gone>, CommandError> {
        let Some(in_place) = &mut self.in_place else { return Ok(None) };
        self.lines.iter_mut().for_each(Lines::give);
        let gone = ask(in_place)?;
        self.lines.iter_mut().try_for_each(Lines::take_back)?;
        Ok(gone)
    }

    /// The requests of this record that wait for somebody are put to whoever follows.
    fn ask<T>(&mut self, events: &SessionEvents) -> Result<Option<Followed<T>>, CommandError> {
        for said in events.events.iter().filter_map(Said::read) {
            let Said::Fact(Fact::Approval { approval, .. }) = said else { continue };
            if (events.record > self.past || self.waiting.contains(&approval))
                && let Some(gone) = self.with_the_terminal(|in_place| in_place.ask(&approval))?
            {
                return Ok(Some(self.gone(gone)));
            }
        }
        Ok(None)
    }

    fn gone<T>(&self, gone: Gone) -> Followed<T> {
        match gone {
            Gone::Left => Followed::Left { next: self.next },
            Gone::Signal(signal) => Followed::Ended { next: self.next, signal },
        }
    }

    /// What was typed; without lines, only that the terminal is gone.
    fn typed<T>(
        &mut self,
        take: &mut impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Option<Followed<T>>, Trouble> {
        let lines = match &mut self.lines {
            Some(lines) => lines.read()?,
            None if terminal::is_gone(rustix::stdio::stdin()) => vec![Line::HungUp],
            None => Vec::new(),
        };
        for line in lines {
            let came = match &line {
                Line::Text(text) => Came::Line(text),
                Line::Interrupt => Came::Interrupt,
                Line::Leave => return Ok(Some(self.gone(Gone::Left))),
                Line::HungUp => return Ok(Some(self.gone(Gone::Signal(signal_hook::consts::SIGHUP)))),
            };
            if let Some(done) = self.above_the_line(|| take(came))? {
                return Ok(Some(Followed::Over(done)));
            }
        }
        Ok(None)
    }

    /// Does what may write something: above the line that is being typed.
    fn above_the_line<R>(&mut self, write: impl FnOnce() -> R) -> R {
        self.lines.iter_mut().for_each(Lines::hide);
        let done = write();
        self.lines.iter_mut().for_each(Lines::show);
        done
    }

    /// Handles what has arrived, then waits for more.
    fn turn<T>(
        &mut self,
        take: &mut impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Option<Followed<T>>, Trouble> {
        while let Some(notification) = self.arrived()? {
            let came = match &notification {
                Notification::Events(events) => {
                    self.next = events.record + 1;
                    Came::Record(events)
                }
                Notification::SessionGap(gap) => {
                    self.next = gap.first;
                    Came::Gap(gap)
                }
                Notification::SessionLost(lost) => {
                    let message =
                        format!("cannot read the output of {} after {}: {}", self.called, self.next - 1, lost.message);
                    return Err(Trouble::Fatal(CommandError::failed(message).hint("check the disk: ostler doctor")));
                }
                _ => continue,
            };
            if let Some(done) = self.above_the_line(|| take(came))? {
                return Ok(Some(Followed::Over(done)));
            }
            if let Notification::Events(events) = &notification
                && let Some(followed) = self.ask(events)?
            {
                return Ok(Some(followed));
            }
        }
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.link.client, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        if self.terminal {
            // Without lines only its end is of interest, which is told unasked.
            let keys = if self.lines.is_some() { PollFlags::IN } else { PollFlags::empty() };
            fds.push(PollFd::new(&stdin, keys));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::Fatal(error.into())),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let (readable, typed) = (ready(0), ready(2));
        if let Some(followed) = self.signals.take().into_iter().find_map(|wish| self.leave(wish)) {
            return Ok(Some(followed));
        }
        if typed && let Some(followed) = self.typed(take)? {
            return Ok(Some(followed));
        }
        if readable {
            self.link.client.fill()?;
        }
        Ok(None)
    }

    /// The next notification that is here already.
    fn arrived(&mut self) -> Result<Option<Notification>, ClientError> {
        if let Some(early) = self.link.client.take_early() {
            return Ok(Some(early));
        }
        loop {
            match self.link.client.take()? {
                Some(Incoming::Notification(notification)) => return Ok(Some(notification)),
                Some(Incoming::Reply { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    fn leave<T>(&mut self, wish: Wish) -> Option<Followed<T>> {
        match wish {
            Wish::Interrupt => Some(Followed::Left { next: self.next }),
            Wish::End(signal) => Some(Followed::Ended { next: self.next, signal }),
            Wish::Suspend => {
                self.lines.iter_mut().for_each(Lines::give);
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
                None
            }
            Wish::Continued => {
                // A terminal that can not be read by lines any more is gone, which is noticed where it is read.
                let _ = self.lines.iter_mut().try_for_each(Lines::take_back);
                None
            }
            Wish::Resized => {
                self.above_the_line(|| ());
                None
            }
        }
    }

    /// The connection is gone: waits for the daemon's return and goes on at the same record.
    fn come_back<T>(
        &mut self,
        take: &mut impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Option<Followed<T>>, CommandError> {
        self.above_the_line(|| say("connection lost; reconnecting"));
        loop {
            let (mut lines, mut gone) = (self.lines.as_mut(), Gone::Left);
            let back = self.link.reconnect(&mut self.signals, |pause| match &mut lines {
                Some(lines) => Ok(lines.leaves_within(pause)?.inspect(|how| gone = *how).is_some()),
                None => {
                    std::thread::sleep(pause);
                    Ok(false)
                }
            })?;
            match back {
                Back::Connected => {}
                Back::Left => return Ok(Some(self.gone(gone))),
                Back::Wished(wish) => return Ok(self.leave(wish)),
                Back::Alone => {
                    let hint = format!("start it: ostler up; then: ostler watch {} --from {}", self.called, self.next);
                    return Err(CommandError::new(Kind::NoInstance, "ostler stopped and did not come back").hint(hint));
                }
            }
            match self.begin(true, take) {
                Ok(followed) => return Ok(followed),
                Err(Trouble::Lost) => {}
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
    }
}

/// A word to the person; there may be nobody left to hear it.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "ostler: {text}");
}
