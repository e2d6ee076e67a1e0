//! Stopping: a turn, or the whole session. Both return at once; the session's thread climbs the ladder.

use std::io;
use std::time::Duration;

use ostler_story::Fact;

use super::desk::{Current, Pen};
use super::{Session, TreeFate};
use crate::MayWait;

/// How a turn is stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// What waits is dropped.
    pub clear_queue: bool,
    /// The process is ended (TERM to its group, then KILL), instead of the agent being asked first.
    pub end_process: bool,
}

/// Why a prompt was dropped that waited when its session was closed.
pub const CLOSED: &str = "the session was closed";

/// What an interrupt met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    /// A turn ran, and is being stopped.
    pub turn: bool,
    /// So many prompts waited and will not run.
    pub dropped: usize,
}

impl Session {
    /// Stops the turn that runs, if one does. May wait for the disk.
    pub fn interrupt(&self, wait: &MayWait, how: Interrupt) -> io::Result<Stopped> {
        let mut desk = self.pen(wait);
        let dropped = match how.clear_queue {
            true => self.drop_queue(&mut desk, "interrupted before its turn")?,
            false => 0,
        };
        let Some(turn) = desk.state.turn.as_ref().filter(|turn| !turn.ended) else {
            return Ok(Stopped { turn: false, dropped });
        };
        let (number, known) = (turn.prompt.number, turn.interrupt);
        if known.is_none() || (known == Some(false) && how.end_process) {
            self.tell(&mut desk, Fact::Interrupt { number, end_process: how.end_process })?;
        }
        drop(desk);
        self.inner.bell.ring();
        Ok(Stopped { turn: true, dropped })
    }

    /// Ends the session: no more prompts, and its process goes. May wait for the disk; [`gone`](Self::gone) waits for the
    /// process.
    pub fn close(&self, wait: &MayWait) -> io::Result<()> {
        let mut desk = self.pen(wait);
        if desk.state.closed {
            return Ok(());
        }
        self.drop_queue(&mut desk, CLOSED)?;
        self.tell(&mut desk, Fact::Closed {})?;
        desk.change(|desk| desk.end = true);
        self.rest(&desk);
        drop(desk);
        self.end_screen();
        self.inner.bell.ring();
        Ok(())
    }

    /// Closes, waits for the process, if it goes in time, and looks after the work tree that was made for it.
    pub async fn end(&self, within: Duration) -> io::Result<Option<TreeFate>> {
        let closing = self.clone();
        MayWait::pool(move |wait| closing.close(wait)).await.map_err(io::Error::other)??;
        // What can not be ended is left to the keeper, and listed by `ostler ps`.
        let ended = tokio::time::timeout(within, self.gone()).await.is_ok();
        let session = self.clone();
        let leave = move |wait: &MayWait| {
            let (shared, path) = (session.inner.shared.upgrade()?, session.look().state.created.worktree.clone()?);
            let engine = shared.engine_of(session.look().state.created.joiner.as_deref());
            shared.trees(engine.environment()).leave(wait, &path, ended)
        };
        MayWait::pool(leave).await.map_err(io::Error::other)
    }

    fn drop_queue(&self, desk: &mut Pen<'_>, why: &str) -> io::Result<usize> {
        let waiting: Vec<u64> = desk.state.queue.iter().map(|queued| queued.number).collect();
        for &number in &waiting {
            self.tell(desk, Fact::Dropped { number, why: why.to_owned() })?;
        }
        Ok(waiting.len())
    }

    /// Waits until nothing of it runs.
    pub async fn gone(&self) {
        loop {
            let rests = self.inner.rests.notified();
            if !self.look().driven {
                return;
            }
            rests.await;
        }
    }

    /// Remembers where it stands, if no thread is about to change it.
    pub(super) fn rest(&self, desk: &Current) {
        if !desk.driven {
            self.remember(desk);
        }
    }

    pub(super) fn remember(&self, desk: &Current) {
        self.inner.folder.note(&desk.state, self.inner.last.load(std::sync::atomic::Ordering::Acquire));
    }
}
