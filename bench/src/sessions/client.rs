//! One conversation: prompts go out under keys and are sent again until they are known to be taken; the watch goes on where it
//! was, on one connection after the other.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ostler_api::client::{Client as Native, ClientError, Incoming};
use ostler_api::{
    Autonomy, Lifetime, Notification, PromptParams, SessionCreateParams, SessionEvent, SessionEvents, WatchParams,
    methods,
};

use super::word;
use crate::approvals::native;
use crate::rng::Rng;

/// Prompts that may wait for their end: one runs, the others queue.
const AHEAD: usize = 3;
/// Everything is over long before this after the last kill, on any machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a client knows at the end.
pub(super) struct Log {
    pub(super) number: u64,
    /// The session, once it is known.
    pub(super) session: String,
    /// What was sent, in order.
    pub(super) prompts: Vec<String>,
    /// Every record that was received, in the order of receiving.
    pub(super) records: Vec<SessionEvents>,
    /// Why it gave up.
    pub(super) trouble: Option<String>,
}

pub(super) struct Client {
    socket: PathBuf,
    workspace: String,
    rng: Rng,
    log: Log,
    /// Prompts that are known to be taken.
    taken: usize,
    /// Turns that are known to be over.
    ended: usize,
}

impl Client {
    pub(super) fn new(dir: &Path, number: u64, rng: Rng) -> Self {
        let log = Log { number, session: String::new(), prompts: Vec::new(), records: Vec::new(), trouble: None };
        let workspace = dir.to_string_lossy().into_owned();
        Self { socket: native(dir), workspace, rng, log, taken: 0, ended: 0 }
    }

    pub(super) fn run(mut self, over: &AtomicBool) -> Log {
        let mut last_news = Instant::now();
        loop {
            let before = (self.taken, self.log.records.len());
            match self.talk(over) {
                Ok(()) => return self.log,
                Err(error) => {
                    // While daemons die faster than they look around, nothing may come for long.
                    if before != (self.taken, self.log.records.len()) || !over.load(Ordering::Acquire) {
                        last_news = Instant::now();
                    }
                    if last_news.elapsed() > PATIENCE {
                        self.log.trouble = Some(format!("nothing for {PATIENCE:?}: {error}"));
                        return self.log;
                    }
                }
            }
            // The daemon died, or does not live yet.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// One connection, until it breaks or everything is over.
    fn talk(&mut self, over: &AtomicBool) -> Result<(), ClientError> {
        let mut native = Native::connect(&self.socket)?;
        native.answer_within(Some(Duration::from_secs(60)))?;
        let session = native.call::<methods::SessionCreate>(&self.session())?;
        self.log.session.clone_from(&session.id);
        let from = self.log.records.last().map(|events| events.record + 1);
        native.call::<methods::SessionWatch>(&WatchParams {
            id: session.id.clone(),
            from,
            prompts: None,
            pieces: false,
        })?;
        loop {
            let done = over.load(Ordering::Acquire);
            if done && self.ended == self.log.prompts.len() && self.taken == self.log.prompts.len() {
                return Ok(());
            }
            // Every prompt is said again on every connection until its answer came.
            if self.taken < self.log.prompts.len() {
                let key = format!("{}-{}", self.log.number, self.taken);
                let text = self.log.prompts.get(self.taken).cloned();
                let params = PromptParams {
                    id: session.id.clone(),
                    text,
                    blocks: Vec::new(),
                    refuse_if_busy: false,
                    key: Some(key),
                };
                native.call::<methods::SessionPrompt>(&params)?;
                self.taken += 1;
            } else if !done && self.log.prompts.len() - self.ended < AHEAD {
                let prompt = self.prompt();
                self.log.prompts.push(prompt);
                continue;
            }
            self.receive(&mut native)?;
        }
    }

    fn receive(&mut self, native: &mut Native) -> Result<(), ClientError> {
        while let Some(notification) = native.take_early() {
            self.take(notification);
        }
        match native.take()? {
            Some(Incoming::Notification(notification)) => self.take(notification),
            Some(Incoming::Reply { .. }) => {}
            None => native.fill()?,
        }
        Ok(())
    }

    fn take(&mut self, notification: Notification) {
        if let Notification::Events(events) = notification {
            let ends = |event: &&SessionEvent| {
                let event = event.json();
                let said = word(event, "/type") == "said" && word(event, "/event/type") == "turn_ended";
                said || word(event, "/type") == "turn_ended"
            };
            self.ended += events.events.iter().filter(ends).count();
            self.log.records.push(events);
        }
    }

    fn session(&self) -> SessionCreateParams {
        let once = self.log.number % 2 == 1;
        SessionCreateParams {
            agent: "echo".into(),
            command: Vec::new(),
            program: None,
            workspace: self.workspace.clone(),
            name: Some(format!("bench {}", self.log.number)),
            autonomy: Some(if self.log.number < 2 { Autonomy::All } else { Autonomy::Ask }),
            raw_mode: None,
            model: None,
            lifetime: Some(if once { Lifetime::Turn } else { Lifetime::Session }),
            resume: None,
            env: Vec::new(),
            worktree: false,
            branch: None,
            key: Some(format!("session {}", self.log.number)),
        }
    }

    /// Words that no other prompt has, and now and then one that the echo obeys.
    fn prompt(&mut self) -> String {
        let number = self.log.prompts.len();
        let words = self.rng.between(1, 40);
        let mut text = format!("c{} p{number}", self.log.number);
        for word in 0..words {
            text.push_str(&format!(" w{word}-{}", self.rng.between(0, 99_999)));
        }
        match self.rng.between(0, 9) {
            0 => text.push_str(" SLOW:2"),
            1 | 2 => text.push_str(" ASK"),
            3 => text.push_str(" QUESTION"),
            4 => text.push_str(" TOOL THINK PLAN"),
            5 => text.push_str(&format!(" {}", "x".repeat(usize::try_from(self.rng.between(1, 200_000)).unwrap_or(1)))),
            _ => {}
        }
        text
    }
}
