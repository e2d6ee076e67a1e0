//! The handle that everybody shares. Opening the log waits until somebody needs it, or until there is one: a stand-in that
//! never asks anything keeps no database.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::chain::{Entry, Verified};
use super::confirmed::Setting;
use super::desk::{Desk, Settings, Trace};
use super::error::{AskError, DecideError};
use super::held_rules::HeldRule;
use super::live::Live;
use super::replay::{Name, Replay};
use super::snapshot::{Published, Snapshot};
use super::store::{self, Store, StoreError};
use super::vouch::Witness;
use super::walk::Walk;
use super::{Approval, Ask, By, Decision, NewRule, Record, Rule, Ticket, clock};
use crate::MayWait;
use crate::access::device::roster::Roster;
use crate::access::device::{Device, DeviceError, Grant, NotIn, Tokens};
use crate::feed::Feed;

/// Deadlines are looked at this often at least: a machine that slept wakes up late.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a start waits for a log that another program holds: no door is open before. Then it is taken up later.
const START_WITHIN: Duration = Duration::from_secs(5);

/// How long whoever needs the log waits, in all, while another program holds it. A copy or a check of the file is done in that
/// time; who holds it longer is stuck, and an agent or a person who waits should hear of that.
const HELD_MAX: Duration = Duration::from_secs(60);

/// Ids that begin alike, looked up at once: enough to see that more of the id is needed.
const ALIKE_MAX: usize = 32;

/// What is left of a yes: asked once at the start, of whoever knows the processes.
type Tracer = Box<dyn Fn(&str) -> Trace + Send + Sync>;

/// The inbox; a cheap handle.
#[derive(Clone)]
pub struct Inbox {
    shared: Arc<InboxInner>,
}

struct InboxInner {
    path: PathBuf,
    settings: Mutex<Settings>,
    tracer: Tracer,
    witness: Arc<Witness>,
    /// Held across writes to the log: for threads that may wait. Whoever only looks takes what is published.
    desk: Mutex<Option<Desk>>,
    /// A second connection to the log, open for as long as the desk is: who only reads does not wait for who writes.
    reader: Mutex<Option<Store>>,
    published: Published,
    /// A keeper was lost, and nobody has shown since to be a person. Set before that is written down, so that nobody decides
    /// while the disk takes its time.
    closed: AtomicBool,
    names: Arc<Replay>,
    /// Askers that hung up; handed over by a drop, which may not wait for the disk. One per ticket at most.
    gone: Mutex<Vec<String>>,
    changed: Condvar,
    revision: watch::Sender<u64>,
    feed: OnceLock<Feed>,
    /// Called when anything changed; must not wait, and must not come back here.
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl Inbox {
    /// The inbox whose log is at `path`. An existing log is checked and taken up now; one that does not hold is refused.
    pub(crate) fn open(
        wait: &MayWait,
        path: PathBuf,
        settings: Settings,
        witness: Witness,
        tracer: impl Fn(&str) -> Trace + Send + Sync + 'static,
    ) -> Result<Self, StoreError> {
        let shared = InboxInner {
            settings: Mutex::new(settings),
            tracer: Box::new(tracer),
            witness: Arc::new(witness),
            desk: Mutex::new(None),
            reader: Mutex::new(None),
            published: Published::default(),
            closed: AtomicBool::new(false),
            names: Arc::default(),
            gone: Mutex::default(),
            changed: Condvar::new(),
            revision: watch::channel(0).0,
            feed: OnceLock::new(),
            hooks: Mutex::default(),
            path,
        };
        let inbox = Self { shared: Arc::new(shared) };
        let is_missed = inbox.shared.witness.vouch().is_some_and(|vouch| vouch.head.0 > 0);
        if inbox.shared.path.exists() || is_missed {
            match inbox.within(wait, START_WITHIN, |_| Ok::<_, StoreError>(())) {
                Err(error) if error.is_full() => {
                    tracing::error!("{error}: free some space; no requests or approvals until then");
                    inbox.open_later();
                }
                Err(error) if error.is_held() => {
                    tracing::error!("{error}; no requests or approvals until then");
                    inbox.open_later();
                }
                opened => opened?,
            }
        }
        Ok(inbox)
    }

    /// Takes the log up when the disk lets it; whoever needs it meanwhile tries too, and is told.
    fn open_later(&self) {
        let shared = Arc::downgrade(&self.shared);
        let again = move |wait: &MayWait| {
            while let Some(inbox) = shared.upgrade().map(|shared| Self { shared }) {
                match inbox.within(wait, START_WITHIN, |_| Ok::<_, StoreError>(())) {
                    Err(error) if error.is_full() || error.is_held() => {}
                    Err(error) => return tracing::error!("{error}"),
                    Ok(()) => return tracing::info!("{}: taken up", inbox.shared.path.display()),
                }
                drop(inbox);
                std::thread::sleep(LOOK_EVERY);
            }
        };
        // Without the thread, the first who asks takes it up.
        let _ = MayWait::thread("inbox", again);
    }

    /// Does something with the open desk, and tells everybody if that changed anything.
    fn with<T, E: From<StoreError>>(
        &self,
        wait: &MayWait,
        work: impl FnOnce(&mut Desk) -> Result<T, E>,
    ) -> Result<T, E> {
        self.within(wait, HELD_MAX, work)
    }

    /// The same, waiting at most this long for another program that holds the log, and for those who wait for it already.
    pub(super) fn within<T, E: From<StoreError>>(
        &self,
        wait: &MayWait,
        most: Duration,
        work: impl FnOnce(&mut Desk) -> Result<T, E>,
    ) -> Result<T, E> {
        let began = Instant::now();
        let mut slot = self.shared.desk(wait);
        let left = most.saturating_sub(began.elapsed());
        let desk = match &mut *slot {
            Some(desk) => desk,
            slot => {
                let shared = &self.shared;
                let settings = *shared.settings.lock().unwrap_or_else(PoisonError::into_inner);
                let open = || Desk::open(&shared.path, left, settings, &shared.witness, &shared.names, &shared.tracer);
                let desk = open().or_else(|error| {
                    // On a full disk decisions have the room that was set aside.
                    let given_up =
                        error.is_full() && std::fs::remove_file(store::reserve_of(&self.shared.path)).is_ok();
                    if given_up { open() } else { Err(error) }
                })?;
                self.shared.watch_deadlines();
                *shared.reader() = Some(Store::look(&shared.path)?);
                slot.insert(desk)
            }
        };
        desk.wait_for_others(left);
        let result = work(desk);
        let seq = self.shared.publish(desk);
        drop(slot);
        self.shared.tell(seq);
        self.shared.changed.notify_all();
        result
    }

    /// Reads what the log has; behind nobody who writes.
    fn read<T>(&self, wait: &MayWait, work: impl FnOnce(&Store) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.shared.reader().is_none() {
            self.with(wait, |_| Ok::<_, StoreError>(()))?;
        }
        // Before the lock: whatever it names is in the log when that is looked at.
        let last = self.look().last;
        let mut reader = self.shared.reader();
        let store = reader.as_mut().ok_or_else(|| StoreError::Lost("the log was not opened".into()))?;
        work(store.upto(last))
    }

    async fn later<T, E>(&self, work: impl FnOnce(&mut Desk) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let inbox = self.clone();
        match MayWait::pool(move |wait| inbox.with(wait, work)).await {
            Ok(result) => result,
            // The work died with a panic, which the lints rule out; it must not take the caller along.
            Err(lost) => Err(E::from(StoreError::Lost(lost.to_string()))),
        }
    }

    /// Takes a request in: stored before anybody sees it. Answered at once if a rule says so.
    pub async fn ask(&self, ask: Ask) -> Result<Ticket, AskError> {
        let inbox = self.clone();
        // Made where it is stored: an asker that hangs up while the disk is waited for takes its request along.
        let ticket = move |(id, reattached)| Ticket::new(inbox, id, reattached);
        self.later(move |desk| desk.ask(ask).map(ticket)).await
    }

    /// Takes a request of a session in, or finds it: the same key is the same request, also after a restart. Answered at
    /// once if a rule says so. May wait for the disk.
    pub(crate) fn ask_again(&self, wait: &MayWait, ask: Ask) -> Result<String, AskError> {
        self.with(wait, |desk| desk.ask(ask)).map(|(id, _)| id)
    }

    /// Has `hook` called whenever anything changed, on a thread that must not be held up.
    pub(crate) fn on_change(&self, hook: Box<dyn Fn() + Send + Sync>) {
        self.shared.hooks.lock().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    /// Decides. Only the first decision counts, and only about the content with this hash.
    pub async fn decide(&self, id: &str, hash: &str, decision: Decision, by: By) -> Result<(), DecideError> {
        let (id, hash) = (id.to_owned(), hash.to_owned());
        self.later(move |desk| desk.decide(&id, &hash, decision, by)).await
    }

    /// The same for threads that may wait.
    pub fn decide_here(
        &self,
        wait: &MayWait,
        id: &str,
        hash: &str,
        decision: Decision,
        by: By,
    ) -> Result<(), DecideError> {
        self.with(wait, |desk| desk.decide(id, hash, decision, by))
    }

    /// The surface that is about to decide this request will show the terminal of the command. May wait for the disk.
    pub fn will_relay(&self, wait: &MayWait, id: &str) {
        if let Some(desk) = self.shared.desk(wait).as_mut() {
            desk.will_relay(id);
            self.shared.publish(desk);
        }
    }

    /// The door of this request was closed, and its asker may come to another. May wait for the disk.
    pub(super) fn left(&self, wait: &MayWait, id: &str) {
        if let Some(desk) = self.shared.desk(wait).as_mut() {
            desk.left(id);
            self.shared.publish(desk);
        }
        // There is something to settle sooner than thought.
        self.shared.changed.notify_all();
    }

    /// A surface shows this request; its time begins to run. May wait for the disk.
    pub fn shown(&self, wait: &MayWait, id: &str, surface: &str) -> Result<(), StoreError> {
        self.with(wait, |desk| desk.shown(id, surface))
    }

    /// Whether this name comes for the first time; it counts as used from now on. Never waits.
    pub fn first_use(&self, key: &str) -> bool {
        let seen = self.shared.published.newest();
        let is_open = |id: &str| seen.live(id).is_some_and(|live| !live.approval.state.is_final());
        self.shared.names.take(key, clock::boot_ms(), is_open) == Name::Fresh
    }

    /// Records that somebody tried to decide who may not; of a flood, how many. May wait for the disk.
    pub fn attempted(&self, wait: &MayWait, id: &str, who: String, why: String) -> Result<(), StoreError> {
        self.with(wait, |desk| desk.attempted(id, who, why))
    }

    /// Records what a person lets a hosted process reach. May wait for the disk.
    pub(crate) fn access_changed(&self, wait: &MayWait, process: &str, all: bool, by: By) -> Result<(), StoreError> {
        let record = Record::Access { process: process.to_owned(), all, by };
        self.with(wait, |desk| desk.log(&record))
    }

    /// Records that a request was turned away before it was asked. May wait for the disk.
    pub fn turned_away(
        &self,
        wait: &MayWait,
        asker: super::Asker,
        title: String,
        why: String,
    ) -> Result<(), StoreError> {
        let record = Record::Refused { asker: asker.clone(), title, why };
        self.with(wait, |desk| desk.refused(&asker, &record))
    }

    /// Records what happened to a request; `false` when that can not follow. May wait for the disk.
    pub(crate) fn note(&self, wait: &MayWait, id: &str, record: Record) -> Result<bool, StoreError> {
        self.with(wait, |desk| desk.note(id, record))
    }

    /// One request as memory has it: one that waits, or was settled lately. Never waits, as all that only look.
    pub fn peek(&self, id: &str) -> Option<Approval> {
        self.look().live(id).map(Live::look)
    }

    /// Requests that wait, oldest first.
    pub fn pending(&self) -> Vec<Approval> {
        self.look().select(|live| live.approval.state.is_pending())
    }

    /// Requests that wait or were settled lately, oldest first.
    pub fn recent(&self) -> Vec<Approval> {
        self.look().select(|_| true)
    }

    /// One request by its whole id. May wait for the disk.
    pub fn get(&self, wait: &MayWait, id: &str) -> Result<Option<Approval>, StoreError> {
        let known = self.peek(id);
        if known.as_ref().is_some_and(|approval| !approval.ask.content.is_empty()) {
            return Ok(known);
        }
        self.read(wait, |store| store.approval(id, known))
    }

    /// The ids that begin like this, newest first, a handful at most. May wait for the disk.
    pub fn ids(&self, wait: &MayWait, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.read(wait, |store| store.ids(prefix, ALIKE_MAX))
    }

    /// The standing answers.
    pub fn rules(&self) -> Vec<HeldRule> {
        self.look().rules().cloned().collect()
    }

    /// Whether nobody decides, because a keeper was lost and nobody can tell who is hosted.
    pub fn is_locked(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire) || self.look().locked
    }

    /// Records the loss of a keeper. May wait for the disk.
    pub(crate) fn keeper_lost(&self, wait: &MayWait, closed: bool) -> Result<(), StoreError> {
        self.shared.closed.fetch_or(closed, Ordering::AcqRel);
        self.with(wait, |desk| desk.keeper_lost(closed))
    }

    /// Records that somebody has shown to be a person: they decide again. May wait for the disk.
    pub(crate) fn prove(&self, wait: &MayWait, record: Record) -> Result<(), StoreError> {
        // Opened before anybody is told of it: who looks then finds it open.
        self.with(wait, |desk| {
            desk.prove(&record)?;
            self.shared.closed.store(false, Ordering::Release);
            Ok(())
        })
    }

    /// How many rules answer nothing until a person affirms them.
    pub fn suspended(&self) -> usize {
        self.look().rules().filter(|held| held.suspended).count()
    }

    /// A person has seen the rules with these digests, and they count again. Gives their names. May wait for the disk.
    pub fn affirm(&self, wait: &MayWait, digests: &[String], by: By) -> Result<Vec<String>, StoreError> {
        self.with(wait, |desk| desk.affirm(digests, by))
    }

    /// Makes a standing answer. May wait for the disk.
    pub fn add_rule(&self, wait: &MayWait, rule: NewRule, by: By) -> Result<Rule, DecideError> {
        self.with(wait, |desk| desk.add_rule(rule, by))
    }

    /// Takes a standing answer back; `false` if there is none of this name. May wait for the disk.
    pub fn revoke_rule(&self, wait: &MayWait, name: &str, by: By) -> Result<bool, StoreError> {
        self.with(wait, |desk| desk.revoke_rule(name, by))
    }

    /// These loosening settings are asked for; gives back those that do not count, because nobody has confirmed them. May wait
    /// for the disk.
    pub fn settings(&self, wait: &MayWait, asked: Vec<Setting>) -> Result<Vec<Setting>, StoreError> {
        if asked.is_empty() && !self.shared.path.exists() {
            return Ok(asked);
        }
        self.with(wait, |desk| desk.settings(asked))
    }

    /// After how many refusals the same is refused unasked, and for how long, from now on. May wait for the disk.
    pub fn set_fatigue(&self, wait: &MayWait, fatigue: Option<(u32, Duration)>) {
        let mut desk = self.shared.desk(wait);
        self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner).fatigue = fatigue;
        if let Some(desk) = desk.as_mut() {
            desk.set_fatigue(fatigue);
        }
    }

    /// Whether a person has confirmed this very value.
    pub fn is_confirmed(&self, setting: &Setting) -> bool {
        self.look().confirmed.holds(setting)
    }

    /// The name in a tailnet by which a person lets devices come.
    pub(crate) fn allowed_tailnet(&self) -> Option<String> {
        self.look().confirmed.tailnet().map(str::to_owned)
    }

    /// A person lets devices come by this name. May wait for the disk.
    pub(crate) fn allow_tailnet(&self, wait: &MayWait, url: &str, by: By) -> Result<(), DecideError> {
        self.with(wait, |desk| desk.allow_tailnet(url.to_owned(), by))
    }

    /// Settings that wait to be confirmed.
    pub fn unconfirmed(&self) -> Vec<Setting> {
        self.look().confirmed.waiting.clone()
    }

    /// A person confirms a setting that waits; it counts from the next start. May wait for the disk.
    pub fn confirm(&self, wait: &MayWait, setting: Setting, by: By) -> Result<(), DecideError> {
        self.with(wait, |desk| desk.confirm(setting, by))
    }

    /// A person says yes to the file of a repository, by its hash. May wait for the disk.
    pub(crate) fn trust(&self, wait: &MayWait, file: Setting, by: By) -> Result<(), DecideError> {
        self.with(wait, |desk| desk.trust(file, by))
    }

    /// Whether a person has said yes to exactly this file of a repository.
    pub(crate) fn is_trusted(&self, file: &Setting) -> bool {
        self.look().confirmed.trusts(file)
    }

    /// The devices that are paired. Never waits.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.look().devices)
    }

    /// Writes down a device; gives it with the name that it got.
    pub(crate) fn pair(
        &self,
        wait: &MayWait,
        device: Device,
        tokens: Option<Tokens>,
        address: String,
    ) -> Result<Device, DeviceError> {
        self.with(wait, |desk| desk.pair(device, tokens, address))
    }

    /// Exchanges the tokens of whoever shows the newest refresh token; one that was used before revokes its device.
    pub(crate) fn renew(
        &self,
        wait: &MayWait,
        shown: &str,
        fresh: (Grant, Tokens),
        forgive_ms: u64,
        address: String,
    ) -> Result<Result<Grant, NotIn>, StoreError> {
        self.with(wait, |desk| desk.renew(shown, fresh, forgive_ms, address))
    }

    /// A device is here; noted where that is due.
    pub(crate) fn device_seen(&self, wait: &MayWait, device: &str, address: &str) -> Result<(), StoreError> {
        match self.roster().is_due(device, clock::wall_ms()) {
            true => self.with(wait, |desk| desk.device_seen(device, address)),
            false => Ok(()),
        }
    }

    /// Writes down where notices for a device are pushed to.
    pub(crate) fn subscribe_device(
        &self,
        wait: &MayWait,
        device: &str,
        endpoint: Option<String>,
    ) -> Result<(), DeviceError> {
        self.with(wait, |desk| desk.subscribe_device(device, endpoint))
    }

    /// Puts devices out; gives how many there were.
    pub(crate) fn revoke_devices(
        &self,
        wait: &MayWait,
        ids: &[String],
        why: &str,
        by: By,
    ) -> Result<usize, StoreError> {
        self.with(wait, |desk| desk.revoke_devices(ids, why, &by))
    }

    /// A person has seen the devices with these digests, and they count again. Gives their names.
    pub(crate) fn affirm_devices(&self, wait: &MayWait, digests: &[String], by: By) -> Result<Vec<String>, StoreError> {
        self.with(wait, |desk| desk.affirm_devices(digests, by))
    }

    /// Entries of the audit after this position. May wait for the disk.
    pub fn audit(&self, wait: &MayWait, after: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.read(wait, |store| store.read(after, most))
    }

    /// The same, of an instance that does not run.
    pub fn audit_file(path: &std::path::Path, after: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        Store::look(path)?.read(after, most)
    }

    /// Walks the whole audit. May wait for the disk, and takes its time with a long one; nobody waits for it meanwhile.
    pub fn verify(&self, wait: &MayWait) -> Result<Verified, StoreError> {
        self.read(wait, |_| Ok(()))?;
        Self::verify_file(&self.shared.path)
    }

    /// The same, also of an instance that does not run.
    pub fn verify_file(path: &std::path::Path) -> Result<Verified, StoreError> {
        let store = Store::look(path)?;
        store.check_head()?;
        let (entries, head) = Walk::new(&store).all_of_it(|_, _| {})?;
        Ok(Verified { entries, head: super::hex(&head), foreign: store.quarantined()? })
    }

    /// Has the feed tell of everything from now on.
    pub(crate) fn tell_feed(&self, feed: Feed) {
        // Once, when the engine starts.
        let _ = self.shared.feed.set(feed);
    }

    /// The newest entry; nothing where there is a log that cannot be read yet.
    pub(crate) fn last_entry(&self, wait: &MayWait) -> Option<u64> {
        let seq = self.shared.desk(wait).as_ref().map(Desk::seq);
        seq.or_else(|| (!self.shared.path.exists()).then_some(0))
    }

    /// The position of the newest entry; changes whenever anything does.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// What is published: nothing, as long as nobody has used the inbox.
    fn look(&self) -> Arc<Snapshot> {
        self.shared.published.newest()
    }

    /// The asker of this request is gone; recorded soon.
    pub(super) fn hung_up(&self, id: String) {
        self.shared.gone.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.shared.changed.notify_all();
    }
}

impl InboxInner {
    fn desk(&self, _wait: &MayWait) -> MutexGuard<'_, Option<Desk>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Option<Store>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everybody see what the log has; gives its newest entry. While the desk is held, so that the newest comes last, and
    /// what follows from it comes later in the feed.
    fn publish(&self, desk: &mut Desk) -> u64 {
        let (news, snapshot) = (desk.news(), desk.snapshot());
        let publish = || self.published.publish(snapshot);
        let before = match self.feed.get() {
            Some(feed) => feed.audit(news, publish),
            None => publish(),
        };
        drop(before);
        desk.seq()
    }

    /// Everybody who waits for a change hears of it.
    fn tell(&self, seq: u64) {
        if self.revision.send_if_modified(|known| std::mem::replace(known, seq) != seq) {
            self.hooks.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|hook| hook());
        }
    }

    /// One thread per open inbox: it settles what nobody decides, for as long as anybody holds the inbox.
    fn watch_deadlines(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        let clock = MayWait::thread("deadlines", move |wait| {
            while let Some(shared) = shared.upgrade() {
                shared.tend(wait);
            }
        });
        if let Err(error) = clock {
            tracing::error!("deadlines are not watched: {error}");
        }
    }

    fn tend(&self, wait: &MayWait) {
        let mut slot = self.desk(wait);
        let mut next = None;
        if let Some(desk) = &mut *slot {
            let hung_up = || self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            let mut gone = std::mem::take(&mut *hung_up());
            // Whoever asks waits longer, and this comes again.
            desk.wait_for_others(LOOK_EVERY);
            match desk.all_gone(&mut gone).and_then(|()| desk.expire()) {
                Ok(soonest) => next = soonest,
                // Tried again with the next look: nothing was lost, it is only late.
                Err(error) => tracing::error!("inbox: {error}"),
            }
            hung_up().append(&mut gone);
            let seq = self.publish(desk);
            self.tell(seq);
        }
        let wait = next.unwrap_or(LOOK_EVERY).clamp(Duration::from_millis(1), LOOK_EVERY);
        drop(self.changed.wait_timeout(slot, wait).unwrap_or_else(PoisonError::into_inner));
    }
}
