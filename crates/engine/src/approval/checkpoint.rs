//! Checkpoints: the entries that the sum of the log is made of, put together now and then, so that a start reads only what
//! came after. Only entries that still matter are in one; the log keeps them all.

use std::collections::{HashSet, VecDeque};

use super::chain::Entry;
use super::desk::Desk;
use super::live::REPLAY_MS;
use super::store::{Change, StoreError};
use super::walk::Walk;
use super::{Record, clock, content_hash};

/// Entries after which the sum is written anew: a start reads that many in some milliseconds.
const EVERY: u64 = 4096;
/// Starts of the daemon that are remembered: what was asked before them is of another boot, or long over.
const STARTS_MAX: usize = 64;

#[cfg(test)]
impl super::Inbox {
    /// As if enough had been written.
    pub(super) fn sum_up_now(&self) {
        let work = |desk: &mut Desk| {
            desk.summed = 0;
            desk.is_at(desk.seq().max(EVERY));
            desk.sum_up();
            desk.is_at(desk.store.last.0);
            Ok::<_, StoreError>(())
        };
        self.within(crate::may_wait::IN_A_TEST, std::time::Duration::ZERO, work).unwrap();
    }
}

impl Desk {
    /// Writes a checkpoint if one is due. One that cannot be written costs time at the next start, and nothing else.
    pub(super) fn sum_up(&mut self) {
        if self.seq() < self.summed + EVERY {
            return;
        }
        self.summed = self.seq();
        match self.write_sum() {
            Ok(seq) => self.is_at(seq),
            Err(error) => tracing::error!("no checkpoint: {error}"),
        }
    }

    fn write_sum(&mut self) -> Result<u64, StoreError> {
        let body = serde_json::to_string(&self.that_matter()?).unwrap_or_default();
        let record = Record::Checkpoint { sha256: content_hash(&body) };
        let at_ms = clock::wall_ms();
        // Not through the usual way, which leads here.
        self.store.append(&Change { at_ms, records: &[&record], checkpoint: Some(&body), ..Change::default() })
    }

    /// What is in memory, as the entries that made it. They are read from a file that others can write: they count only if
    /// the chain over all of them ends where ours does.
    fn that_matter(&self) -> Result<Vec<Entry>, StoreError> {
        let late = clock::wall_ms().saturating_sub(REPLAY_MS);
        let (mut found, mut starts) = (Vec::new(), VecDeque::new());
        // Names of these count as used; without how they ended they would wait again.
        let mut of_late = HashSet::new();
        let end =
            Walk::new(&self.store).upto(self.store.last.0).without_contents().since_checkpoint(|entry, record| {
                if matches!(record, Record::Asked { .. }) && entry.at_ms > late {
                    of_late.extend(entry.about.clone());
                }
                let lives = entry.about.as_ref().is_some_and(|id| self.live.contains_key(id) || of_late.contains(id));
                let matters = match record {
                    Record::Opened { .. } => {
                        starts.push_back(entry.clone());
                        let more = starts.len().saturating_sub(STARTS_MAX);
                        starts.drain(..more);
                        false
                    }
                    // One that was revoked does not come back with the request that made it.
                    Record::RuleAdded { rule } => self.rules.iter().any(|known| known.name == rule.name),
                    Record::Suspended | Record::Affirmed { .. } => true,
                    Record::SettingConfirmed { .. } | Record::SettingLapsed { .. } => true,
                    Record::KeeperLost { .. } | Record::Proved { .. } => true,
                    _ => lives || self.devices.needs(record, entry.at_ms),
                };
                if matters {
                    found.push(entry.clone());
                }
            })?;
        if end != self.store.last {
            return Err(self.store.tampered("what was written before is not what is there".into()));
        }
        found.extend(starts);
        found.sort_by_key(|entry| entry.seq);
        Ok(found)
    }
}
