//! How the engine is doing, in numbers.

use std::time::Duration;

use ostler_journal::{HeldReason, Space};
use ostler_keeper::Upgrade;

use crate::{Engine, MayWait};

/// A look at the whole engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Processes that run.
    pub running: usize,
    /// Processes that have ended and are kept.
    pub ended: usize,
    /// Processes whose output waits because the disk is full or failing.
    pub held_back: usize,
    /// Of these, how many only wait for others to find room: the disk is not full.
    pub held_by_floor: usize,
    /// Processes whose journal may be incomplete because the disk failed.
    pub damaged: usize,
    /// The age of the oldest byte that is not on the disk yet.
    pub oldest_unsynced: Duration,
    /// The parent of every child.
    pub keeper_pid: u32,
    /// What became of its change to this program, if it ran another.
    pub keeper_upgrade: Option<Upgrade>,
}

impl Engine {
    /// Whether daemon and keeper leave core files, and may be looked into by every program of their user.
    pub fn allow_core_dumps(&self, allowed: bool) {
        if allowed {
            ostler_keeper::shield::lower();
        }
        // It may have been allowed under the daemon before us.
        self.inner.keeper().allow_core_dumps(allowed);
    }

    /// Counts without touching the disk.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            running: 0,
            ended: 0,
            held_back: 0,
            held_by_floor: 0,
            damaged: 0,
            oldest_unsynced: self.inner.pumps.oldest_unsynced(),
            keeper_pid: self.inner.keeper().pid(),
            keeper_upgrade: self.inner.keeper().upgrade(),
        };
        for process in self.list() {
            let bounds = process.bounds();
            match bounds.exit {
                Some(_) => stats.ended += 1,
                None => stats.running += 1,
            }
            stats.held_back += usize::from(bounds.held_back.is_some());
            stats.held_by_floor += usize::from(bounds.held_back.is_some_and(|held| held.reason == HeldReason::Floor));
            stats.damaged += usize::from(bounds.damaged_from.is_some());
        }
        stats
    }

    /// The disk that journals are on. May wait for it.
    pub fn space(&self, _wait: &MayWait) -> std::io::Result<Space> {
        let config = &self.inner.config;
        config.retention.pumps(config.sync_every).space(std::fs::File::open(&config.dir)?)
    }

    /// What all journals occupy on the disk. Walks their folder.
    pub fn journal_bytes(&self, _wait: &MayWait) -> u64 {
        let folders = std::fs::read_dir(self.inner.processes_dir()).into_iter().flatten().flatten();
        // A folder that goes while it is looked at counts as gone.
        let folders: u64 = folders.map(|folder| ostler_journal::disk_usage(&folder.path()).unwrap_or(0)).sum();
        folders + self.inner.roll.size()
    }

    /// Whether a request with this key was carried out before.
    pub fn has_seen(&self, wait: &MayWait, key: &str) -> bool {
        self.inner.keys.has_seen(wait, key)
    }

    /// Whether a request with this key comes for the first time; the same key again is the same request.
    pub fn first_use(&self, wait: &MayWait, key: &str) -> bool {
        self.inner.keys.first_use(wait, key)
    }
}
