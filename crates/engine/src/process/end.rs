//! How processes end: by themselves, by a signal that escalates, or with the whole engine.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use ostler_keeper::{Listed, Scope, procfs};
use tokio::sync::{oneshot, watch};

use super::Process;
use crate::Engine;

/// SIGKILL, the signal that nothing survives.
pub(super) const KILL: i32 = 9;
/// After a KILL to the whole tree only the kernel is left to wait for.
const KILLED_WITHIN: Duration = Duration::from_secs(3);

/// How often a process whose end the disk does not take is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Between an end that is journaled and its acknowledgement.
const SETTLE: Duration = Duration::from_millis(1);

/// Between the end of both pipes, which makes an exit known, and the word that nobody holds them.
const DRAINED_WITHIN: Duration = Duration::from_millis(300);
/// Longer than a keeper's helper takes to hunt down a tree, or to give up.
const TREE_GONE_WITHIN: Duration = Duration::from_secs(15);

/// A signal that escalates.
#[derive(Debug, Clone, Copy)]
pub struct KillPlan {
    /// What is sent first, to the process's group.
    pub signal: i32,
    /// How long the process may take to end.
    pub grace: Duration,
    /// Whether the whole tree is killed when the grace is over.
    pub escalate: bool,
}

/// What became of a [`KillPlan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillOutcome {
    /// It had ended before; nothing was sent.
    AlreadyEnded,
    /// It ended within its grace.
    Ended,
    /// It ended after the whole tree had been killed.
    Killed,
    /// It still runs, and was not to be killed.
    Running,
    /// It was killed and has not ended: something in the kernel holds it.
    Unkillable,
}

/// What becomes of the children when the engine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every tree is killed.
    Kill,
    /// They go on without their pipes; nobody will know of them.
    Abandon,
    /// They stay with the keeper, for the daemon that takes over now.
    Leave,
    /// They stay with the keeper, until somebody starts a daemon again.
    Keep,
}

impl Process {
    /// Sends one signal: KILL to the whole tree, any other to the process's group.
    pub fn kill(&self, signal: i32) {
        self.is_told_to_end();
        self.signal(signal, if signal == KILL { Scope::Tree } else { Scope::Group });
    }

    /// Carries out `plan` and waits for what comes of it.
    pub async fn kill_and_wait(&self, plan: KillPlan) -> KillOutcome {
        if !self.is_running() {
            return KillOutcome::AlreadyEnded;
        }
        self.kill(plan.signal);
        if self.ended_within(plan.grace).await {
            return KillOutcome::Ended;
        }
        if !plan.escalate {
            return KillOutcome::Running;
        }
        self.kill(KILL);
        match self.ended_within(plan.grace.max(KILLED_WITHIN)).await {
            true => KillOutcome::Killed,
            false => KillOutcome::Unkillable,
        }
    }

    /// Whether the child itself is over, whoever else still holds its pipes and keeps its end from being journaled.
    pub(crate) fn has_left(&self) -> bool {
        let lives = |stat: procfs::Stat| !stat.is_dying() && stat.start_ticks == self.inner.start_ticks;
        !procfs::stat(self.pid()).is_ok_and(lives)
    }

    /// Ends whatever of its tree outlived it and still holds its pipes, and waits until that is gone. It has ended itself.
    pub(crate) fn end_tree(&self) {
        let drained = Instant::now() + DRAINED_WITHIN;
        while self.hosted().is_some() && Instant::now() < drained {
            std::thread::sleep(SETTLE);
        }
        let Some(keeper) = self.keeper().filter(|_| self.hosted().is_some()) else { return };
        let (tell, told) = mpsc::sync_channel(1);
        keeper.signal(self.id(), KILL, Scope::Tree, move |outcome| {
            // Nobody waits any more when this is late.
            let _ = tell.send(outcome);
        });
        match told.recv_timeout(TREE_GONE_WITHIN) {
            Ok(Ok(signalled)) if signalled.left.is_empty() => {}
            Ok(Ok(signalled)) => tracing::warn!("{}: cannot be ended: {:?}", self.id(), signalled.left),
            Ok(Err(error)) => tracing::warn!("{}: its tree was not ended: {error}", self.id()),
            Err(_) => tracing::warn!("{}: its tree takes too long to end", self.id()),
        }
    }

    /// Ends what this process, which lives on, started since `ticks` (clock ticks since boot): the tools of a turn that was
    /// stopped. Waits until they are gone.
    pub(crate) fn end_since(&self, ticks: u64) {
        let ended = ostler_keeper::end_younger(self.id(), (self.pid(), self.inner.start_ticks), ticks);
        if ended > 0 {
            tracing::info!("{}: {ended} processes of a turn that was stopped have been ended", self.id());
        }
    }

    async fn ended_within(&self, grace: Duration) -> bool {
        tokio::time::timeout(grace, self.over()).await.is_ok()
    }

    /// Waits until its end has been journaled, or until it is gone and the disk does not take that.
    async fn over(&self) {
        while tokio::time::timeout(LOOK_EVERY, self.wait_exit()).await.is_err() {
            if self.is_unrecorded() {
                return;
            }
        }
    }

    /// Whether it is gone, and the disk has not taken its end yet: to who reads its journal it still runs.
    pub fn is_unrecorded(&self) -> bool {
        let bounds = self.bounds();
        bounds.exit.is_none() && bounds.held_back.is_some() && !self.is_alive()
    }

    /// Whether the system knows it; one that was ended and not reaped is dead.
    fn is_alive(&self) -> bool {
        let known = ostler_keeper::procfs::stat(self.pid());
        known.is_ok_and(|known| known.start_ticks == self.inner.start_ticks && !known.is_zombie())
    }
}

impl Engine {
    /// Kills every process that was started through `endpoint`.
    pub async fn end_all_at(&self, endpoint: &str) {
        let is_at = |process: &Process| process.about().alias.as_ref().is_some_and(|alias| alias.space == endpoint);
        self.kill_all(self.list().into_iter().filter(|process| process.is_running() && is_at(process)).collect()).await;
    }

    /// Lets go of every process that was started through `endpoint`: it goes on without its pipes, and nobody knows of it.
    /// How many ran.
    pub fn abandon_all_at(&self, endpoint: &str) -> usize {
        let is_at = |process: &Process| process.about().alias.as_ref().is_some_and(|alias| alias.space == endpoint);
        let mut running = 0;
        for process in self.list().iter().filter(|process| is_at(process)) {
            running += usize::from(process.is_running());
            if process.is_running() || process.is_lingering() {
                self.inner.abandon(process);
            }
        }
        running
    }

    async fn kill_all(&self, running: Vec<Process>) {
        for process in &running {
            process.kill(KILL);
        }
        let all = async {
            for process in &running {
                process.over().await;
                // The keeper stays while it has an end that was not acknowledged.
                while process.hosted().is_some() && !process.is_unrecorded() {
                    tokio::time::sleep(SETTLE).await;
                }
            }
        };
        let in_time = tokio::time::timeout(KILLED_WITHIN, all).await.is_ok();
        let left: Vec<&Process> = running.iter().filter(|process| process.hosted().is_some()).collect();
        if in_time {
            // Their end is for a disk that has no room.
            left.iter().for_each(|process| self.inner.keeper().abandon(process.id()));
        } else {
            let ids: Vec<_> = left.iter().map(|process| process.id()).collect();
            tracing::warn!("still not gone after SIGKILL, and given up: {}", ids.join(", "));
            for process in left {
                self.inner.keeper().abandon(process.id());
            }
        }
    }

    /// Ends the engine's work as `ending` says; gives back how many children were running.
    pub async fn stop(&self, ending: Ending) -> usize {
        self.sessions().halt();
        self.inner.gate.close().await;
        let running: Vec<Process> = self.list().into_iter().filter(Process::is_running).collect();
        match ending {
            Ending::Leave => {
                // Leaving is not crashing: the keeper must not bring this daemon back beside its successor.
                if let Err(error) = self.inner.keeper().guard(None) {
                    tracing::warn!("the keeper may start this daemon again: {error}");
                }
                return running.len();
            }
            Ending::Keep => {}
            Ending::Abandon => {
                for process in self.inner.list().iter().filter(|process| process.is_running()) {
                    self.inner.abandon(process);
                }
                self.abandon_lingering();
            }
            Ending::Kill => {
                self.kill_all(self.inner.list().into_iter().filter(Process::is_running).collect()).await;
                self.abandon_lingering();
            }
        }
        if ending != Ending::Keep {
            self.empty_keeper(ending).await;
        }
        self.inner.keeper().farewell();
        self.inner.helpers().lose();
        running.len()
    }

    /// Has the keeper forget whatever it still holds, so that it goes too: what was asked for and not heard of in time, and
    /// ends that came after everything else.
    async fn empty_keeper(&self, ending: Ending) {
        let keeper = self.inner.keeper();
        let (tell, told) = oneshot::channel();
        keeper.list(move |listed| drop(tell.send(listed)));
        let Ok(Ok(Ok(held))) = tokio::time::timeout(KILLED_WITHIN, told).await else {
            return tracing::warn!("the keeper does not say what it holds; it may stay");
        };
        let lives = |child: &&Listed| child.exit.is_none() && ending == Ending::Kill;
        let (hunted, all_hunted) = watch::channel(());
        for child in held.iter().filter(lives) {
            let hunted = all_hunted.clone();
            keeper.signal(&child.key, KILL, Scope::Tree, move |_| drop(hunted));
        }
        drop(all_hunted);
        // Until every tree was hunted down, or given up.
        let _ = tokio::time::timeout(KILLED_WITHIN, hunted.closed()).await;
        for child in held {
            keeper.abandon(&child.key);
        }
    }

    /// What descendants of ended processes still have to say will have no reader, and no keeper waits for it.
    fn abandon_lingering(&self) {
        for process in self.list().iter().filter(|process| process.is_lingering()) {
            self.inner.abandon(process);
        }
    }
}
