//! A runner that is started while a person still reads, so that a yes has nothing left to start.
//!
//! It has checked what it will run and waits for a line on its stdin that only this daemon knows. Telling it is an append
//! to its stdin ledger, which the offset contract accepts once: the ledger says to every later daemon whether a waiting
//! runner was told, and one that was not never runs anything. It is a convenience and nothing depends on it; whatever is
//! odd about it, it is thrown away and the command is started anew.

use std::path::PathBuf;

use ostler_hooks::hook;
use ostler_stages::{Elevate, Spec};

use super::{ApplyError, CommandSetup, RUNNER_VERB, SHOWN_AS, spec};
use crate::approval::{CommandContent, Ticket, content_hash};
use crate::process::Registry;
use crate::{Appended, Engine, MayWait, Process, SpawnRequest, StdinError};

/// Before the id of the approval; another name than that of a runner that needs not be told.
pub(super) const KEY_PREFIX: &str = "waiting:";
/// SIGKILL: it holds nothing.
const KILL: i32 = 9;

/// A runner that waits to be told. When this daemon dies, the next one ends it, or it leaves by itself after a while.
pub struct WarmCommand {
    process: Process,
    /// Says it all: whoever knows it may let the runner go. In memory only, until it is told.
    word: String,
    spec_hash: String,
}

/// What came of telling a runner.
pub(super) enum TellOutcome {
    /// It runs, or will at once.
    Goes(Process),
    /// It heard nothing and never will.
    Not,
}

impl Engine {
    /// Starts the runner of a request that somebody is still asked about. Nothing runs before [`Engine::apply_command`].
    pub async fn warm_command(&self, ticket: &Ticket, setup: &CommandSetup) -> Option<WarmCommand> {
        let approval = ticket.approval().filter(|approval| approval.state.is_pending())?;
        let key = format!("{KEY_PREFIX}{}", ticket.id());
        if self.inner.by_key(&key).is_some() {
            // Of the daemon before us, and about to end.
            return None;
        }
        let content = CommandContent::parse(&approval.ask.content)?;
        // Whoever says yes to root most likely has a terminal. If not, this runner is not the right one.
        let elevate = if content.privileged { Elevate::AskOnTerminal } else { Elevate::No };
        let (path, spec_hash) =
            self.write_down(format!("{}.waiting", ticket.id()), spec(content, setup, elevate)).await.ok()?;
        let word = crate::id::uuid().ok()?;
        let request = SpawnRequest {
            program: self.inner.config.runner.clone().into_os_string(),
            shown_as: Some(SHOWN_AS.into()),
            args: vec![
                RUNNER_VERB.into(),
                path.into_os_string(),
                spec_hash.clone().into(),
                content_hash(&word).into(),
                std::process::id().to_string().into(),
            ],
            cwd: Some(PathBuf::from("/")),
            name: Some(format!("command of {}", ticket.id())),
            alias: setup.alias(&key),
            key: Some(key),
            void_exit: Some(ostler_stages::UNTOLD.into()),
            relayed_terminal: elevate == Elevate::AskOnTerminal,
            ..SpawnRequest::default()
        };
        match self.spawn_own(request).await {
            Ok(process) => Some(WarmCommand { process, word, spec_hash }),
            Err(error) => {
                tracing::debug!("no runner waits for {}: {error}", ticket.id());
                None
            }
        }
    }

    /// Lets a waiting runner go, if it is the right one.
    pub(super) async fn tell(&self, warm: WarmCommand, spec: &Spec) -> Result<TellOutcome, ApplyError> {
        let WarmCommand { process, word, spec_hash } = warm;
        let same = serde_json::to_string(spec).is_ok_and(|text| content_hash(&text) == spec_hash);
        if !same || !process.is_running() {
            self.discard(process);
            return Ok(TellOutcome::Not);
        }
        hook!("approval.telling");
        let line = format!("{word}\n").into_bytes();
        let length = line.len() as u64;
        match process.feed(Some(0), line).await {
            Ok(Appended { applied, duplicate: false }) if applied == length => {
                self.inner.feed.started(&process);
                Ok(TellOutcome::Goes(process))
            }
            Ok(_) | Err(StdinError::NotRunning | StdinError::Closed) => {
                self.discard(process);
                Ok(TellOutcome::Not)
            }
            // Half of a word lets nobody go, and the other half never comes.
            Err(error) => {
                self.discard(process);
                Err(ApplyError::NotTold(error))
            }
        }
    }

    /// Nobody will be told: the answer was no, or there is no asker any more.
    pub fn discard_command(&self, warm: WarmCommand) {
        self.discard(warm.process);
    }

    fn discard(&self, process: Process) {
        let engine = self.clone();
        tokio::spawn(async move {
            process.kill(KILL);
            process.wait_exit().await;
            let _ = MayWait::pool(move |wait| {
                if let Some(id) = process.about().key.as_deref().and_then(|key| key.strip_prefix(KEY_PREFIX)) {
                    let _ = std::fs::remove_file(engine.inner.approved(&format!("{id}.waiting")));
                }
                engine.forget(wait, &process)
            })
            .await;
        });
    }

    /// Ends what the daemon before us kept waiting: its word died with it.
    pub(super) fn discard_waiting(&self) {
        for process in self.inner.list().into_iter().filter(Process::is_waiting) {
            self.discard(process);
        }
    }
}

impl Registry {
    /// The runner of this approval that waited and was told.
    pub(super) fn told(&self, id: &str) -> Option<Process> {
        self.by_key(&format!("{KEY_PREFIX}{id}")).filter(|process| !process.is_waiting())
    }
}

impl Process {
    /// Whether it is a runner that nobody has told to go: as good as not there.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_runner() && self.bounds().applied == 0
    }

    /// Whether it is a runner that waits, or has waited, for its word.
    pub(crate) fn is_runner(&self) -> bool {
        self.about().key.as_deref().is_some_and(|key| key.starts_with(KEY_PREFIX))
    }
}
