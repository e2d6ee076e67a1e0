//! The one loop behind everything that is followed, a process or a session: what the daemon sends, what is typed, what
//! signals ask, and going on with the next daemon after a connection was lost. What each of these means is said by what is
//! followed.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ostler_api::client::{ClientError, Incoming};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use super::link::Link;
use super::signals::{Signals, Wish};
use super::trouble::Trouble;
use crate::output::{CommandError, Kind};
use crate::verbs::bells::{self, Bells};

/// A restart takes a moment and the keeper restarts a crashed daemon within seconds; beyond this somebody meant it.
const COME_BACK_WITHIN: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);

/// What is followed. Whatever gives back an end ends it.
pub(super) trait Watched<'a> {
    type End;

    fn ends(&mut self) -> (&mut Link<'a>, &mut Signals);

    /// What of our stdin is of interest.
    fn keys(&self) -> Option<PollFlags>;

    /// When something is to be done without anything having happened.
    fn due(&self) -> Option<Instant> {
        None
    }

    fn arrived(&mut self, incoming: Incoming) -> Result<Option<Self::End>, Trouble>;

    fn typed(&mut self) -> Result<Option<Self::End>, Trouble>;

    fn obey(&mut self, wish: Wish) -> Result<Option<Self::End>, Trouble>;

    fn is_due(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    /// The connection is gone.
    fn lost(&mut self);

    /// Waits at most so long while nobody is connected, for keys that leave.
    fn alone(&mut self, pause: Duration) -> Result<Option<Self::End>, CommandError>;

    /// Another daemon is connected: goes on at the same place.
    fn go_on(&mut self) -> Result<Option<Self::End>, Trouble>;

    /// What to do when no daemon comes back.
    fn way_back(&self) -> String;
}

/// Follows to an end; `begun` is what came of beginning.
pub(super) fn follow<'a, W: Watched<'a>>(
    watched: &mut W,
    begun: Result<Option<W::End>, Trouble>,
) -> Result<W::End, CommandError> {
    let mut turned = begun;
    loop {
        let end = match turned {
            Err(Trouble::Lost) => come_back(watched)?,
            turned => turned?,
        };
        if let Some(end) = end {
            return Ok(end);
        }
        turned = turn(watched);
    }
}

/// Handles what has arrived, then waits for more.
fn turn<'a, W: Watched<'a>>(watched: &mut W) -> Result<Option<W::End>, Trouble> {
    while let Some(incoming) = next(watched.ends().0)? {
        if let Some(end) = watched.arrived(incoming)? {
            return Ok(Some(end));
        }
    }
    let ready = wait(watched)?;
    for wish in watched.ends().1.take() {
        if let Some(end) = watched.obey(wish)? {
            return Ok(Some(end));
        }
    }
    if ready.keys
        && let Some(end) = watched.typed()?
    {
        return Ok(Some(end));
    }
    if ready.client {
        watched.ends().0.client.fill()?;
    }
    if ready.bells && !ready.client {
        ring(watched.ends().0);
    }
    if watched.due().is_some_and(|due| Instant::now() >= due) {
        watched.is_due()?;
    }
    Ok(None)
}

/// What is here already; first what came while a call waited for its answer.
fn next(link: &mut Link<'_>) -> Result<Option<Incoming>, ClientError> {
    match link.client.take_early() {
        Some(early) => Ok(Some(Incoming::Notification(early))),
        None => link.client.take(),
    }
}

struct Ready {
    client: bool,
    bells: bool,
    keys: bool,
}

fn wait<'a, W: Watched<'a>>(watched: &mut W) -> Result<Ready, Trouble> {
    let (keys, due) = (watched.keys(), watched.due());
    let timeout = due.map(|due| due.saturating_duration_since(Instant::now()));
    let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
    let stdin = rustix::stdio::stdin();
    let (link, signals) = watched.ends();
    let mut fds = vec![PollFd::new(&link.client, PollFlags::IN), PollFd::new(&*signals, PollFlags::IN)];
    fds.extend(link.bells.as_ref().map(|bells| PollFd::new(bells, PollFlags::IN)));
    let rings = fds.len() > 2;
    fds.extend(keys.map(|keys| PollFd::new(&stdin, keys)));
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(Trouble::Fatal(error.into())),
    }
    let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
    Ok(Ready { client: ready(0), bells: rings && ready(2), keys: ready(if rings { 3 } else { 2 }) })
}

/// Rings for what happens elsewhere; only while nothing comes, so that it falls between two things that are shown.
fn ring(link: &Link<'_>) {
    if let Some(text) = link.bells.as_ref().and_then(Bells::take) {
        // A terminal that is gone is found out by whoever shows something next.
        let _ = io::stdout().lock().write_all(&bells::ring(&text)).and_then(|()| io::stdout().lock().flush());
    }
}

/// The connection is gone: waits for the next daemon and goes on at the same place.
fn come_back<'a, W: Watched<'a>>(watched: &mut W) -> Result<Option<W::End>, CommandError> {
    watched.lost();
    let mut deadline = Instant::now() + COME_BACK_WITHIN;
    while Instant::now() < deadline {
        if watched.ends().0.reconnect()? {
            match watched.go_on() {
                Err(Trouble::Lost) => deadline = Instant::now() + COME_BACK_WITHIN,
                gone_on => return Ok(gone_on?),
            }
        }
        let leaves = |wish: &Wish| matches!(wish, Wish::Interrupt | Wish::End(_));
        if let Some(wish) = watched.ends().1.take().into_iter().find(leaves) {
            return Ok(watched.obey(wish)?);
        }
        if let Some(end) = watched.alone(RETRY)? {
            return Ok(Some(end));
        }
    }
    Err(CommandError::new(Kind::NoInstance, "ostler stopped and did not come back").hint(watched.way_back()))
}
