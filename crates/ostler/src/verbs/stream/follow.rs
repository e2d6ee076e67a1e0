//! Following a session: its records in order, each once, across lost connections and new daemons.

use std::io;

use ostler_api::client::{ClientError, Incoming};
use ostler_api::{Notification, SessionEvents, WatchParams, Watching, methods};
use rustix::event::{PollFd, PollFlags, poll};

use super::link::{Back, Link};
use super::signals::{Signals, Wish};
use super::trouble::Trouble;
use crate::output::{CommandError, Kind};

/// What comes to whoever follows.
pub(in crate::verbs) enum Came<'a> {
    /// The watch begins, or goes on after the connection was lost.
    Begun(&'a Watching),
    Record(&'a SessionEvents),
    /// Everything before this record was let go.
    Gap(u64),
}

/// How following ended.
#[derive(Debug)]
pub(in crate::verbs) enum Followed<T> {
    /// What was followed has come to its end.
    Over(T),
    /// Ctrl-C; `next` is the first record that was not shown.
    Left { next: u64 },
    /// A signal ended it.
    Ended { next: u64, signal: i32 },
}

pub(in crate::verbs) struct Follow<'a> {
    link: Link<'a>,
    id: String,
    signals: Signals,
    /// The first record not shown yet.
    next: u64,
}

impl<'a> Follow<'a> {
    /// Follows the session from record `from` on.
    pub(in crate::verbs) fn new(link: Link<'a>, id: &str, from: u64) -> io::Result<Self> {
        Ok(Self { link, id: id.to_owned(), signals: Signals::listen()?, next: from.max(1) })
    }

    /// Hands on what comes until `take` has something to give back, or the person leaves.
    pub(in crate::verbs) fn run<T>(
        mut self,
        mut take: impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Followed<T>, CommandError> {
        if let Some(done) = take(Came::Begun(&self.watch()?))? {
            return Ok(Followed::Over(done));
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

    fn watch(&mut self) -> Result<Watching, ClientError> {
        let params = WatchParams { id: self.id.clone(), from: Some(self.next) };
        self.link.client.call::<methods::SessionWatch>(&params)
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
                    Came::Gap(gap.first)
                }
                Notification::SessionLost(lost) => {
                    let message =
                        format!("the journal of {} cannot be read after {}: {}", self.id, self.next - 1, lost.message);
                    return Err(Trouble::Fatal(
                        CommandError::failed(message).hint("`ostler doctor` looks at the disk"),
                    ));
                }
                _ => continue,
            };
            if let Some(done) = take(came)? {
                return Ok(Some(Followed::Over(done)));
            }
        }
        let mut fds = [PollFd::new(&self.link.client, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::Fatal(error.into())),
        }
        let readable = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        if let Some(followed) = self.signals.take().into_iter().find_map(|wish| self.leave(wish)) {
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

    fn leave<T>(&self, wish: Wish) -> Option<Followed<T>> {
        match wish {
            Wish::Interrupt => Some(Followed::Left { next: self.next }),
            Wish::End(signal) => Some(Followed::Ended { next: self.next, signal }),
            Wish::Suspend => {
                // Nothing to put in order: stopped like any program.
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
                None
            }
            Wish::Resized | Wish::Continued => None,
        }
    }

    /// The connection is gone: waits for the daemon's return and goes on at the same record.
    fn come_back<T>(
        &mut self,
        take: &mut impl FnMut(Came<'_>) -> Result<Option<T>, CommandError>,
    ) -> Result<Option<Followed<T>>, CommandError> {
        eprintln!("ostler: connection lost; waiting for ostler to come back");
        loop {
            let back = self.link.reconnect(&mut self.signals, |pause| {
                std::thread::sleep(pause);
                Ok(false)
            })?;
            match back {
                Back::Connected => {}
                Back::Left => return Ok(Some(Followed::Left { next: self.next })),
                Back::Wished(wish) => return Ok(self.leave(wish)),
                Back::Alone => {
                    let hint = format!("ostler up, then: ostler watch {} --from {}", self.id, self.next);
                    return Err(
                        CommandError::new(Kind::NoInstance, "the daemon is gone and has not come back").hint(hint)
                    );
                }
            }
            match self.watch().map_err(Trouble::from) {
                Ok(watching) => {
                    eprintln!("ostler: connected again; nothing was lost");
                    return Ok(take(Came::Begun(&watching))?.map(Followed::Over));
                }
                Err(Trouble::Lost) => {}
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
    }
}
