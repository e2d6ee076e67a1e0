//! Listening to one session, as anybody would who watches it: word by word, from a record number, through the death of the
//! daemon. What is heard is shown at once and kept, to be counted.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ostler_api::client::Client;
use ostler_api::{IdParams, Notification, SessionEvent, SessionIdParams, WatchParams, methods};
use ostler_story::{Event, Said};

use super::super::Context;
use super::super::connect::Reached;
use super::place::written_by;
use crate::output::{CommandError, length, visible};

/// A word comes every 40 ms; one that does not come in this time will not.
const NEXT_WORD: Duration = Duration::from_secs(10);
/// The keeper starts the next daemon after 100 ms.
const BACK_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
/// Every line of what is heard begins so.
const MARGIN: &str = "  ";

/// Somebody who listens.
pub(super) struct Listener<'a> {
    context: &'a Context,
    session: String,
    client: Client,
    /// The daemon that is listened to.
    pub(super) daemon: u32,
    /// The record that comes next.
    next: u64,
    pub(super) heard: Vec<String>,
    over: bool,
    lines: Lines,
}

/// What happened while there was no daemon.
pub(super) struct Absence {
    pub(super) lasted: Duration,
    pub(super) daemon: u32,
    /// What the agent wrote meanwhile, if the kernel tells.
    pub(super) written: Option<u64>,
}

impl<'a> Listener<'a> {
    pub(super) fn new(context: &'a Context, session: &str, width: usize) -> Result<Self, CommandError> {
        let Reached { client, hello, .. } = context.reach_one()?;
        let (heard, lines) = (Vec::new(), Lines { width, at: 0, quiet: context.json() });
        let session = session.to_owned();
        let mut listener = Self { context, session, client, daemon: hello.pid, next: 1, heard, over: false, lines };
        listener.watch()?;
        Ok(listener)
    }

    fn watch(&mut self) -> Result<(), CommandError> {
        self.client.answer_within(Some(NEXT_WORD))?;
        let params = WatchParams { id: self.session.clone(), from: Some(self.next), prompts: None, pieces: false };
        self.client.call::<methods::SessionWatch>(&params)?;
        Ok(())
    }

    /// Listens until so many words were heard, or the agent has no more to say.
    pub(super) fn until(&mut self, words: usize) -> Result<(), CommandError> {
        while self.heard.len() < words && !self.over {
            match self.client.next_notification()? {
                Notification::Events(record) => {
                    self.next = record.record + 1;
                    for said in record.events.iter().filter_map(SessionEvent::said) {
                        match said {
                            Said::Event(Event::TextDelta { text }) => {
                                self.lines.word(&text)?;
                                self.heard.push(text);
                            }
                            Said::Event(Event::TurnEnded { .. }) => self.over = true,
                            _ => {}
                        }
                    }
                }
                Notification::SessionLost(lost) => return Err(CommandError::failed(lost.message)),
                _ => {}
            }
        }
        Ok(self.lines.end()?)
    }

    /// The agent's process.
    pub(super) fn agent(&mut self) -> Result<u32, CommandError> {
        let session = self.client.call::<methods::SessionGet>(&SessionIdParams { id: self.session.clone() })?;
        let process = session.process.ok_or_else(|| CommandError::failed("the agent has no process"))?;
        Ok(self.client.call::<methods::ProcessGet>(&IdParams { id: process })?.pid)
    }

    /// Kills the daemon, waits until somebody has brought it back, and listens again from where it stopped.
    pub(super) fn kill_daemon(&mut self, agent: u32) -> Result<Absence, CommandError> {
        let killed = Instant::now();
        let before = written_by(agent);
        let pid = rustix::process::Pid::from_raw(self.daemon.cast_signed());
        let pid = pid.ok_or_else(|| CommandError::failed("the daemon has no pid"))?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(io::Error::from)?;
        loop {
            match self.context.reach_one() {
                Ok(reached) if reached.hello.pid != self.daemon => {
                    (self.client, self.daemon) = (reached.client, reached.hello.pid);
                    break;
                }
                Err(error) if killed.elapsed() > BACK_WITHIN => return Err(error),
                _ => std::thread::sleep(POLL),
            }
        }
        let (lasted, after) = (killed.elapsed(), written_by(agent));
        self.watch()?;
        let written = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok(Absence { lasted, daemon: self.daemon, written })
    }
}

/// Words in lines, as they come.
struct Lines {
    width: usize,
    at: usize,
    quiet: bool,
}

impl Lines {
    fn word(&mut self, word: &str) -> io::Result<()> {
        let word = visible(word.trim_end());
        if self.quiet || word.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        let room = length(&word) + 1;
        if self.at > 0 && self.at + room > self.width {
            writeln!(out)?;
            self.at = 0;
        }
        if self.at == 0 {
            write!(out, "{MARGIN}")?;
            self.at = MARGIN.len();
        } else {
            write!(out, " ")?;
            self.at += 1;
        }
        write!(out, "{word}")?;
        self.at += room - 1;
        out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.at) > 0 { writeln!(io::stdout().lock()) } else { Ok(()) }
    }
}
