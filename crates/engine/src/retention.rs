//! What is kept of processes that are over: whole journals, for a while, up to a total.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ostler_journal::PumpConfig;

use crate::process::Registry;
use crate::{Engine, MayWait, Process};

/// The bounds on what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// How long after its end a process is kept.
    pub after_exit: Duration,
    /// How much all ended processes may take together.
    pub total: u64,
    /// How many ended processes are kept of what each door was asked for.
    pub count: usize,
    /// How much of a running process's output is kept; all of it if not given.
    pub live_max: Option<u64>,
    /// How much of the disk stays free: with less, the largest writer is held back. A share with an upper bound if not given.
    pub keep_free: Option<u64>,
}

impl Default for Retention {
    fn default() -> Self {
        let after_exit = Duration::from_secs(24 * 3600);
        // Four kilobytes of memory each.
        Self { after_exit, total: 8 << 30, count: 5_000, live_max: None, keep_free: None }
    }
}

/// What pruning did, or would do.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PruneReport {
    /// The ids that went.
    pub removed: Vec<String>,
    /// The disk space they had.
    pub freed: u64,
    /// Ended processes that stay.
    pub kept: usize,
}

impl Retention {
    /// How the pumps keep to it.
    pub(crate) fn pumps(&self, sync_every: Duration) -> PumpConfig {
        let usual = PumpConfig { sync_every, ..PumpConfig::default() };
        match self.keep_free {
            Some(bytes) => PumpConfig { floor_bytes: bytes, floor_percent: 100, ..usual },
            None => usual,
        }
    }
}

impl Engine {
    /// Deletes what retention no longer keeps. Blocks on the disk.
    pub fn prune(&self, wait: &MayWait, dry_run: bool) -> PruneReport {
        if let (false, Err(error)) = (dry_run, self.discarded(wait)) {
            tracing::warn!("{}: {error}", self.discarded_folder().display());
        }
        if let (false, Err(error)) = (dry_run, self.prune_finished(wait)) {
            tracing::warn!("what was kept of finished sessions: {error}");
        }
        let retention = &self.inner.config.retention;
        let now = SystemTime::now();
        let usage = |process: &Process| ostler_journal::disk_usage(&self.inner.dir_of(process.id())).unwrap_or(0);
        let ended: Vec<(u64, Finished)> =
            self.inner.finished().into_iter().map(|one| (usage(&one.process), one)).collect();
        let mut total: u64 = ended.iter().map(|(size, _)| size).sum();
        let mut report = PruneReport::default();
        for (size, Finished { at, process, is_surplus }) in ended {
            let expired = now.duration_since(at).is_ok_and(|age| age > retention.after_exit);
            if !expired && !is_surplus && total <= retention.total {
                report.kept += 1;
                continue;
            }
            total -= size;
            report.freed += size;
            report.removed.push(process.id().to_owned());
            if !dry_run {
                self.inner.forget(wait, &process);
            }
        }
        report
    }

    /// Deletes an ended process's journal and names now; a running one is left alone and `false` comes back.
    pub fn forget(&self, wait: &MayWait, process: &Process) -> bool {
        self.inner.forget(wait, process)
    }
}

/// A process that is over.
struct Finished {
    at: SystemTime,
    process: Process,
    /// As many of its kind as are kept ended after it.
    is_surplus: bool,
}

impl Registry {
    /// What is over, oldest first.
    fn finished(&self) -> Vec<Finished> {
        let over = |process: Process| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(process.bounds().exit?.time_ns);
            Some(Finished { at, process, is_surplus: false })
        };
        let mut ended: Vec<Finished> =
            self.list().into_iter().filter(|one| !one.is_waiting()).filter_map(over).collect();
        ended.sort_by_key(|one| one.at);
        let mut counts: HashMap<_, usize> = HashMap::new();
        for Finished { process, is_surplus, .. } in ended.iter_mut().rev() {
            // One that starts thousands pushes out only its own, and a hosted program nothing of a person's.
            let about = process.about();
            let count =
                counts.entry((about.alias.as_ref().map(|alias| &alias.space), about.owner.is_some())).or_default();
            *count += 1;
            *is_surplus = *count > self.config.retention.count;
        }
        ended
    }

    /// Forgets those who are too many. Before it is time for everything else: thousands may end in a minute.
    pub(crate) fn forget_surplus(&self, wait: &MayWait) {
        if self.known() > self.config.retention.count {
            for one in self.finished().into_iter().filter(|one| one.is_surplus) {
                self.forget(wait, &one.process);
            }
        }
    }

    fn forget(&self, _wait: &MayWait, process: &Process) -> bool {
        if process.is_unrecorded() {
            // Its own output may be what leaves no room for its end.
            self.abandon(process);
        } else if process.is_running() {
            return false;
        }
        self.remove(process);
        match self.forget_files(&self.dir_of(process.id())) {
            Ok(()) => self.feed.process_forgotten(process.id()),
            Err(error) => tracing::warn!("{}: {error}", process.id()),
        }
        true
    }

    /// Deletes everything on the disk about the process whose folder this is, or would be.
    pub(crate) fn forget_files(&self, folder: &Path) -> io::Result<()> {
        let removed = match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let id = folder.file_name().and_then(|id| id.to_str()).unwrap_or_default();
        removed.and(self.roll.forget(id))
    }
}
