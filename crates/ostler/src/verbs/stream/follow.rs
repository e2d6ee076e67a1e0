//! Following a session: its records in order, each once, across lost connections and new daemons.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;

use ostler_api::client::{ClientError, Incoming};
use ostler_api::{
    InterruptParams, Missing, Notification, PromptAccepted, PromptBlock, PromptParams, SessionEvent, SessionEvents,
    SessionGap, SessionInfo, WatchParams, Watching, methods,
};
use ostler_story::{Fact, Said};
use rustix::event::PollFlags;

use super::lines::{Line, Lines};
use super::link::Link;
use super::signals::{Signals, Wish, stop};
use super::terminal;
use super::trouble::Trouble;
use super::watched::{self, Watched};
use crate::output::{Called, CommandError, visible};
use crate::verbs::session::{Gone, InPlace, random_key};

/// Lines that wait for a daemon: as many as a session queues unless told otherwise.
const HELD_MAX: usize = 32;

/// What comes to whoever follows.
pub(in crate::verbs) enum Came<'a> {
    /// The watch begins, or goes on after the connection was lost.
    Begun(&'a Watching),
    Record(&'a SessionEvents),
    /// Records are missing.
    Gap(&'a SessionGap),
    /// A line that was typed is a prompt now.
    Sent(&'a PromptAccepted),
    /// Ctrl-C was typed, and no turn was running.
    AtRest,
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

/// What was typed and is not done yet.
enum Held {
    /// `begun`: a daemon may have it already. The key makes it one prompt, however often it is sent.
    Prompt {
        text: String,
        key: String,
        begun: bool,
    },
    Interrupt,
    Gone(Gone),
}

impl Held {
    fn new(line: Line) -> Result<Self, CommandError> {
        Ok(match line {
            Line::Text(text) => Self::Prompt { text, key: random_key()?, begun: false },
            Line::Interrupt => Self::Interrupt,
            Line::Leave => Self::Gone(Gone::Left),
            Line::HungUp => Self::Gone(Gone::Signal(signal_hook::consts::SIGHUP)),
        })
    }
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
    /// What was typed, in its order.
    held: VecDeque<Held>,
    /// Something that was typed while no daemon was there is not sent, which was said.
    unsent: bool,
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
        let (prompts, lines, held, unsent, in_place, past) = (None, None, VecDeque::new(), false, None, 0);
        Ok(Self { link, id, called, signals, next, prompts, terminal, lines, held, unsent, in_place, past, waiting })
    }

    /// Begins with the last so many prompts instead.
    pub(in crate::verbs) fn with_last(self, prompts: Option<u64>) -> Self {
        Self { prompts, ..self }
    }

    /// Lines are typed meanwhile: prompts, each of which is sent once.
    pub(in crate::verbs) fn typing(self, lines: Lines) -> Self {
        Self { lines: Some(lines), ..self }
    }

    /// Requests of the session are put to the person who follows.
    pub(in crate::verbs) fn asking(self, in_place: InPlace<'a>) -> Self {
        Self { in_place: Some(in_place.beside_a_transcript()), ..self }
    }

    /// Hands on what comes until `take` has something to give back, or the person leaves.
    pub(in crate::verbs) fn run<T, F>(self, take: F) -> Result<Followed<T>, CommandError>
    where
        F: FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    {
        let mut run = Run { follow: self, take };
        let begun = run.begin(false);
        let followed = watched::follow(&mut run, begun);
        run.tell_held()?;
        followed
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
        let prompts = follow.prompts;
        let from = prompts.is_none().then_some(follow.next);
        let params = WatchParams { id: follow.id.clone(), from, prompts, pieces: false };
        let watching = follow.link.client.call::<methods::SessionWatch>(&params)?;
        if follow.prompts.take().is_some() {
            follow.next = watching.from;
        }
        follow.past = watching.last;
        follow.waiting.clone_from(&watching.session.approvals);
        if again {
            let gone = self.send_held()?;
            let notice = match watching.from > self.follow.next {
                true => format!("reconnected; everything before {} was deleted (retention)", watching.from),
                false if std::mem::take(&mut self.follow.unsent) => "reconnected".to_owned(),
                false => "reconnected; nothing was lost".to_owned(),
            };
            self.hand(Came::Notice(&notice))?;
            if gone.is_some() {
                return Ok(gone);
            }
        }
        let done = (self.take)(Came::Begun(&watching))?.map(Followed::Over);
        let gone = self.follow.with_the_terminal(InPlace::again)?;
        Ok(done.or(gone.map(|gone| self.follow.gone(gone))))
    }

    /// Does what was typed. A prompt is held until a daemon has answered to it.
    fn send_held(&mut self) -> Result<Option<Followed<T>>, Trouble> {
        loop {
            let follow = &mut self.follow;
            let done = match follow.held.front_mut() {
                None => return Ok(None),
                Some(Held::Prompt { text, key, begun }) => {
                    let blocks = vec![PromptBlock::Text { text: text.clone() }];
                    let (id, key) = (follow.id.clone(), Some(key.clone()));
                    *begun = true;
                    let params = PromptParams { id, text: None, blocks, refuse_if_busy: false, key };
                    match follow.link.client.call::<methods::SessionPrompt>(&params) {
                        Ok(accepted) => self.hand(Came::Sent(&accepted))?,
                        Err(ClientError::Rpc(error)) => self.not_sent(&visible(&error.message))?,
                        Err(error) => return Err(error.into()),
                    }
                }
                Some(Held::Interrupt) => {
                    // Not again: what runs after a daemon came back may be something else.
                    follow.held.pop_front();
                    self.interrupt()?;
                    continue;
                }
                Some(Held::Gone(gone)) => {
                    let gone = *gone;
                    return Ok(Some(follow.gone(gone)));
                }
            };
            self.follow.held.pop_front();
            if done.is_some() {
                return Ok(done);
            }
        }
    }

    fn interrupt(&mut self) -> Result<(), Trouble> {
        let id = self.follow.id.clone();
        let params = InterruptParams { id, clear_queue: false, end_process: false, key: None };
        match self.follow.link.client.call::<methods::SessionInterrupt>(&params) {
            Ok(done) if done.interrupted => {}
            Ok(_) => drop(self.hand(Came::AtRest)?),
            Err(ClientError::Rpc(error)) => drop(self.hand(Came::Notice(&visible(&error.message)))?),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn not_sent(&mut self, why: &str) -> Result<Option<Followed<T>>, CommandError> {
        self.follow.unsent = true;
        self.hand(Came::Notice(&format!("not sent: {why}")))
    }

    /// Whoever leaves is told what of their lines went nowhere, and what perhaps did.
    fn tell_held(&mut self) -> Result<(), CommandError> {
        for held in std::mem::take(&mut self.follow.held) {
            let Held::Prompt { text, begun, .. } = held else { continue };
            let told = if begun { "it is not known whether this was sent" } else { "not sent" };
            self.hand(Came::Notice(&format!("{told}: {}", visible(&text))))?;
        }
        Ok(())
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
            self.follow.held.push_back(Held::new(line)?);
        }
        self.send_held()
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
        let Some(lines) = &mut self.follow.lines else {
            std::thread::sleep(pause);
            return Ok(None);
        };
        for line in lines.read_within(pause)? {
            match Held::new(line)? {
                // Nobody is there who could interrupt anything.
                Held::Interrupt => return Ok(Some(self.follow.gone(Gone::Left))),
                Held::Gone(gone) => return Ok(Some(self.follow.gone(gone))),
                prompt if self.follow.held.len() < HELD_MAX => self.follow.held.push_back(prompt),
                _ => drop(self.not_sent("not connected, and too many lines wait")?),
            }
        }
        Ok(None)
    }

    fn go_on(&mut self) -> Result<Option<Followed<T>>, Trouble> {
        self.begin(true)
    }

    fn way_back(&self) -> String {
        format!("start it: ostler up; then: ostler watch {} --from {}", self.follow.called, self.follow.next)
    }
}
