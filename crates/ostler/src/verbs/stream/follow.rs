//! Following a session: its records in order, each once, across lost connections and new daemons.

use std::io::{self, Write};
use std::time::Duration;

use ostler_api::client::Incoming;
use ostler_api::{
    Missing, Notification, SessionEvent, SessionEvents, SessionGap, SessionInfo, WatchParams, Watching, methods,
};
use ostler_story::{Fact, Said};
use rustix::event::PollFlags;

use super::lines::{Line, Lines};
use super::link::Link;
use super::signals::{Signals, Wish, stop};
use super::terminal;
use super::trouble::Trouble;
use super::watched::{self, Watched};
use crate::output::{Called, CommandError};
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
    /// A word to the person about the connection.
    Notice(&'a str),
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
    pub(in crate::verbs) fn run<T, F>(self, take: F) -> Result<Followed<T>, CommandError>
    where
        F: FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    {
        let mut run = Run { follow: self, take };
        match run.begin(false)? {
            Some(followed) => Ok(followed),
            None => watched::follow(&mut run),
        }
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
        for said in events.events.iter().filter_map(SessionEvent::said) {
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
}

/// A session that is followed, and who takes what comes.
struct Run<'a, F> {
    follow: Follow<'a>,
    take: F,
}

impl<'a, T, F> Run<'a, F>
where
    F: FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
{
    /// Begins the watch, or takes it up again.
    fn begin(&mut self, again: bool) -> Result<Option<Followed<T>>, Trouble> {
        let follow = &mut self.follow;
        // Only the first time: after that it is known where to go on.
        let prompts = follow.prompts.take();
        let from = prompts.is_none().then_some(follow.next);
        let params = WatchParams { id: follow.id.clone(), from, prompts, pieces: false };
        let watching = follow.link.client.call::<methods::SessionWatch>(&params)?;
        if prompts.is_some() {
            follow.next = watching.from;
        }
        follow.past = watching.last;
        follow.waiting.clone_from(&watching.session.approvals);
        if again {
            let notice = match watching.from > self.follow.next {
                true => format!("reconnected; everything before {} was deleted (retention)", watching.from),
                false => "reconnected; nothing was lost".to_owned(),
            };
            self.hand(Came::Notice(&notice))?;
        }
        let done = (self.take)(Came::Begun(&watching))?.map(Followed::Over);
        let gone = self.follow.with_the_terminal(InPlace::again)?;
        Ok(done.or(gone.map(|gone| self.follow.gone(gone))))
    }

    /// Hands this on, which may write something: above the line that is being typed.
    fn hand(&mut self, came: Came<'_>) -> Result<Option<Followed<T>>, CommandError> {
        self.follow.lines.iter_mut().for_each(Lines::hide);
        let taken = (self.take)(came);
        self.follow.lines.iter_mut().for_each(Lines::show);
        Ok(taken?.map(Followed::Over))
    }
}

impl<'a, T, F> Watched<'a> for Run<'a, F>
where
    F: FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
{
    type End = Followed<T>;

    fn ends(&mut self) -> (&mut Link<'a>, &mut Signals) {
        (&mut self.follow.link, &mut self.follow.signals)
    }

    fn keys(&self) -> Option<PollFlags> {
        // Without lines only the end of the terminal is of interest, which is told unasked.
        let keys = if self.follow.lines.is_some() { PollFlags::IN } else { PollFlags::empty() };
        self.follow.terminal.then_some(keys)
    }

    fn arrived(&mut self, incoming: Incoming) -> Result<Option<Followed<T>>, Trouble> {
        let Incoming::Notification(notification) = incoming else { return Ok(None) };
        let follow = &mut self.follow;
        match &notification {
            Notification::Events(events) => {
                follow.next = events.record + 1;
                match self.hand(Came::Record(events))? {
                    None => Ok(self.follow.ask(events)?),
                    over => Ok(over),
                }
            }
            Notification::SessionGap(gap) => {
                follow.next = gap.first;
                Ok(self.hand(Came::Gap(gap))?)
            }
            Notification::SessionLost(lost) => {
                let (called, last) = (&follow.called, follow.next - 1);
                let message = format!("cannot read the output of {called} after {last}: {}", lost.message);
                Err(Trouble::Fatal(CommandError::failed(message).hint("check the disk: ostler doctor")))
            }
            _ => Ok(None),
        }
    }

    /// What was typed; without lines, only that the terminal is gone.
    fn typed(&mut self) -> Result<Option<Followed<T>>, Trouble> {
        let lines = match &mut self.follow.lines {
            Some(lines) => lines.read()?,
            None if terminal::is_gone(rustix::stdio::stdin()) => vec![Line::HungUp],
            None => Vec::new(),
        };
        for line in lines {
            let came = match &line {
                Line::Text(text) => Came::Line(text),
                Line::Interrupt => Came::Interrupt,
                Line::Leave => return Ok(Some(self.follow.gone(Gone::Left))),
                Line::HungUp => return Ok(Some(self.follow.gone(Gone::Signal(signal_hook::consts::SIGHUP)))),
            };
            if let Some(over) = self.hand(came)? {
                return Ok(Some(over));
            }
        }
        Ok(None)
    }

    fn obey(&mut self, wish: Wish) -> Result<Option<Followed<T>>, Trouble> {
        let lines = &mut self.follow.lines;
        match wish {
            Wish::Interrupt => {
                if self.follow.terminal {
                    // Behind the `^C` that the terminal shows.
                    let _ = io::stderr().write_all(b"\n");
                }
                return Ok(Some(self.follow.gone(Gone::Left)));
            }
            Wish::End(signal) => return Ok(Some(self.follow.gone(Gone::Signal(signal)))),
            Wish::Suspend => {
                lines.iter_mut().for_each(Lines::give);
                if !stop() {
                    let _ = lines.iter_mut().try_for_each(Lines::take_back);
                }
            }
            Wish::Continued => {
                // A terminal that can not be read by lines any more is gone, which is noticed where it is read.
                let _ = lines.iter_mut().try_for_each(Lines::take_back);
            }
            Wish::Resized => {
                lines.iter_mut().for_each(Lines::hide);
                lines.iter_mut().for_each(Lines::show);
            }
        }
        Ok(None)
    }

    fn lost(&mut self) {
        // Whoever cannot be told this is told nothing.
        let _ = self.hand(Came::Notice("connection lost; reconnecting"));
    }

    fn alone(&mut self, pause: Duration) -> Result<Option<Followed<T>>, CommandError> {
        match &mut self.follow.lines {
            Some(lines) => Ok(lines.leaves_within(pause)?.map(|gone| self.follow.gone(gone))),
            None => {
                std::thread::sleep(pause);
                Ok(None)
            }
        }
    }

    fn go_on(&mut self) -> Result<Option<Followed<T>>, Trouble> {
        self.begin(true)
    }

    fn way_back(&self) -> String {
        format!("start it: ostler up; then: ostler watch {} --from {}", self.follow.called, self.follow.next)
    }
}
