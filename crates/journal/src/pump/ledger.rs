//! The description of `in` through which input is delivered. The keeper shares it, because its position says how much was: not a
//! byte goes to the child before the keeper has it. Most processes never hear a byte, so it is made with the first one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::hosted::{Hold, HostedState, Message};
use crate::raw::Journal;

/// When a keeper that could not be given it is asked again: by then another one has come.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Ledger {
    fd: Option<OwnedFd>,
    is_shared: bool,
    /// How the keeper gets one; nothing where it has, or there is no input.
    hold: Option<Hold>,
    asked: bool,
    again_at: Option<Instant>,
    lane: Weak<HostedState>,
}

impl Ledger {
    /// `fd`: what the keeper shares already.
    pub(crate) fn of(fd: Option<OwnedFd>, hold: Option<Hold>, lane: &Arc<HostedState>) -> Self {
        let is_shared = fd.is_some();
        Self { fd, is_shared, hold, asked: false, again_at: None, lane: Arc::downgrade(lane) }
    }

    /// Whether there is input at all.
    pub(crate) fn is_possible(&self) -> bool {
        self.is_shared || self.hold.is_some()
    }

    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        self.fd.as_ref()
    }

    /// The descriptor once it may be used; until then the keeper is asked to share it.
    pub(crate) fn ready(&mut self, journal: &Journal) -> io::Result<Option<&OwnedFd>> {
        if self.is_shared {
            return Ok(self.fd.as_ref());
        }
        let Some(hold) = self.hold.as_ref().filter(|_| !self.asked) else { return Ok(None) };
        let fd = match self.fd.take() {
            Some(fd) => fd,
            None => journal.ledger_reader()?,
        };
        let theirs = fd.try_clone();
        self.fd = Some(fd);
        let lane = Weak::clone(&self.lane);
        self.asked = true;
        hold(
            theirs?,
            Box::new(move |held| {
                if let Some(lane) = lane.upgrade() {
                    lane.post(Message::Held(held));
                }
            }),
        );
        Ok(None)
    }

    /// The keeper has answered.
    pub(crate) fn held(&mut self, held: bool, now: Instant) {
        self.asked = false;
        self.is_shared |= held;
        self.again_at = (!held).then(|| now + AGAIN);
    }

    /// When input that waits is to be looked at; `None` = somebody will say.
    pub(crate) fn due(&self, at_once: Instant) -> Option<Instant> {
        match (self.is_possible(), self.asked) {
            (true, false) => Some(self.again_at.unwrap_or(at_once)),
            _ => None,
        }
    }
}
