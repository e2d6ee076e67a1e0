//! The inbox's memory: the sum of its log, and the only place that adds to it.
//! Every method here may wait for the disk; nothing it says is true before the log has it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::confirmed::Confirmed;
use super::contents::{Fate, KEPT_BYTES};
use super::error::{AskError, DecideError};
use super::flood::{Flood, who};
use super::held_rules::HeldRule;
use super::live::{Live, RECENT, Sum};
use super::replay::{Name, Replay};
use super::snapshot::Snapshot;
use super::store::{Change, FoundLog, News, Store, StoreError};
use super::vouch::Witness;
use super::{Approval, Ask, AskKind, Bound, By, Decision, Effect, Outcome, Record, Rule, State};
use super::{clock, content_hash, machine, record};
use crate::access::device::roster::Roster;
use crate::feed::Noted;

/// What all waiting requests may hold together: a list of them is one answer.
const PENDING_BYTES: usize = 32 * 1024 * 1024;
/// What those of one asker may: a few of the largest that any door takes.
const ASKER_BYTES: usize = 8 * 1024 * 1024;
/// How often contents are looked through for those whose time is over.
const FORGET_EVERY_MS: u64 = 60_000;
/// How long an asker may take to come back after the daemon died.
const REATTACH_MS: u64 = 10_000;

/// How the inbox behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests that may wait at once.
    pub pending_max: usize,
    /// Requests of one user and session that may: one that asks for much takes nobody else's place.
    pub asker_max: usize,
    /// After so many refusals of the same content it is refused without asking, for so long; never if nothing is said.
    pub fatigue: Option<(u32, Duration)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { pending_max: 1024, asker_max: 64, fatigue: Some((3, Duration::from_secs(600))) }
    }
}

/// What is left of a yes after the daemon died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// It was carried out by this process.
    Process(String),
    /// Certainly nothing followed from it.
    Nothing,
    /// Nobody can tell.
    CannotTell,
}

pub(super) struct Desk {
    pub(super) store: Store,
    settings: Settings,
    boot: String,
    seq: u64,
    /// Shared with what was published: a change copies the one that it is about.
    pub(super) live: BTreeMap<String, Arc<Live>>,
    recent: VecDeque<String>,
    pub(super) rules: Vec<Rule>,
    pub(super) confirmed: Confirmed,
    /// Shared with what was published: a change copies it.
    pub(super) devices: Arc<Roster>,
    /// Names of rules that nobody vouches for.
    pub(super) suspended: BTreeSet<String>,
    /// The rules as everybody sees them; nothing when they have changed since.
    pub(super) held: Option<Arc<[HeldRule]>>,
    names: Arc<Replay>,
    refusals: HashMap<String, (u32, u64)>,
    pub(super) attempts: Flood,
    /// Those who were turned away, by user and session.
    pub(super) floods: HashMap<String, Flood>,
    /// So many entries of somebody else were put aside, and nobody who decides was told.
    foreign: u64,
    /// Nobody decides.
    locked: bool,
    forgot: u64,
    /// Bytes of contents that were refused since they were looked through last.
    refused_bytes: u64,
    /// The entry up to which a sum is kept.
    pub(super) summed: u64,
}

impl Desk {
    /// Reads the log, settles what did not survive, and begins to answer for it.
    pub(super) fn open(
        path: &Path,
        within: Duration,
        settings: Settings,
        witness: &Arc<Witness>,
        names: &Arc<Replay>,
        trace: impl Fn(&str) -> Trace,
    ) -> Result<Self, StoreError> {
        let mut sum = Sum::default();
        let (store, found) = Store::open(path, within, witness, |entry, record| sum.add(entry, record))?;
        if let Some(why) = sum.impossible {
            return Err(StoreError::Tampered { path: path.to_owned(), why });
        }
        for live in sum.live.values_mut().filter(|live| !live.approval.state.is_final()) {
            let content = store.content(&live.approval.hash)?;
            let gone = || StoreError::Tampered {
                path: path.to_owned(),
                why: format!("what {} asks is gone", live.approval.id),
            };
            live.approval.ask.content = content.ok_or_else(gone)?;
        }
        let mut desk = Self {
            store,
            settings,
            boot: clock::boot_id(),
            seq: sum.seq,
            live: sum.live.into_iter().map(|(id, live)| (id, Arc::new(live))).collect(),
            recent: sum.recent,
            rules: sum.rules,
            confirmed: sum.confirmed,
            devices: Arc::new(sum.devices),
            suspended: sum.suspended,
            held: None,
            names: Arc::clone(names),
            refusals: HashMap::new(),
            attempts: Flood::default(),
            floods: HashMap::new(),
            foreign: 0,
            locked: false,
            forgot: 0,
            // Looked through soon: the daemon before us may have died first.
            refused_bytes: KEPT_BYTES,
            summed: sum.summed,
        };
        desk.take_names(sum.keys);
        desk.locked = sum.locked.as_ref() == Some(&desk.boot);
        let opened =
            Record::Opened { pid: std::process::id(), boot: desk.boot.clone(), version: Some(record::VERSION) };
        desk.log(&opened)?;
        match found {
            FoundLog::Vouched { foreign: 0 } => {}
            FoundLog::Vouched { foreign } => desk.log(&Record::Quarantined { entries: foreign })?,
            FoundLog::Lost(entries) => {
                tracing::error!("{}: gone, with {entries} entries; begun anew", path.display());
                desk.log(&Record::Lost { entries })?;
            }
            // Nothing to be affirmed, nothing to be said.
            FoundLog::Unvouched if desk.rules.is_empty() && desk.confirmed.is_empty() && desk.devices.is_empty() => {}
            FoundLog::Unvouched => {
                desk.log(&Record::Suspended)?;
                Arc::make_mut(&mut desk.devices).take(&Record::Suspended, clock::wall_ms());
                desk.suspended = desk.rules.iter().map(|rule| rule.name.clone()).collect();
                desk.confirmed.take(&Record::Suspended);
                desk.held = None;
            }
        }
        desk.recover(trace, found == FoundLog::Unvouched)?;
        Ok(desk)
    }

    /// Names that count as used: those of late, and those of requests that are open.
    fn take_names(&self, late: Vec<(String, String)>) {
        let open = self.live.iter().filter(|(_, live)| !live.approval.state.is_final());
        let open = open.filter_map(|(id, live)| Some((live.approval.ask.key.clone()?, id.clone())));
        let now = clock::boot_ms();
        late.into_iter().chain(open).for_each(|(name, id)| self.names.bind(name, now, id));
    }

    /// What the daemon before us left: from another boot it is over; from this one its asker may come back.
    /// Where nobody vouches for the log, a yes that nothing has followed from is asked again.
    fn recover(&mut self, trace: impl Fn(&str) -> Trace, unvouched: bool) -> Result<(), StoreError> {
        // Also what is settled: the daemon may have died before it could say so.
        let back_until = Some(clock::boot_ms() + REATTACH_MS);
        for live in
            self.live.values_mut().map(Arc::make_mut).filter(|live| live.approval.ask.bound == Bound::Connection)
        {
            live.orphan_until = back_until.filter(|_| live.boot == self.boot);
        }
        for id in self.open_ids() {
            let Some(live) = self.live.get(&id) else { continue };
            let (state, bound) = (live.approval.state.clone(), live.approval.ask.bound);
            let same_boot = live.boot == self.boot;
            let gone = || Record::Withdrawn { why: "the machine restarted".into() };
            let record = match (state, same_boot) {
                (State::Accepted { .. }, true) => match trace(&id) {
                    Trace::Process(process) => Record::Applied { process: Some(process) },
                    Trace::Nothing if unvouched => Record::Suspended,
                    Trace::Nothing => continue,
                    Trace::CannotTell => Record::Rebooted,
                },
                (State::Accepted { .. }, false) => Record::Rebooted,
                (State::Applied { outcome: None }, false) => Record::Finished { outcome: Outcome::NobodySaw },
                (State::Applied { outcome: None }, true) if trace(&id) == Trace::Nothing => {
                    Record::Finished { outcome: Outcome::NobodySaw }
                }
                (State::Pending { .. }, false) if bound == Bound::Connection => gone(),
                (State::Pending { .. }, false) if live.deadline().is_some() => Record::Expired,
                _ => continue,
            };
            self.write(&id, &[record])?;
        }
        Ok(())
    }

    fn open_ids(&self) -> Vec<String> {
        self.live.iter().filter(|(_, live)| !live.approval.state.is_final()).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// What was written since this was last asked, and whose requests it is about.
    pub(super) fn news(&mut self) -> Vec<(u64, Noted)> {
        let asked_by = |id: &str| self.live.get(id)?.approval.ask.asker.verified_session.clone();
        let noted = |News { seq, kind, about }: News| {
            let session = about.as_deref().and_then(asked_by);
            (seq, Noted { kind, id: about, session })
        };
        std::mem::take(&mut self.store.news).into_iter().map(noted).collect()
    }

    pub(super) fn is_at(&mut self, seq: u64) {
        self.seq = seq;
    }

    /// Takes a request in. `true`: the same asker came back after a restart, and this is its old request.
    pub(super) fn ask(&mut self, ask: Ask) -> Result<(String, bool), AskError> {
        let (now, wall) = (clock::boot_ms(), clock::wall_ms());
        let hash = content_hash(&ask.content);
        let is_open = |id: &str| self.live.get(id).is_some_and(|live| !live.approval.state.is_final());
        let Some(name) = ask.key.clone() else { return Ok((self.take_in(ask, hash, now, wall)?, false)) };
        match self.names.take(&name, now, is_open) {
            Name::TooMany => {
                Err(AskError::TooMany(self.live.values().filter(|live| live.approval.state.is_pending()).count()))
            }
            Name::Used(Some(id)) if ask.bound == Bound::Session => Ok((id, true)),
            Name::Used(id) => {
                let old = id.filter(|id| self.reattach(id, &hash, now));
                let id = old.ok_or(AskError::Duplicate(name))?;
                self.write(&id, &[Record::Reattached])?;
                Ok((id, true))
            }
            Name::Fresh => match self.take_in(ask, hash, now, wall) {
                Ok(id) => {
                    self.names.bind(name, now, id.clone());
                    Ok((id, false))
                }
                Err(error) => {
                    self.names.release(&name);
                    Err(error)
                }
            },
        }
    }

    /// Takes a new request in; gives its id.
    fn take_in(&mut self, ask: Ask, hash: String, now: u64, wall: u64) -> Result<String, AskError> {
        self.find_room(&ask)?;
        self.check_fatigue(&ask, &hash, now)?;
        let id = crate::id::approval().map_err(|error| StoreError::Sqlite {
            path: "/dev/urandom".into(),
            source: rusqlite::Error::ToSqlConversionFailure(Box::new(error)),
        })?;
        let asked = asked(&ask, &hash, now);
        let rule = self.rule_for(&ask, wall);
        let decided = rule.map(|(name, effect)| Record::Decided {
            decision: if effect == Effect::Allow { Decision::Once } else { Decision::deny() },
            content: hash.clone(),
            by: By::Rule { name },
        });
        let records: Vec<&Record> = std::iter::once(&asked).chain(&decided).collect();
        let fate = decided.as_ref().and_then(|record| Some((hash.as_str(), fate_of(record, wall)?)));
        let change = Change {
            about: Some(&id),
            at_ms: wall,
            records: &records,
            content: Some(&ask.content),
            fate,
            checkpoint: None,
        };
        self.append(&change)?;
        let mut live = Live::new(id.clone(), ask, hash, wall, self.boot.clone(), now);
        if let Some(decided) = &decided {
            live.take(decided, wall);
        }
        self.live.insert(id.clone(), Arc::new(live));
        self.settle(&id);
        Ok(id)
    }

    /// Whether this is an orphan whose asker came back with the very same words; that works once.
    fn reattach(&mut self, id: &str, hash: &str, now: u64) -> bool {
        let Some(live) = self.live.get_mut(id).map(Arc::make_mut) else { return false };
        let same = live.approval.hash == hash && live.orphan_until.is_some_and(|until| now < until);
        if same {
            live.orphan_until = None;
        }
        same
    }

    pub(super) fn set_fatigue(&mut self, fatigue: Option<(u32, Duration)>) {
        self.settings.fatigue = fatigue;
    }

    fn check_fatigue(&mut self, ask: &Ask, hash: &str, now: u64) -> Result<(), AskError> {
        let Some((times, pause)) = self.settings.fatigue.filter(|_| ask.tires) else { return Ok(()) };
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.refusals.retain(|_, (_, last)| now < last.saturating_add(pause));
        let Some((count, last)) = self.refusals.get(hash).copied().filter(|(count, _)| *count >= times) else {
            return Ok(());
        };
        let error = AskError::Fatigue { times: count, left: Duration::from_millis(last + pause - now) };
        let record = Record::Refused { asker: ask.asker.clone(), title: ask.title.clone(), why: error.to_string() };
        self.refused(&ask.asker, &record)?;
        Err(error)
    }

    /// Somebody could see it from now on.
    pub(super) fn shown(&mut self, id: &str, surface: &str) -> Result<(), StoreError> {
        let unseen = |live: &&Arc<Live>| live.approval.state == State::Pending { shown: false };
        if self.live.get(id).filter(unseen).is_none() {
            return Ok(());
        }
        self.write(id, &[Record::Shown { surface: surface.to_owned(), boot_ms: clock::boot_ms() }])
    }

    /// Records a decision; only the first counts, and only about this very content.
    pub(super) fn decide(&mut self, id: &str, hash: &str, decision: Decision, by: By) -> Result<(), DecideError> {
        self.expire()?;
        let Some(live) = self.live.get(id) else { return Err(DecideError::NotFound(id.to_owned())) };
        let approval = &live.approval;
        fits(approval, &decision, &by)?;
        let may = self.devices.may_decide(&by, approval.ask.privileged, &decision, clock::wall_ms());
        may.map_err(DecideError::DoesNotFit)?;
        if self.locked && !matches!(by, By::Rule { .. }) {
            return Err(DecideError::Locked(crate::access::WHY));
        }
        // Whoever decides hears of it first, also where it was found by something that went on.
        if decision.is_yes() && self.foreign > 0 {
            let entries = std::mem::take(&mut self.foreign);
            return Err(StoreError::Foreign { path: self.store.path.clone(), entries }.into());
        }
        let mut records = Vec::with_capacity(2);
        if let Some(rule) = self.lasting_rule(approval, &decision, &by)? {
            records.push(Record::RuleAdded { rule });
        }
        let refused = !decision.is_yes();
        let decided = Record::Decided { decision, content: hash.to_owned(), by };
        decided.apply(&approval.state, &approval.hash).map_err(|refusal| too_late(approval, &refusal))?;
        records.insert(0, decided);
        let hash = approval.hash.clone();
        self.write(id, &records)?;
        if refused {
            let times = self.refusals.entry(hash).or_insert((0, 0));
            *times = (times.0 + 1, clock::boot_ms());
        } else {
            self.refusals.remove(&hash);
        }
        Ok(())
    }

    /// Whoever decides shows the terminal of the command. Known to this daemon only: a relay does not outlive it.
    pub(super) fn will_relay(&mut self, id: &str) {
        if let Some(live) = self.live.get_mut(id).map(Arc::make_mut) {
            live.approval.relayed = true;
        }
    }

    /// Records what happened to a request, if that is possible.
    pub(super) fn note(&mut self, id: &str, record: Record) -> Result<bool, StoreError> {
        let Some(live) = self.live.get(id) else { return Ok(false) };
        if record.apply(&live.approval.state, &live.approval.hash).is_err() {
            return Ok(false);
        }
        self.write(id, &[record])?;
        Ok(true)
    }

    /// Records that these askers hung up; what could not be recorded stays in the list.
    pub(super) fn all_gone(&mut self, ids: &mut Vec<String>) -> Result<(), StoreError> {
        while let Some(id) = ids.last() {
            self.gone(id)?;
            ids.pop();
        }
        Ok(())
    }

    /// Whoever spoke for the asker is gone: it may come back with the very same words, as after a restart.
    pub(super) fn left(&mut self, id: &str) {
        if let Some(live) = self.live.get_mut(id).map(Arc::make_mut) {
            live.orphan_until = Some(clock::boot_ms() + REATTACH_MS);
        }
    }

    /// The asker hung up. What is being carried out goes on.
    pub(super) fn gone(&mut self, id: &str) -> Result<bool, StoreError> {
        let state = self.live.get(id).map(|live| &live.approval.state);
        match state {
            Some(State::Pending { .. } | State::Accepted { .. }) => {
                self.note(id, Record::Withdrawn { why: "the requester disconnected".into() })
            }
            _ => Ok(false),
        }
    }

    /// Settles everything whose time is over. Gives back how long until there may be more to do.
    pub(super) fn expire(&mut self) -> Result<Option<Duration>, StoreError> {
        let now = clock::boot_ms();
        self.note_flood(now)?;
        self.forget_contents(now)?;
        let mut soonest = None::<u64>;
        for id in self.open_ids() {
            let Some(live) = self.live.get(&id) else { continue };
            let late = |end: Option<u64>| end.is_some_and(|end| end <= now);
            let (deadline, orphan) = (live.deadline(), live.orphan_until);
            let record = match &live.approval.state {
                State::Pending { .. } if late(deadline) => Record::Expired,
                State::Pending { .. } | State::Accepted { .. } if late(orphan) => {
                    Record::Withdrawn { why: "the requester did not come back after a restart".into() }
                }
                State::Pending { .. } | State::Accepted { .. } => {
                    soonest = [soonest, deadline, orphan].into_iter().flatten().min();
                    continue;
                }
                _ => continue,
            };
            self.write(&id, &[record])?;
        }
        Ok(soonest.map(|end| Duration::from_millis(end.saturating_sub(now))))
    }

    /// The keeper was lost. `closed`: nobody decides until somebody has shown to be a person.
    pub(super) fn keeper_lost(&mut self, closed: bool) -> Result<(), StoreError> {
        self.locked |= closed;
        self.log(&Record::KeeperLost { closed })
    }

    /// Somebody has shown to be a person.
    pub(super) fn prove(&mut self, record: &Record) -> Result<(), StoreError> {
        self.log(record)?;
        self.locked = false;
        Ok(())
    }

    /// All that may be seen without waiting.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            live: self.live.values().cloned().collect(),
            rules: self.held_rules(),
            locked: self.locked,
            confirmed: self.confirmed.clone(),
            devices: Arc::clone(&self.devices),
            last: self.store.last.0,
        }
    }

    /// How long the next words wait for another program that holds the log.
    pub(super) fn wait_for_others(&self, most: Duration) {
        // It only sets a number.
        let _ = self.store.db.busy_timeout(most);
    }

    /// Writes a record about no request.
    pub(super) fn log(&mut self, record: &Record) -> Result<(), StoreError> {
        self.append(&Change { at_ms: clock::wall_ms(), records: &[record], ..Change::default() })
    }

    /// The only way into the log. Where somebody else wrote into it, that is recorded; a yes is not given then, everything else
    /// goes on.
    pub(super) fn append(&mut self, change: &Change<'_>) -> Result<(), StoreError> {
        self.seq = match self.store.append(change) {
            Err(StoreError::Foreign { entries, path }) => {
                let record = Record::Quarantined { entries };
                let at_ms = clock::wall_ms();
                self.seq = self.store.append(&Change { at_ms, records: &[&record], ..Change::default() })?;
                if change.records.iter().any(|record| record.grants()) {
                    return Err(StoreError::Foreign { entries, path });
                }
                self.foreign += entries;
                self.store.append(change)?
            }
            other => other?,
        };
        self.sum_up();
        Ok(())
    }

    /// Room for one more: of one user and session only so many wait, so that nobody takes all places.
    fn find_room(&self, ask: &Ask) -> Result<(), AskError> {
        let waiting = || self.live.values().map(Arc::as_ref).filter(|live| live.approval.state.is_pending());
        let asker = who(&ask.asker);
        let own = || waiting().filter(|live| who(&live.approval.ask.asker) == asker);
        let bytes = |all: &mut dyn Iterator<Item = &Live>| -> usize {
            all.map(|live| live.approval.ask.content.len()).sum::<usize>() + ask.content.len()
        };
        if own().count() >= self.settings.asker_max || bytes(&mut own()) > ASKER_BYTES {
            return Err(AskError::TooMany(own().count()));
        }
        if waiting().count() >= self.settings.pending_max || bytes(&mut waiting()) > PENDING_BYTES {
            return Err(AskError::TooMany(waiting().count()));
        }
        Ok(())
    }

    /// Lets contents go that nobody said yes to: after a while, or when they are too many.
    fn forget_contents(&mut self, now: u64) -> Result<(), StoreError> {
        if self.refused_bytes < KEPT_BYTES / 2 && now < self.forgot + FORGET_EVERY_MS {
            return Ok(());
        }
        (self.forgot, self.refused_bytes) = (now, 0);
        let open: BTreeSet<&str> = self
            .live
            .values()
            .filter(|live| !live.approval.state.is_final())
            .map(|live| live.approval.hash.as_str())
            .collect();
        self.store.forget_contents(clock::wall_ms(), |hash| open.contains(hash))?;
        Ok(())
    }

    /// Writes records that were checked to be possible.
    fn write(&mut self, id: &str, records: &[Record]) -> Result<(), StoreError> {
        let wall = clock::wall_ms();
        let all: Vec<&Record> = records.iter().collect();
        let hash = self.live.get(id).map(|live| live.approval.hash.clone()).unwrap_or_default();
        let fate = records.iter().find_map(|record| fate_of(record, wall)).map(|fate| (hash.as_str(), fate));
        if let (Some((_, Fate::Refused(_))), Some(live)) = (fate, self.live.get(id)) {
            self.refused_bytes += live.approval.ask.content.len() as u64;
        }
        self.append(&Change { about: Some(id), at_ms: wall, records: &all, fate, ..Change::default() })?;
        for record in records {
            if let Record::RuleAdded { rule } = record {
                self.rules.push(rule.clone());
                self.held = None;
            }
            if let Some(live) = self.live.get_mut(id).map(Arc::make_mut) {
                live.take(record, wall);
            }
        }
        self.settle(id);
        Ok(())
    }

    /// Keeps memory bounded: only the latest settled requests stay.
    fn settle(&mut self, id: &str) {
        let settled = self.live.get(id).is_some_and(|live| live.approval.state.is_final());
        if settled && let Some(live) = self.live.get_mut(id).map(Arc::make_mut) {
            // The store has it; memory need not.
            live.approval.ask.content = String::new();
        }
        if settled && !self.recent.iter().any(|known| known == id) {
            self.recent.push_back(id.to_owned());
        }
        while self.recent.len() > RECENT {
            let Some(oldest) = self.recent.pop_front() else { return };
            self.live.remove(&oldest);
        }
    }
}

/// What a record means for the content that it is about.
fn fate_of(record: &Record, at_ms: u64) -> Option<Fate> {
    match record {
        Record::Decided { decision, .. } if decision.is_yes() => Some(Fate::Kept),
        Record::Decided { .. } | Record::Expired | Record::Withdrawn { .. } => Some(Fate::Refused(at_ms)),
        _ => None,
    }
}

pub(super) fn asked(ask: &Ask, hash: &str, boot_ms: u64) -> Record {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Record::Asked {
        kind: ask.kind,
        content: hash.to_owned(),
        title: ask.title.clone(),
        privileged: ask.privileged,
        asker: ask.asker.clone(),
        reason: ask.reason.clone(),
        bound: ask.bound,
        key: ask.key.clone(),
        workspace: ask.workspace.clone(),
        after_shown_ms: ask.after_shown.map(millis),
        after_asked_ms: ask.after_asked.map(millis),
        boot_ms,
    }
}

/// Whether this kind of answer fits this kind of question, and whoever gives it.
fn fits(approval: &Approval, decision: &Decision, by: &By) -> Result<(), DecideError> {
    if let By::Client { door, .. } = by {
        let lasts = matches!(decision, Decision::Session | Decision::Always);
        let own = approval.ask.kind == AskKind::ToolUse && approval.ask.asker.door == *door;
        if lasts || !(own || approval.ask.kind == AskKind::Question) {
            return Err(DecideError::DoesNotFit(
                "a client of a door answers questions, and once what an agent of that door asks; decide from a terminal of your own",
            ));
        }
    }
    if matches!(by, By::Notice { .. }) {
        let may = matches!(decision, Decision::Once | Decision::Deny { .. });
        if !may || approval.ask.privileged || approval.ask.kind == AskKind::Question {
            return Err(DecideError::DoesNotFit(
                "from a notice a request is allowed once or denied, and never what runs as another user",
            ));
        }
    }
    match (approval.ask.kind, decision) {
        (AskKind::Question, Decision::Answers { .. } | Decision::Deny { .. })
        | (AskKind::ToolUse, Decision::Changed { .. })
        | (AskKind::Command | AskKind::ToolUse, Decision::Once | Decision::Session | Decision::Always)
        | (AskKind::Command | AskKind::ToolUse, Decision::Deny { .. }) => Ok(()),
        (AskKind::Question, _) => Err(DecideError::DoesNotFit("a question takes answers, or a refusal")),
        (AskKind::Command, _) => Err(DecideError::DoesNotFit("a command is approved or denied as it is")),
        (AskKind::ToolUse, _) => Err(DecideError::DoesNotFit("a tool use is approved, changed or denied")),
    }
}

fn too_late(approval: &Approval, refusal: &machine::Refusal) -> DecideError {
    let answered = |what: &str| match &approval.decided {
        Some((by, at_ms)) => DecideError::AnsweredElsewhere { what: what.to_owned(), by: by.clone(), at_ms: *at_ms },
        None => DecideError::NotFound(approval.id.clone()),
    };
    match (&approval.state, refusal) {
        (_, machine::Refusal::OtherContent) => DecideError::OtherContent,
        (State::Expired, _) => DecideError::Expired,
        (State::Withdrawn { why }, _) => DecideError::Withdrawn(why.clone()),
        (State::Denied { .. }, _) => answered("denied"),
        _ => answered("approved"),
    }
}
