//! After a connection was lost: going on at the same frame and the same typed byte.

use std::time::Duration;

use ostler_api::client::ClientError;
use ostler_api::{AttachParams, Attached, ProcessInfo};
use rustix::event::{PollFd, poll};
use rustix::fs::Timespec;

use super::super::input::{Answered, Typed};
use super::ProcessWatch;
use crate::output::CommandError;

/// What is to be said once everything that was typed is answered.
#[derive(Debug)]
pub(super) struct Owed {
    /// What is known of the output: something is missing.
    missing: Option<String>,
}

impl ProcessWatch<'_> {
    /// Another daemon is there: goes on at the same frame and the same typed byte.
    pub(super) fn take_up(&mut self) -> Result<(), ClientError> {
        let (id, next) = (self.id.clone(), self.next);
        let params = AttachParams { id, from: Some(next), tail: None, lines: None, since: None, viewer: None };
        let attached = self.attach(params)?;
        self.input.resend(&mut self.link.client, &self.id)?;
        self.owed = Some(Owed { missing: missing(next, &attached) });
        self.tell_owed(&Answered::Fine);
        Ok(())
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
    let ProcessInfo { damaged_from, lost_after, .. } = attached.process;
    match damaged_from {
        _ if attached.from > next => Some(format!("output before {} was deleted (retention)", attached.from)),
        // Where it is missing is told there.
        _ if lost_after.is_some_and(|after| after + 1 >= attached.from) => Some("output was lost".to_owned()),
        Some(_) => Some("the disk failed, and output may be missing".to_owned()),
        None => None,
    }
}

/// Keys that are pressed while nobody is connected: kept, but for those that leave.
pub(super) fn keys(input: &mut super::Input, pause: Duration) -> Result<Option<Typed>, CommandError> {
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
