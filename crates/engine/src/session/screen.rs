//! The agent's own screen on a session's conversation, as a hosted terminal program. One writer at a time: while it is open the
//! session takes no prompts, whoever sends them, and its own agent process has left before. Both are in the journal first, so
//! that a daemon that dies in between knows who has the conversation.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_agents::Unsupported;
use ostler_hooks::hook;
use ostler_story::{Exit, Fact};

use super::new::setup;
use super::sessions::SessionsInner;
use super::{Interrupt, Session};
use crate::{Caller, MayWait, Process, SpawnError, SpawnRequest, WinSize};

/// How long the session's own agent may take to stop its turn and to leave: as long as the ladder that ends it.
const LEFT_WITHIN: Duration = Duration::from_secs(30);
const TERM: i32 = 15;

/// How a screen is opened.
#[derive(Debug, Clone)]
pub struct NewScreen {
    /// The terminal's size.
    pub size: WinSize,
    /// What the person's terminal is, and their language.
    pub env: Vec<(OsString, OsString)>,
    /// A turn that runs is stopped, and what waits is dropped.
    pub interrupt: bool,
}

/// Why there is no screen. The conversation is where it was.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// The session is over.
    #[error("the session is closed")]
    Closed,
    /// This agent has none.
    #[error("{0} has no screen of its own that takes up a conversation")]
    NoScreen(String),
    /// There is no conversation that could be taken up.
    #[error("nothing was said in it yet, so there is nothing to take up")]
    NothingSaid,
    /// It is answering.
    #[error("the agent is in the middle of an answer")]
    Busy,
    /// Somebody else opens one in this moment.
    #[error("its screen is just being opened")]
    Opening,
    /// Its own agent process does not leave.
    #[error("its agent process does not end")]
    Stays,
    /// Whoever types there answers what the agent asks.
    #[error("who sits at an agent's screen decides for it, and ostler hosts who asks ({0})")]
    Hosted(String),
    /// So may somebody who can not be looked at.
    #[error("who sits at an agent's screen decides for it, and nobody can tell who asks")]
    Unknown,
    /// The agent can not do that.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It could not be written down.
    #[error("the session's journal: {0}")]
    Io(#[from] io::Error),
}

impl Session {
    /// The screen that has the conversation, while one is open.
    pub fn screen(&self) -> Option<Process> {
        let number = self.look().state.screen?;
        self.inner.shared.upgrade()?.engine().inner.by_key(&self.screen_key(number))
    }

    pub(super) fn screen_key(&self, number: u32) -> String {
        format!("session:{}:screen:{number}", self.inner.id)
    }

    /// Opens the agent's own screen on the conversation, or finds the one that is open. It waits for the disk and for
    /// the session's own agent to leave.
    pub fn open_screen(&self, wait: &MayWait, new: NewScreen, by: Caller) -> Result<Process, ScreenError> {
        match by {
            Caller::Free if self.is_locked() => return Err(ScreenError::Unknown),
            Caller::Free | Caller::Elsewhere => {}
            Caller::Hosted(host) => return Err(ScreenError::Hosted(host)),
            Caller::Unknown => return Err(ScreenError::Unknown),
        }
        let shared = self.inner.shared.upgrade().ok_or(ScreenError::Closed)?;
        let number = {
            let mut desk = self.pen(wait);
            let state = &desk.state;
            if state.closed {
                return Err(ScreenError::Closed);
            }
            if !state.created.agent.has_screen() {
                return Err(ScreenError::NoScreen(state.created.agent.name().to_owned()));
            }
            if state.settings.agent_session.is_none() {
                return Err(ScreenError::NothingSaid);
            }
            if state.screen.is_some() {
                drop(desk);
                return self.screen().filter(Process::is_running).ok_or(ScreenError::Opening);
            }
            if state.is_busy() && !new.interrupt {
                return Err(ScreenError::Busy);
            }
            let number = state.screens + 1;
            self.tell(&mut desk, Fact::Screen { number })?;
            number
        };
        hook!("session.screen");
        let opened = self.take_over(wait, &shared, number, &new);
        match &opened {
            Ok(process) => self.await_screen(&shared, number, process.clone()),
            Err(_) => self.screen_ended(wait, number, None)?,
        }
        opened
    }

    fn take_over(
        &self,
        wait: &MayWait,
        shared: &Arc<SessionsInner>,
        number: u32,
        new: &NewScreen,
    ) -> Result<Process, ScreenError> {
        if new.interrupt {
            self.interrupt(wait, Interrupt { clear_queue: true, end_process: false })?;
        }
        self.inner.bell.ring();
        let left = shared.runtime.block_on(async { tokio::time::timeout(LEFT_WITHIN, self.gone()).await });
        left.map_err(|_| ScreenError::Stays)?;
        let (created, settings, env) = {
            let desk = self.look();
            (desk.state.created.clone(), desk.state.settings.clone(), desk.env.clone())
        };
        // Read again: the turn that was stopped may have been its first, or have lost it.
        let conversation = settings.agent_session.clone().ok_or(ScreenError::NothingSaid)?;
        let launch = ostler_agents::screen(&setup(&created, &settings, None, ""), &conversation)?;
        let engine = shared.engine_of(created.joiner.as_deref());
        shared.runtime.block_on(engine.environment().settled());
        let path = engine.environment().wide_path();
        let bare = OsString::from(&launch.program);
        let program = crate::lookup::executable(&bare, &path).map_or(bare, PathBuf::into_os_string);
        let own = launch.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let env = self.ready_env(wait).into_iter().chain(env);
        let request = SpawnRequest {
            program,
            args: launch.args.iter().map(OsString::from).collect(),
            env: [(OsString::from("PATH"), path)].into_iter().chain(env).chain(new.env.clone()).chain(own).collect(),
            cwd: Some(created.workspace),
            name: Some(format!("{}.tui", settings.name.unwrap_or(created.id))),
            tty: Some(new.size),
            key: Some(self.screen_key(number)),
            screen_of: Some(self.inner.id.clone()),
            ..SpawnRequest::default()
        };
        Ok(shared.runtime.block_on(engine.spawn(request))?)
    }

    /// The session goes on when the screen has ended.
    fn await_screen(&self, shared: &SessionsInner, number: u32, process: Process) {
        let session = self.clone();
        shared.runtime.spawn(async move {
            let exit = process.wait_exit().await;
            let over = move |wait: &MayWait| {
                // It may have been a launcher: the agent that it started must not write beside the session's own.
                process.end_tree();
                session.screen_ended(wait, number, Some(exit))
            };
            if let Ok(Err(error)) = MayWait::pool(over).await {
                tracing::error!("a screen that has ended still holds its session: {error}");
            }
        });
    }

    fn screen_ended(&self, wait: &MayWait, number: u32, exit: Option<Exit>) -> io::Result<()> {
        let exit = exit.unwrap_or(Exit::Unknown);
        let mut desk = self.pen(wait);
        if desk.state.screen == Some(number) {
            self.tell(&mut desk, Fact::ScreenEnded { number, exit })?;
            self.rest(&desk);
        }
        Ok(())
    }

    /// After a daemon before this one: its screen still has the conversation, or has ended, or never began.
    pub(super) fn take_up_screen(&self, wait: &MayWait, shared: &Arc<SessionsInner>) {
        let Some(number) = self.look().state.screen else { return };
        match shared.engine().inner.by_key(&self.screen_key(number)) {
            Some(process) if process.is_running() => self.await_screen(shared, number, process),
            known => {
                known.iter().for_each(Process::end_tree);
                if let Err(error) = self.screen_ended(wait, number, known.and_then(|process| process.exit())) {
                    tracing::error!("{}: {error}", self.id());
                }
            }
        }
    }

    /// Nobody goes on with it: its screen ends too.
    pub(super) fn end_screen(&self) {
        if let Some(process) = self.screen() {
            process.kill(TERM);
        }
    }
}
