//! The free-space floor: below it the largest writer is held back, one per pass, so that the others, and whoever else
//! uses the disk, can go on. It waits in its pipe until space is back.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::fstatvfs;

use crate::pump::{HostedState, Message, PumpConfig};

/// A disk as whoever writes journals sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that may still be written.
    pub free: u64,
    /// Bytes of the whole file system.
    pub size: u64,
    /// With less than this free the largest writer is held back.
    pub keep_free: u64,
}

impl PumpConfig {
    /// The disk that `file` is on.
    pub fn space(&self, file: impl std::os::fd::AsFd) -> std::io::Result<Space> {
        let stat = fstatvfs(file)?;
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // A share, so that a small disk can be used, with a bound, so that a large one can.
        let share = size / 100 * u64::from(self.floor_percent.min(100));
        Ok(Space { free, size, keep_free: self.floor_bytes.min(share) })
    }
}

/// Who wrote less than this since the last pass is not worth holding back (200 ms: 1.25 MB/s).
const LARGE: u64 = 256 * 1024;
/// Let go only with this much more than the floor, so that nobody is held back and let go in turns.
const MARGIN: u64 = 64 << 20;

pub(crate) struct Floor {
    config: PumpConfig,
    held: Vec<Arc<HostedState>>,
}

impl Floor {
    pub(crate) fn new(config: &PumpConfig) -> Self {
        Self { config: config.clone(), held: Vec::new() }
    }

    /// Somebody is held back, so free space must be looked at although nothing is written.
    pub(crate) fn is_watching(&self) -> bool {
        !self.held.is_empty()
    }

    /// Looks at the free space of the file systems that were written to: one call each.
    pub(crate) fn check(&mut self, written: &[Arc<HostedState>]) {
        if self.config.floor_bytes == 0 || self.config.floor_percent == 0 {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        held.retain(|shared| {
            let keep = self.is_below(shared, MARGIN).is_some_and(|(_, below)| below);
            if !keep {
                shared.post(Message::Floor(false));
            }
            keep && !shared.is_closed()
        });
        self.held = held;
        let mut largest: Vec<(u64, u64, &Arc<HostedState>)> = Vec::new();
        for shared in written {
            let bounds = shared.journal.bounds();
            let total = bounds.out_end + bounds.err_end;
            let grown = total - shared.seen_bytes.swap(total, Ordering::Relaxed).min(total);
            if grown < LARGE || self.is_held(shared) {
                continue;
            }
            let Some((device, true)) = self.is_below(shared, 0) else { continue };
            match largest.iter_mut().find(|(other, _, _)| *other == device) {
                Some(slot) if slot.1 < grown => *slot = (device, grown, shared),
                Some(_) => {}
                None => largest.push((device, grown, shared)),
            }
        }
        for (_, _, shared) in largest {
            shared.post(Message::Floor(true));
            self.held.push(Arc::clone(shared));
        }
    }

    fn is_held(&self, shared: &Arc<HostedState>) -> bool {
        self.held.iter().any(|other| Arc::ptr_eq(other, shared))
    }

    /// The device, and whether less than the floor (and `margin` more) is free there; `None` in memory.
    fn is_below(&self, shared: &HostedState, margin: u64) -> Option<(u64, bool)> {
        shared.journal.dir()?;
        let files = shared.journal.files().ok()?;
        let device = files.out.metadata().ok()?.dev();
        let space = self.config.space(&files.out).ok()?;
        Some((device, space.free < space.keep_free + margin.min(space.keep_free / 8)))
    }
}
