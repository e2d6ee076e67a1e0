//! A keeper that died, or dropped us. Its children live on, and this daemon still has their descriptors: a new keeper
//! takes them over. What it cannot learn is how they end where the kernel tells only a parent; that is then unknown.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ostler_journal::PumpIo;
use ostler_keeper::{ChildIo, Import, Pty};
use rustix::pipe::{PipeFlags, pipe_with};

use super::adopt::{Reached, Report, reach_keeper};
use super::{Process, Registry};
use crate::MayWait;
use crate::access::at_large;

/// Attempts before the daemon goes on without a keeper; each waits longer than the one before.
const ATTEMPTS: u32 = 6;
/// The first pause between attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// A pump thread answers at once, unless its disk hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

impl Registry {
    pub(super) fn replace_keeper(self: &Arc<Self>, wait: &MayWait, report: &Report) {
        tracing::warn!("the keeper is gone; starting another");
        self.helpers().lose();
        for attempt in 0..ATTEMPTS {
            match reach_keeper(&self.config.dir, report, Some(&self.keeper()), &self.pumps) {
                Ok(reached) => return self.change_to(wait, reached),
                Err(error) => tracing::error!("no keeper yet: {error}"),
            }
            std::thread::sleep(PAUSE * 2u32.pow(attempt));
        }
        tracing::error!("no keeper: running children go on, nothing new can be started until `ostler restart`");
    }

    fn change_to(self: &Arc<Self>, wait: &MayWait, reached: Reached) {
        let Reached { keeper, adopted, is_new } = reached;
        let had_groups = self.has_groups();
        if is_new {
            // Before the new one is there: until then everybody sees that the old one is not.
            self.note_lost_keeper(wait, had_groups);
        }
        self.set_keeper(keeper.clone());
        self.entrust_again();
        self.note_hosting();
        if let Err(error) = keeper.guard(self.config.guard.clone()) {
            tracing::warn!("nobody restarts this daemon if it dies: {error}");
        }
        for child in adopted {
            match (self.get(&child.key), child.exit) {
                (None, _) => self.take_up_unheard(child),
                // Drained while the keeper was out of reach.
                (Some(process), Some(_)) if process.hosted().is_none() => keeper.ack(process.id()),
                (Some(process), Some(exit)) => process.child_exited(exit),
                (Some(_), None) => {}
            }
        }
        self.keeper_taken_up();
        if is_new {
            let hosted = self.list().into_iter().filter(|process| process.hosted().is_some());
            let children: Vec<Import> = hosted.filter_map(|process| self.import_of(&process)).collect();
            tracing::info!("the new keeper takes over {} children", children.len());
            keeper.import(children, |result| {
                if let Err(error) = result {
                    tracing::error!("a child was not taken over: {error}");
                }
            });
        }
    }

    /// The loss is an entry of the audit. Where its children were in no control groups, nobody decides until they have shown to be
    /// a person.
    pub(super) fn note_lost_keeper(&self, wait: &MayWait, had_groups: bool) {
        let closed = self.locks() && !had_groups;
        if closed && let Err(error) = at_large::note(&self.config.dir) {
            tracing::error!("other instances do not know that somebody got away: {error}");
        }
        if let Some(Err(error)) = self.inbox.get().map(|inbox| inbox.keeper_lost(wait, closed)) {
            tracing::error!("the loss of the keeper was not recorded: {error}");
        }
    }

    fn import_of(&self, process: &Process) -> Option<Import> {
        let io = duplicates(process)
            .and_then(|io| self.with_terminal(process, io))
            .inspect_err(|error| tracing::error!("{} is not taken over: {error}", process.id()))
            .ok()?;
        Some(Import {
            key: process.id().to_owned(),
            pid: process.pid(),
            start_ticks: process.inner.start_ticks,
            meta: process.described().for_keeper(),
            io,
            exit: process.exit(),
            group: ostler_keeper::group_of(process.pid()),
        })
    }
}

impl Registry {
    /// Adds the terminal that is kept beside the pump: without it nobody could answer the command after this daemon.
    fn with_terminal(&self, process: &Process, mut io: ChildIo) -> io::Result<ChildIo> {
        if let Some(terminal) = self.terminal(process.id()) {
            // Nobody journals it, but a keeper knows terminals only with what lies between them and a journal.
            let (relay_read, relay_write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            io.pty = Some(Pty { master: terminal.as_fd().try_clone_to_owned()?, relay_read, relay_write });
        }
        Ok(io)
    }
}

fn duplicates(process: &Process) -> io::Result<ChildIo> {
    let gone = || io::Error::other("its pump does not answer");
    let (tell, told) = mpsc::sync_channel(1);
    process.hosted().ok_or_else(gone)?.duplicate(Box::new(move |result| {
        // Nobody waits any more when this is late.
        let _ = tell.send(result);
    }));
    let PumpIo { stdin, stdout, stderr, ledger, hold: _, pty, relays } =
        told.recv_timeout(ANSWER_WITHIN).map_err(|_| gone())??;
    let memory_files = process.inner.journal.held()?;
    Ok(ChildIo {
        stdin,
        stdout,
        stderr,
        pty: pty.map(|pty| Pty { master: pty.master, relay_read: pty.relay_read, relay_write: pty.relay_write }),
        held: ledger.into_iter().chain(memory_files).chain(relays).collect(),
    })
}
