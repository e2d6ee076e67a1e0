//! Every process of the instance by id, by alias, by name and by the caller's key.
//! The registry forgets a process only when its journal goes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use ostler_journal::{Hosted, Journal, JournalOptions, Pumps, Roll};
use ostler_keeper::{ChildIo, Keeper};
use ostler_story::{Alias, Exit};
use tokio::sync::{Notify, watch};

use super::claim::{Claims, Following};
use super::gate::Gate;
use super::viewers::Viewers;
use super::{About, Inner, Process};
use crate::access::at_large;
use crate::feed::Feed;
use crate::names::{Bearer, Names};
use crate::{Engine, EngineConfig, Inbox, MayWait, Terminal};

/// How long an agent that ended may be survived by whoever else holds its pipes: a launcher that is gone while the agent
/// that it started lives on. Its session waits for that; a pipe that nobody holds is read to its end much sooner.
const AGENT_GRACE: Duration = Duration::from_secs(2);

/// What the engine tells those who watch all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// A process was started.
    Started,
    /// Its end was journaled.
    Ended(Exit),
}

/// Called for every happening, on threads that must not be held up.
pub type Observer = dyn Fn(&Process, Happening) + Send + Sync;

/// Why a text names no single process.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ResolveError {
    /// Nothing is called that.
    #[error("no process is called {0:?}")]
    NotFound(String),
    /// Several ids begin like that.
    #[error("{text:?} matches several: {}", ids.join(", "))]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// What it could mean.
        ids: Vec<String>,
    },
}

pub(crate) struct Registry {
    pub(crate) config: EngineConfig,
    pub(crate) pumps: Arc<Pumps>,
    /// What was started, and how the silent ones ended.
    pub(crate) roll: Arc<Roll>,
    keeper: RwLock<Keeper>,
    /// Counts keepers that came after the first, each once everything it holds was taken up.
    keepers: watch::Sender<u32>,
    helpers: crate::brief::Kept,
    pub(super) gate: Gate,
    table: Mutex<Table>,
    observers: RwLock<Vec<Weak<Observer>>>,
    pub(crate) keys: crate::keys::Keys,
    /// Where attempts on the keeper are recorded.
    pub(super) inbox: OnceLock<Inbox>,
    /// What every keeper is told to remember for the daemon after us.
    entrusted: Mutex<Vec<u8>>,
    /// The current keeper puts children into control groups.
    groups: AtomicBool,
    /// The file by which a person shows to be one; named when somebody asks.
    proof: Mutex<Option<PathBuf>>,
    /// Names on their way to a bearer.
    pub(crate) names: Names,
    /// Terminals of commands that may ask for a password, by process; gone when that ends.
    terminals: Mutex<HashMap<String, Arc<Terminal>>>,
    /// Terminal programs whose output is to be looked at.
    pub(super) claims: Arc<Claims>,
    /// Processes that a person opened everything to.
    open_to: Mutex<HashSet<String>>,
    /// What everybody who watches the whole is told.
    pub(crate) feed: Feed,
    /// Who is told of what, while nobody looks.
    pub(crate) notices: crate::notice::Notices,
    pub(crate) pairing: crate::access::device::Pairing,
    /// Who changes which git repository.
    pub(crate) writers: crate::workspace::Writers,
    pub(crate) currents: crate::workspace::Currents,
    /// Folders under watch.
    pub(crate) watches: crate::workspace::Watches,
    /// Programs that opened their doors here.
    pub(crate) joiners: crate::joiner::Joiners,
    /// Who holds the other ends of connections.
    pub(crate) lookout: crate::access::Lookout,
}

#[derive(Default)]
struct Table {
    processes: BTreeMap<String, Process>,
    aliases: HashMap<Alias, String>,
    keys: HashMap<String, String>,
    /// Keys whose process is being started: whoever holds the other end says when that is over, by letting go.
    starting: HashMap<String, watch::Receiver<()>>,
    /// Exits that the keeper told of before the spawn that started them had come back here.
    early: HashMap<String, Exit>,
}

/// What became of the wish to start something under a key.
pub(super) enum Claim {
    /// It was started before.
    Known(Process),
    /// Somebody is starting it; when they are done, one end of this is gone.
    Starting(watch::Receiver<()>),
    /// Nobody else does.
    Ours(Reservation),
}

/// The right to start the process of a key. Gives it back when it goes: the key has its process then, or is free again.
pub(super) struct Reservation {
    registry: Arc<Registry>,
    key: String,
    _over: watch::Sender<()>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.registry.table().starting.remove(&self.key);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.claims.stop();
        self.feed.stop();
    }
}

impl Registry {
    pub(super) fn new(config: EngineConfig, pumps: Arc<Pumps>, roll: Arc<Roll>, keeper: Keeper) -> Arc<Self> {
        let keys = crate::keys::Keys::open(&config.dir.join("keys"));
        let currents = crate::workspace::Currents::open(&config.dir);
        Arc::new(Self {
            config,
            pumps,
            roll,
            keeper: RwLock::new(keeper),
            keepers: watch::Sender::new(0),
            helpers: crate::brief::Kept::default(),
            gate: Gate::default(),
            table: Mutex::default(),
            observers: RwLock::default(),
            keys,
            inbox: OnceLock::new(),
            entrusted: Mutex::default(),
            groups: AtomicBool::new(false),
            proof: Mutex::default(),
            names: Names::default(),
            terminals: Mutex::default(),
            claims: Arc::default(),
            open_to: Mutex::default(),
            feed: Feed::default(),
            notices: crate::notice::Notices::default(),
            pairing: Default::default(),
            writers: crate::workspace::Writers::default(),
            currents,
            watches: crate::workspace::Watches::default(),
            joiners: crate::joiner::Joiners::default(),
            lookout: crate::access::Lookout::default(),
        })
    }

    /// Whether a person opened everything to this process.
    pub(crate) fn is_open_to(&self, id: &str) -> bool {
        self.open_to.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    pub(crate) fn set_open_to(&self, id: &str, all: bool) {
        let mut open_to = self.open_to.lock().unwrap_or_else(PoisonError::into_inner);
        if all {
            open_to.insert(id.to_owned());
        } else {
            open_to.remove(id);
        }
    }

    /// The process with this id.
    pub(crate) fn process(&self, id: &str) -> Option<Process> {
        self.get(id)
    }

    pub(crate) fn keeper(&self) -> Keeper {
        self.keeper.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Short helpers that the keeper forked.
    pub(crate) fn helpers(&self) -> &crate::brief::Kept {
        &self.helpers
    }

    /// The descriptor limit that children get.
    pub(crate) fn child_nofile(&self) -> Option<(u64, u64)> {
        self.config.child_nofile
    }

    /// Whether what a keeper hosted is known by its control group when the keeper is gone.
    pub(crate) fn has_groups(&self) -> bool {
        self.groups.load(Ordering::Relaxed)
    }

    /// Whether the loss of a keeper can lock anything: whoever is hosted by root can do anything anyway.
    pub(crate) fn locks(&self) -> bool {
        !rustix::process::geteuid().is_root()
    }

    /// The file that root makes to show that somebody knows the password.
    pub(crate) fn proof(&self) -> io::Result<PathBuf> {
        let mut proof = self.proof.lock().unwrap_or_else(PoisonError::into_inner);
        if proof.is_none() {
            *proof = Some(crate::access::fresh_proof()?);
        }
        Ok(proof.clone().unwrap_or_default())
    }

    /// Looks whether the keeper of the moment makes control groups, while it can be looked at.
    pub(super) fn look_at_groups(&self) {
        let custody = ostler_keeper::custody_of(self.keeper().pid());
        self.groups.store(matches!(custody, ostler_keeper::Custody::Groups(_)), Ordering::Relaxed);
    }

    /// Has the keeper remember these bytes. Never waits.
    pub(super) fn entrust(&self, bytes: Vec<u8>) {
        let mut entrusted = self.entrusted.lock().unwrap_or_else(PoisonError::into_inner);
        *entrusted = bytes;
        self.keeper().entrust(&entrusted);
    }

    /// Tells a keeper that has not heard it.
    pub(super) fn entrust_again(&self) {
        let entrusted = self.entrusted.lock().unwrap_or_else(PoisonError::into_inner);
        if !entrusted.is_empty() {
            self.keeper().entrust(&entrusted);
        }
    }

    /// Notes that somebody is hosted whom only the keeper tells from a person. It holds the note, and takes it back when nobody is left.
    pub(super) fn note_hosting(&self) {
        let keeper = self.keeper();
        if self.has_groups() || !keeper.notes() {
            return;
        }
        match at_large::note_hosting(&self.config.dir) {
            Ok(Some(note)) => keeper.note(note.into()),
            // This keeper has it.
            Ok(None) => {}
            Err(error) => tracing::error!("if the keeper is killed, nobody will know that anybody was hosted: {error}"),
        }
    }

    pub(super) fn set_keeper(&self, keeper: Keeper) {
        *self.keeper.write().unwrap_or_else(PoisonError::into_inner) = keeper;
        self.look_at_groups();
    }

    /// Whoever waits for what the keeper of the moment holds can look now.
    pub(super) fn keeper_taken_up(&self) {
        self.keepers.send_modify(|count| *count += 1);
    }

    /// Hears of keepers that come from now on.
    pub(super) fn later_keepers(&self) -> watch::Receiver<u32> {
        self.keepers.subscribe()
    }

    /// The process with this id.
    pub(super) fn get(&self, id: &str) -> Option<Process> {
        self.table().processes.get(id).cloned()
    }

    /// The process that the kernel knows by these.
    pub(crate) fn with_pid(&self, pid: u32, start_ticks: u64) -> Option<Process> {
        let is_it = |process: &&Process| process.inner.pid == pid && process.inner.start_ticks == start_ticks;
        self.table().processes.values().find(is_it).cloned()
    }

    pub(crate) fn processes_dir(&self) -> PathBuf {
        self.config.dir.join("procs")
    }

    pub(crate) fn dir_of(&self, id: &str) -> PathBuf {
        self.processes_dir().join(id)
    }

    /// How a process is journaled. What a session is derived from is kept whole, in and out, whatever the bounds say.
    pub(super) fn journal_options(&self, about: &About) -> JournalOptions {
        let keep_stdin = about.session.is_some();
        let live_max = about.live_max.or(self.config.retention.live_max).filter(|_| !keep_stdin);
        let exit_grace = keep_stdin.then_some(AGENT_GRACE);
        JournalOptions { live_max, keep_stdin, exit_grace }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a process under all its names. Whatever had its alias before loses it, and ends.
    pub(super) fn enter(
        self: &Arc<Self>,
        about: About,
        start_ticks: u64,
        journal: Arc<Journal>,
        hosted: Option<Hosted>,
    ) -> Process {
        let process = Process {
            inner: Arc::new(Inner {
                pid: about.pid,
                name: RwLock::new(about.name.clone()),
                seen: about.seen.into(),
                about,
                journal,
                hosted: RwLock::new(hosted),
                start_ticks,
                registry: Arc::downgrade(self),
                superseded: false.into(),
                ended: Notify::new(),
                viewers: Viewers::default(),
                following: Following::default(),
            }),
        };
        let (old, early) = {
            let mut table = self.table();
            let about = process.about();
            if let Some(key) = &about.key {
                table.keys.insert(key.clone(), about.id.clone());
            }
            let old = about
                .alias
                .clone()
                .and_then(|alias| table.aliases.insert(alias, about.id.clone()))
                .and_then(|id| table.processes.get(&id))
                .cloned();
            if let Some(old) = &old {
                old.inner.superseded.store(true, Ordering::Release);
            }
            let early = table.early.remove(process.id());
            table.processes.insert(about.id.clone(), process.clone());
            (old, early)
        };
        if let Some(exit) = early {
            process.child_exited(exit);
        }
        let (registry, inner) = (Arc::downgrade(self), Arc::downgrade(&process.inner));
        process.inner.journal.on_exit(move |record| {
            if let (Some(registry), Some(inner)) = (registry.upgrade(), inner.upgrade()) {
                registry.ended(&Process { inner }, record.how);
            }
        });
        if let Some(hosted) = process.hosted() {
            let (registry, inner) = (Arc::downgrade(self), Arc::downgrade(&process.inner));
            hosted.on_drained(Box::new(move || {
                if let (Some(registry), Some(inner)) = (registry.upgrade(), inner.upgrade()) {
                    registry.drained(&Process { inner });
                }
            }));
        }
        process.follow(&self.claims);
        if let Some(old) = old {
            self.supersede(&old);
        }
        process
    }

    /// Whether a process that runs is called this.
    pub(super) fn is_used(&self, alias: &Alias) -> bool {
        let table = self.table();
        let bearer = table.aliases.get(alias).and_then(|id| table.processes.get(id));
        bearer.is_some_and(Process::is_running)
    }

    /// The process that runs under this name, or has it for an id, and is not `whose`.
    pub(crate) fn bearer(&self, name: &str, whose: Option<&str>) -> Option<Bearer> {
        let table = self.table();
        let named = |process: &&Process| process.is_running() && process.name().as_deref() == Some(name);
        let bears = table.processes.get(name).or_else(|| table.processes.values().find(named));
        let bears = bears.filter(|process| whose != Some(process.id()))?;
        Some(Bearer::Process { id: bears.id().to_owned(), program: bears.about().program.clone() })
    }

    /// The keeper reaped a child.
    pub(super) fn child_exited(&self, id: &str, exit: Exit) {
        if crate::id::is_helper(id) {
            return self.helper_exited(id, exit);
        }
        let process = {
            let mut table = self.table();
            let known = table.processes.get(id).cloned();
            if known.is_none() {
                table.early.insert(id.to_owned(), exit);
            }
            known
        };
        if let Some(process) = process {
            process.child_exited(exit);
        }
    }

    /// An end has been journaled: waiters go on, and its files are closed until something more is said.
    fn ended(&self, process: &Process, exit: Exit) {
        process.note_if_seen();
        self.feed.ended(process);
        if process.hosted().is_some() {
            self.tell(process, Happening::Ended(exit));
        }
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner).remove(process.id());
        if process.about().private
            && let Err(error) = self.roll.forget(process.id())
        {
            tracing::warn!("{}: its number stays on the roll: {error}", process.id());
        }
        process.inner.journal.close_files();
        process.inner.ended.notify_waiters();
    }

    /// Ended, and nobody is left who could say more: the keeper may forget the child and its pipes. Not before: what a
    /// descendant has yet to say must not depend on this daemon's life.
    fn drained(&self, process: &Process) {
        self.keeper().ack(process.id());
        process.let_go();
        process.inner.journal.close_files();
    }

    /// Closes the files of ended processes that somebody has read or synced since: they cost no descriptors.
    pub(super) fn close_idle_files(&self) {
        let ended = |process: &&Process| !process.is_running();
        let ended: Vec<Process> = self.table().processes.values().filter(ended).cloned().collect();
        // Not under the lock: closing a file of a server that stalls waits for it.
        for process in ended {
            process.inner.journal.close_files();
        }
    }

    /// A hosted process tried to take the daemon's place at the keeper, and was sent away: goes on record.
    pub(super) fn intruder(&self, wait: &MayWait, key: &str, pid: u32) {
        let why = format!("pid {pid} is hosted by ostler (it descends from {key}) and may not be the daemon");
        tracing::debug!("keeper: {why}");
        if let Some(Err(error)) =
            self.inbox.get().map(|inbox| inbox.attempted(wait, "keeper", format!("pid {pid}"), why))
        {
            tracing::error!("an attempt on the keeper could not be recorded: {error}");
        }
    }

    pub(crate) fn terminal(&self, id: &str) -> Option<Arc<Terminal>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Keeps a terminal beside the pump, which must not see what passes through it.
    pub(super) fn keep_terminal(&self, id: &str, io: &mut ChildIo) {
        if let Some(pty) = io.pty.take() {
            let terminal = Arc::new(Terminal::new(pty.master));
            self.terminals.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), terminal);
        }
    }

    pub(crate) fn by_key(&self, key: &str) -> Option<Process> {
        self.table().by_key(key)
    }

    /// Looks for the process of a key, and keeps others from starting it if there is none.
    pub(super) fn claim(self: &Arc<Self>, key: &str) -> Claim {
        let mut table = self.table();
        if let Some(process) = table.by_key(key) {
            return Claim::Known(process);
        }
        if let Some(over) = table.starting.get(key) {
            return Claim::Starting(over.clone());
        }
        let (over, told) = watch::channel(());
        table.starting.insert(key.to_owned(), told);
        Claim::Ours(Reservation { registry: Arc::clone(self), key: key.to_owned(), _over: over })
    }

    pub(crate) fn remove(&self, process: &Process) {
        self.abandon(process);
        // One that the keeper still holds would come back with the next daemon.
        self.keeper().hurry();
        let mut table = self.table();
        let about = process.about();
        table.processes.remove(&about.id);
        if let Some(alias) = &about.alias
            && table.aliases.get(alias) == Some(&about.id)
        {
            table.aliases.remove(alias);
        }
        if let Some(key) = &about.key {
            table.keys.remove(key);
        }
    }

    /// Closes all ends of its pipes, here and at the keeper, whoever holds the others.
    pub(crate) fn abandon(&self, process: &Process) {
        if let Some(hosted) = process.hosted() {
            if process.is_running() {
                process.disown();
            }
            hosted.release();
            process.let_go();
            self.keeper().abandon(process.id());
        }
    }

    /// How many processes are known, alive or over.
    pub(crate) fn known(&self) -> usize {
        self.table().processes.len()
    }

    pub(crate) fn list(&self) -> Vec<Process> {
        let mut all: Vec<Process> = self.table().processes.values().cloned().collect();
        all.sort_by(|a, b| a.about().started.total_cmp(&b.about().started));
        all
    }

    /// A process runs.
    pub(super) fn started(&self, process: &Process) {
        self.feed.started(process);
        self.tell(process, Happening::Started);
    }

    fn tell(&self, process: &Process, happening: Happening) {
        for observer in self.observers.read().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade) {
            observer(process, happening);
        }
    }
}

impl Table {
    fn by_key(&self, key: &str) -> Option<Process> {
        self.processes.get(self.keys.get(key)?).cloned()
    }
}

impl Process {
    /// Over, but a descendant still holds a pipe of it.
    pub(super) fn is_lingering(&self) -> bool {
        !self.is_running() && self.hosted().is_some()
    }

    /// Writes down that it is let go while it runs, so that nobody takes it up again.
    fn disown(&self) {
        let mut about = self.described();
        about.abandoned = true;
        if let Some(registry) = self.inner.registry.upgrade()
            && let Err(error) = registry.roll.describe(&about.id, &about.for_roll())
        {
            tracing::warn!("{}: not written down that it was let go: {error}", self.id());
        }
    }

    pub(super) fn child_exited(&self, exit: Exit) {
        if let Some(hosted) = self.hosted() {
            hosted.child_exited(exit);
        }
    }
}

impl Engine {
    /// The process that a client calls `id` at `endpoint`.
    pub fn find(&self, endpoint: &str, id: &str) -> Option<Process> {
        let table = self.inner.table();
        let alias = Alias { space: endpoint.to_owned(), id: id.to_owned() };
        let id = table.aliases.get(&alias)?;
        table.processes.get(id).cloned()
    }

    /// The process meant by an id, a name (the newest that bears it), or the unique beginning of an id.
    pub fn resolve(&self, text: &str) -> Result<Process, ResolveError> {
        let table = self.inner.table();
        if let Some(entry) = table.processes.get(text) {
            return Ok(entry.clone());
        }
        // The one that runs, or else the newest that bore the name.
        let named = || table.processes.values().filter(|entry| entry.name().as_deref() == Some(text));
        let running: Vec<&Process> = named().filter(|entry| entry.is_running()).collect();
        let newest = || named().max_by(|a, b| a.about().started.total_cmp(&b.about().started));
        let begins = || table.processes.range(text.to_owned()..).take_while(|(id, _)| id.starts_with(text));
        let alike = match (running.is_empty(), newest()) {
            (false, _) => running,
            (true, Some(ended)) => vec![ended],
            (true, None) => begins().map(|(_, entry)| entry).filter(|_| !text.is_empty()).collect(),
        };
        match alike.as_slice() {
            [] => Err(ResolveError::NotFound(text.to_owned())),
            [only] => Ok((*only).clone()),
            several => {
                let ids = several.iter().map(|entry| entry.id().to_owned()).collect();
                Err(ResolveError::Ambiguous { text: text.to_owned(), ids })
            }
        }
    }

    /// Every process that is known, oldest first; a runner that waits for a decision is none yet.
    pub fn list(&self) -> Vec<Process> {
        self.inner.list().into_iter().filter(|process| !process.is_waiting()).collect()
    }

    /// Calls `observer` for everything that happens from now on, as long as somebody keeps it.
    pub fn observe(&self, observer: &Arc<Observer>) {
        let mut observers = self.inner.observers.write().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0);
        observers.push(Arc::downgrade(observer));
    }

    /// Who forks short helpers of this engine.
    pub fn forker(&self) -> crate::brief::Forker {
        crate::brief::Forker::keeper(Arc::downgrade(&self.inner))
    }
}
