//! A request in memory, and the log added up: what every start and every look at old requests begins with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::chain::Entry;
use super::confirmed::Confirmed;
use super::store::{Store, StoreError};
use super::{Approval, Ask, Record, Rule, State, clock};
use crate::access::device::roster::Roster;

/// Settled requests that are answered from memory; older ones come from the log.
pub(super) const RECENT: usize = 256;

/// As long as any request can be fresh, twice: a name that was used may not be used again in that time.
pub(super) const REPLAY_MS: u64 = 180_000;

/// A request and what only this machine's clock and this daemon's life say about it.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) approval: Approval,
    pub(super) boot: String,
    pub(super) asked_boot: u64,
    pub(super) shown_boot: Option<u64>,
    /// The asker may come back until this time since boot; nothing when it is there, or not expected.
    pub(super) orphan_until: Option<u64>,
}

impl Live {
    pub(super) fn new(id: String, ask: Ask, hash: String, asked_at: u64, boot: String, asked_boot: u64) -> Self {
        let approval =
            Approval { id, ask, hash, asked_at, state: State::new(), decided: None, relayed: false, expires_in: None };
        Self { approval, boot, asked_boot, shown_boot: None, orphan_until: None }
    }

    /// Lets a record change the request; `false` if it can not follow.
    pub(super) fn take(&mut self, record: &Record, at_ms: u64) -> bool {
        let approval = &mut self.approval;
        let Ok(state) = record.apply(&approval.state, &approval.hash) else { return false };
        approval.state = state;
        match record {
            Record::Shown { boot_ms, .. } => self.shown_boot = Some(*boot_ms),
            Record::Decided { by, .. } => approval.decided = Some((by.clone(), at_ms)),
            Record::Suspended => (approval.decided, self.shown_boot) = (None, None),
            _ => {}
        }
        true
    }

    /// When it is too late to decide, since boot.
    pub(super) fn deadline(&self) -> Option<u64> {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let ask = &self.approval.ask;
        let shown = ask.after_shown.zip(self.shown_boot).map(|(span, at)| at.saturating_add(millis(span)));
        let asked = ask.after_asked.map(|span| self.asked_boot.saturating_add(millis(span)));
        [shown, asked].into_iter().flatten().min()
    }

    pub(super) fn look(&self) -> Approval {
        let left = self.deadline().filter(|_| self.approval.state.is_pending());
        Approval { expires_in: left.map(|end| end.saturating_sub(clock::boot_ms())), ..self.approval.clone() }
    }
}

/// The log, added up.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) seq: u64,
    pub(super) boot: String,
    pub(super) live: BTreeMap<String, Live>,
    pub(super) recent: VecDeque<String>,
    pub(super) rules: Vec<Rule>,
    pub(super) confirmed: Confirmed,
    pub(super) devices: Roster,
    /// Names of rules that nobody vouches for.
    pub(super) suspended: BTreeSet<String>,
    /// Names that count as used, and the requests they stand for.
    pub(super) keys: Vec<(String, String)>,
    pub(super) impossible: Option<String>,
    /// A keeper was lost in this boot, and nobody has shown since to be a person.
    pub(super) locked: Option<String>,
    /// The last checkpoint.
    pub(super) summed: u64,
}

impl Sum {
    pub(super) fn add(&mut self, entry: &Entry, record: &Record) {
        self.seq = entry.seq;
        if entry.about.is_none() || !matches!(record, Record::Suspended) {
            self.devices.take(record, entry.at_ms);
        }
        match record {
            Record::Checkpoint { .. } => self.summed = entry.seq,
            Record::KeeperLost { closed: true } => self.locked = Some(self.boot.clone()),
            Record::Proved { .. } => self.locked = None,
            Record::Opened { boot, .. } => self.boot.clone_from(boot),
            Record::RuleAdded { rule } => self.rules.push(rule.clone()),
            Record::RuleRevoked { name, .. } => self.rules.retain(|rule| rule.name != *name),
            Record::Suspended if entry.about.is_none() => {
                self.suspended = self.rules.iter().map(|rule| rule.name.clone()).collect();
                self.confirmed.take(record);
            }
            Record::Affirmed { rules, .. } => self.suspended.retain(|name| !rules.contains(name)),
            other => self.confirmed.take(other),
        }
        let Some(id) = &entry.about else { return };
        if let Record::Asked { boot_ms, content, .. } = record {
            if let Some(ask) = record.ask() {
                if clock::wall_ms() < entry.at_ms.saturating_add(REPLAY_MS) {
                    self.keys.extend(ask.key.clone().map(|key| (key, id.clone())));
                }
                let live = Live::new(id.clone(), ask, content.clone(), entry.at_ms, self.boot.clone(), *boot_ms);
                self.live.insert(id.clone(), live);
            }
            return;
        }
        let Some(live) = self.live.get_mut(id) else { return };
        if !live.take(record, entry.at_ms) {
            self.impossible.get_or_insert_with(|| format!("entry {} cannot follow from what was before", entry.seq));
        }
        if live.approval.state.is_final() && !self.recent.contains(id) {
            self.recent.push_back(id.clone());
            if self.recent.len() > RECENT
                && let Some(oldest) = self.recent.pop_front()
            {
                self.live.remove(&oldest);
            }
        }
    }
}

impl Store {
    /// One request with its content, also one from long ago that memory does not know.
    pub(super) fn approval(&self, id: &str, known: Option<Approval>) -> Result<Option<Approval>, StoreError> {
        let found = match known {
            Some(approval) => Some(approval),
            None => {
                let mut sum = Sum::default();
                for entry in self.about(id)? {
                    if let Ok(record) = serde_json::from_str::<Record>(&entry.body) {
                        sum.add(&entry, &record);
                    }
                }
                sum.live.remove(id).map(|live| live.look())
            }
        };
        let Some(mut approval) = found else { return Ok(None) };
        approval.ask.content = self.content(&approval.hash)?.unwrap_or_default();
        Ok(Some(approval))
    }
}
