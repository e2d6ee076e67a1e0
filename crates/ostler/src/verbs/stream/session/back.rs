//! After a connection was lost: waiting for the next daemon, and going on at the same frame and the same typed byte.

use std::time::Duration;

use ostler_api::{AttachParams, Attached, ProcessInfo};
use rustix::event::{PollFd, poll};
use rustix::fs::Timespec;

use super::super::input::{Answered, Typed};
use super::super::link::Back;
use super::super::signals::Wish;
use super::super::trouble::Trouble;
use super::{Outcome, Session};
use crate::output::{CommandError, Kind};

/// What is to be said once everything that was typed is answered.
#[derive(Debug)]
pub(super) struct Owed {
    /// What is known of the output: something is missing.
    missing: Option<String>,
}

impl Session<'_> {
    /// The connection is gone: waits for the daemon's return and goes on at the same frame.
    pub(super) fn come_back(&mut self) -> Result<Option<Outcome>, CommandError> {
        let next = self.next;
        self.owed = None;
        self.say("connection lost; reconnecting");
        loop {
            let (input, mut left) = (&mut self.input, None);
            let back = self.link.reconnect(&mut self.signals, |pause| {
                left = keys(input, pause)?;
                Ok(left.is_some())
            })?;
            match back {
                Back::Connected => {}
                Back::Wished(Wish::End(signal)) => return Ok(Some(Outcome::Ended { next, signal })),
                Back::Wished(_) => return Ok(Some(Outcome::Left { next, interrupted: true })),
                Back::Left => {
                    let typed = left.unwrap_or(Typed::Detach);
                    if let Some(outcome) = self.typed(&typed) {
                        return Ok(Some(outcome));
                    }
                    continue;
                }
                Back::Alone => {
                    return Err(CommandError::new(Kind::NoInstance, "ostler stopped and did not come back").hint(
                        format!(
                            "everything keeps running; start it: ostler up; then: ostler attach {} --from {next}",
                            self.called
                        ),
                    ));
                }
            }
            match self.take_up(next).map_err(Trouble::from) {
                Ok(attached) => {
                    self.owed = Some(Owed { missing: missing(next, &attached) });
                    break;
                }
                Err(Trouble::Lost) => {}
                Err(Trouble::Fatal(error)) => return Err(error),
            }
        }
        self.tell_owed(&Answered::Fine);
        // Our words stand in the middle of a full-screen program's own.
        match self.begin_nudge() {
            Err(Trouble::Fatal(error)) => Err(error),
            // Lost again: the next turn finds out.
            Ok(()) | Err(Trouble::Lost) => Ok(None),
        }
    }

    fn take_up(&mut self, next: u64) -> Result<Attached, ostler_api::client::ClientError> {
        let (id, from) = (self.id.clone(), Some(next));
        let attached = self.attach(AttachParams { id, from, tail: None, lines: None, since: None, viewer: None })?;
        self.input.resend(&mut self.link.client, &self.id)?;
        Ok(attached)
    }

    /// Says how coming back went, once that is known: when all that was typed has its answer.
    pub(super) fn tell_owed(&mut self, answered: &Answered) {
        let unsure = match answered {
            Answered::Fine => None,
            Answered::Unsure(bytes) => Some(format!("the last {bytes} bytes typed may not have arrived")),
            Answered::Ended(bytes) | Answered::Refused(bytes) => {
                Some(format!("the last {bytes} bytes typed were not accepted"))
            }
        };
        let Some(owed) = &self.owed else {
            match (answered, unsure) {
                (Answered::Unsure(_), Some(unsure)) => self.say(&unsure),
                (Answered::Refused(_), Some(refused)) => self.say(&format!("{refused}: {}", self.takes_no_input())),
                // That it has ended is told in its own words.
                _ => {}
            }
            return;
        };
        if self.input.is_owed_an_answer() {
            return;
        }
        let text = match (&owed.missing, unsure) {
            (None, None) => "nothing was lost".to_owned(),
            (one, other) => one.iter().chain(other.iter()).map(String::as_str).collect::<Vec<_>>().join("; "),
        };
        self.say(&format!("reconnected; {text}"));
        self.owed = None;
    }
}

/// What the journal no longer has of what we have not seen.
fn missing(next: u64, attached: &Attached) -> Option<String> {
    let ProcessInfo { damaged_from, .. } = attached.process;
    match damaged_from {
        _ if attached.from > next => Some(format!("output before {} was deleted (retention)", attached.from)),
        Some(_) => Some("the disk failed, and output may be missing".to_owned()),
        None => None,
    }
}

/// Keys that are pressed while nobody is connected: kept, but for those that leave.
fn keys(input: &mut super::Input, pause: Duration) -> Result<Option<Typed>, CommandError> {
    let Some(interest) = input.interest() else {
        std::thread::sleep(pause);
        return Ok(None);
    };
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, interest)];
    match poll(&mut fds, Timespec::try_from(pause).ok().as_ref()) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match input.read()? {
        Typed::Taken | Typed::Ignored => Ok(None),
        leaves => Ok(Some(leaves)),
    }
}
