//! The start of an engine: who lives is the keeper's to say, what they were and said is on disk.

use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use ostler_hooks::hook;
use ostler_journal::{EndOnRoll, Guest, Journal, JournalOptions, Listed, Pumps, Roll};
use ostler_keeper::{Adopted, ConnectError, Event, Hello, Keeper, Launched, client};
use ostler_story::Exit;

use tokio::runtime::Handle;

use super::about::Unreadable;
use super::{About, Process, Registry};
use crate::access::at_large;
use crate::approval::{Inbox, Trace, Witness};
use crate::id;
use crate::{Engine, EngineConfig, MayWait, Sessions, StartError};

/// How long the keeper may take to notice that the daemon before us has gone: its connection ends with it.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);
/// The roll's name inside the instance directory.
const ROLL: &str = "roll";
const POLL: Duration = Duration::from_millis(2);
/// How often the files of ended processes are closed again.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Every how many sweeps memory is looked at: long against a pause in the work, short against a person's patience.
const TRIM_TURNS: u64 = 5;
/// Free memory that is kept: it is not worth the faults of taking it again.
const TRIM_FROM: u64 = 2 << 20;

impl Engine {
    /// Starts the engine in `config.dir`: finds or starts the keeper, and takes up every child it holds.
    /// Blocks until all of them are hosted again. The caller holds the instance's lease.
    pub fn start(wait: &MayWait, config: EngineConfig) -> Result<Self, StartError> {
        let processes = config.dir.join("procs");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&processes)
            .map_err(|source| StartError::Io { path: processes.clone(), source })?;
        let at = config.dir.join(ROLL);
        let (roll, listed) =
            Roll::open(&at).map_err(|error| StartError::Io { path: at, source: io::Error::other(error) })?;
        let pumps = Pumps::start(config.retention.pumps(config.sync_every)).map_err(StartError::Pumps)?;
        // Bounded by the number of children: each of them ends once.
        let (queue, events) = mpsc::channel();
        let report = Report { queue, registry: Arc::default() };
        // Nobody writes folders now, so they are read while the keeper hands over what it holds.
        let (reached, found) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| found(&processes, &listed));
            (reach_keeper(&config.dir, &report, None, &pumps), reading.join())
        });
        let found = found.unwrap_or_else(|_| self::found(&processes, &listed));
        let Reached { keeper, adopted, is_new } =
            reached.map_err(|source| StartError::Keeper { dir: config.dir.clone(), source })?;
        keeper.guard(config.guard.clone()).map_err(|source| StartError::Io { path: config.dir.clone(), source })?;
        hook!("adopt.listed");
        let entrusted = keeper.entrusted().to_vec();
        pumps.keep_roll_synced(&roll);
        let registry = Registry::new(config, pumps, roll, keeper);
        registry.look_at_groups();
        let was_cut_off = is_new && at_large::is_cut_off(&registry.config.dir);
        registry.note_hosting();
        renew(&registry);
        registry.take_up(adopted, found);
        // Set once, here.
        let _ = report.registry.set(Arc::downgrade(&registry));
        let watcher = Arc::downgrade(&registry);
        MayWait::thread("exits", move |wait| hear(wait, &watcher, &events, &report)).map_err(StartError::Pumps)?;
        registry.claims.start(&registry).map_err(StartError::Pumps)?;
        let sweeper = Arc::downgrade(&registry);
        MayWait::thread("sweep", move |wait| sweep(wait, &sweeper)).map_err(StartError::Pumps)?;
        let known = Arc::downgrade(&registry);
        let told = Arc::downgrade(&registry);
        let witness = Witness::new(entrusted, move |head| {
            if let Some(registry) = told.upgrade() {
                registry.entrust(head.to_vec());
            }
        });
        let inbox =
            Inbox::open(wait, registry.config.dir.join("inbox.db"), registry.config.approvals, witness, move |id| {
                known.upgrade().map_or(Trace::CannotTell, |registry| registry.trace(id, is_new))
            })?;
        // Set once, before anybody else has the registry.
        let _ = registry.inbox.set(inbox.clone());
        inbox.tell_feed(registry.feed.clone());
        if was_cut_off {
            // The keeper before had no control groups: else there was no note.
            registry.note_lost_keeper(wait, false);
        }
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let sessions = Sessions::open(wait, Arc::clone(&registry), inbox.clone(), runtime);
        let engine = Self { inner: registry, inbox, sessions };
        engine.resume_commands();
        Ok(engine)
    }
}

/// Who hears what a keeper has to say.
#[derive(Clone)]
pub(super) struct Report {
    queue: mpsc::Sender<Event>,
    /// Once there is one: what must not wait for a thread goes there.
    registry: Arc<OnceLock<Weak<Registry>>>,
}

impl Report {
    /// On the thread that hears the keeper, which must not wait. Noting an exit never does.
    fn tell(&self, event: Event) {
        match (event, self.registry.get().and_then(Weak::upgrade)) {
            (Event::Exited { key, exit }, Some(registry)) => registry.child_exited(&key, exit),
            (event, _) => {
                // The engine is stopping when nobody listens.
                let _ = self.queue.send(event);
            }
        }
    }
}

/// A keeper that answers.
pub(super) struct Reached {
    pub(super) keeper: Keeper,
    pub(super) adopted: Vec<Adopted>,
    /// It was started just now: it knows of no child.
    pub(super) is_new: bool,
}

/// The connection to a keeper, served by a pump thread: that of the processes it mostly tells of.
struct Connection(client::Service);

impl Guest for Connection {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    fn due(&self) -> Option<Instant> {
        self.0.due()
    }

    fn turn(&mut self) -> bool {
        self.0.turn()
    }
}

/// Connects to the keeper of this folder, and starts one if there is none. Whoever listens there in place of the one `before`
/// is an impostor: only we may start one while we have the lease.
pub(super) fn reach_keeper(
    dir: &Path,
    report: &Report,
    before: Option<&Keeper>,
    pumps: &Pumps,
) -> Result<Reached, ConnectError> {
    let connect = |launched: Option<Launched>| {
        let (report, is_new) = (report.clone(), launched.is_some());
        let hello = Hello { program: concat!("ostler ", env!("CARGO_PKG_VERSION")).into() };
        let tell = move |event| report.tell(event);
        let (keeper, mut adopted, service) = client::connect_unserved(dir, launched, hello, tell)?;
        pumps.attend(Box::new(Connection(service)));
        // Helpers of a daemon that is gone: they end by themselves, or when their time is over.
        for helper in adopted.extract_if(.., |child| id::is_helper(&child.key)) {
            keeper.ack(&helper.key);
        }
        Ok(Reached { keeper, adopted, is_new })
    };
    let deadline = Instant::now() + NOTICED_WITHIN;
    loop {
        match connect(None) {
            Ok(found) if before.is_some_and(|before| !found.keeper.is_the_same_as(before)) => {
                tracing::error!("somebody posed as the keeper");
                return connect(Some(client::launch(dir).map_err(ConnectError::Io)?));
            }
            Err(ConnectError::NoKeeper) => return connect(Some(client::launch(dir).map_err(ConnectError::Io)?)),
            // The lease is ours, so whoever it serves is gone or going; it has not noticed yet.
            Err(ConnectError::Busy { .. }) if Instant::now() < deadline => std::thread::sleep(POLL),
            other => return other,
        }
    }
}

/// After an upgrade the keeper still runs the program that was: it becomes ours in place, with every child and this
/// connection. Nothing waits for that, and one that can not goes on as it is.
fn renew(registry: &Arc<Registry>) {
    let keeper = registry.keeper();
    let pid = keeper.pid();
    let registry = Arc::downgrade(registry);
    if keeper.is_another_program() {
        keeper.reexec(move |outcome| match outcome {
            Ok(()) => {
                tracing::info!("keeper {pid} runs this program now");
                // The program that was may not have known what to do with it.
                if let Some(registry) = registry.upgrade() {
                    registry.entrust_again();
                    registry.note_hosting();
                }
            }
            Err(error) => tracing::warn!("keeper {pid} goes on as the program it was: {error}"),
        });
    }
}

fn sweep(wait: &MayWait, registry: &Weak<Registry>) {
    for turn in 0_u64.. {
        let Some(registry) = registry.upgrade() else { return };
        registry.close_idle_files();
        registry.forget_surplus(wait);
        drop(registry);
        if turn % TRIM_TURNS == 0 {
            give_back_memory();
        }
        std::thread::sleep(SWEEP_EVERY);
    }
}

/// What a burst of work left in the allocator's hands goes back to the system. Not while as much is in use: then it is
/// wanted again at once.
fn give_back_memory() {
    let (used, held) = ostler_keeper::heap().unwrap_or_default();
    if held.saturating_sub(used) > TRIM_FROM.max(used / 2) {
        ostler_keeper::trim();
    }
}

fn hear(wait: &MayWait, registry: &Weak<Registry>, events: &mpsc::Receiver<Event>, report: &Report) {
    for event in events {
        let Some(registry) = registry.upgrade() else { return };
        match event {
            Event::Exited { key, exit } => registry.child_exited(&key, exit),
            Event::SpawnFailed { key, error } => {
                tracing::warn!("{key} never started: {error}");
                registry.child_exited(&key, Exit::Unknown);
            }
            Event::Intruder { key, pid } => registry.intruder(wait, &key, pid),
            Event::KeeperLost => registry.replace_keeper(wait, report),
        }
    }
}

/// A process that something on the disk tells of.
pub(super) struct FoundOnDisk {
    pub(super) about: About,
    /// How it ended, if it never said or heard a word.
    pub(super) end: Option<EndOnRoll>,
    /// The roll says what it was.
    pub(super) on_roll: bool,
}

#[derive(Default)]
struct Founds {
    described: Vec<FoundOnDisk>,
    /// Of journals whose description can not be read.
    lost: Vec<FoundOnDisk>,
    /// Of spawns that were cut short.
    bare: Vec<PathBuf>,
}

/// What the roll and the process folders say.
fn found(processes: &Path, listed: &[Listed]) -> Founds {
    let mut founds = Founds::default();
    let mut known = HashSet::new();
    for Listed { id, description, end } in listed {
        known.insert(id.as_str());
        match About::decode(description) {
            Ok(about) => founds.described.push(FoundOnDisk { about, end: *end, on_roll: true }),
            // It is the newer program's, and stays as it is.
            Err(error @ Unreadable::Newer(_)) => tracing::error!("{id}: {error}"),
            Err(error) => {
                tracing::error!("{id}: {error}");
                let about = About::lost(id.clone(), since(&processes.join(id)));
                founds.lost.push(FoundOnDisk { about, end: *end, on_roll: false });
            }
        }
    }
    let entries = match std::fs::read_dir(processes) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::error!("{}: {error}", processes.display());
            return founds;
        }
    };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Some(id) = path.file_name().and_then(|name| name.to_str()).filter(|id| !known.contains(id)) else {
            continue;
        };
        let lost = || FoundOnDisk { about: About::lost(id.to_owned(), since(&path)), end: None, on_roll: false };
        match About::read(&path) {
            Ok(about) => founds.described.push(FoundOnDisk { about, end: None, on_roll: false }),
            // A power loss took what the roll said, and left what it was about.
            Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound && holds_bytes(&path) => {
                tracing::error!("{}: nothing says what it was", path.display());
                founds.lost.push(lost());
            }
            Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound => founds.bare.push(path),
            Err(error @ Unreadable::Malformed(_)) => {
                tracing::error!("{}: {error}", path.display());
                founds.lost.push(lost());
            }
            Err(error) => tracing::error!("{}: {error}", path.display()),
        }
    }
    founds
}

fn since(folder: &Path) -> SystemTime {
    folder.metadata().and_then(|folder| folder.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn holds_bytes(folder: &Path) -> bool {
    ["out", "err", "idx", "in"].iter().any(|name| folder.join(name).metadata().is_ok_and(|file| file.len() > 0))
}

/// What an instance has noted of its processes, with nobody asked and nothing changed: their ids, pids and start times.
pub fn noted(dir: &Path) -> Vec<(String, u32, u64)> {
    let listed = Roll::read(&dir.join(ROLL)).unwrap_or_default();
    let founds = found(&dir.join("procs"), &listed);
    let noted = founds.described.into_iter().map(|found| found.about).filter(|about| !about.abandoned);
    noted.map(|about| (about.id.clone(), about.pid, about.orphan().start_ticks)).collect()
}

impl Registry {
    fn take_up(self: &Arc<Self>, adopted: Vec<Adopted>, founds: Founds) {
        let mut alive: HashMap<String, Adopted> = adopted.into_iter().map(|child| (child.key.clone(), child)).collect();
        let Founds { described: mut found, lost, mut bare } = founds;
        self.find_cut_off(&alive, &mut found, &mut bare);
        // Oldest first, so that the newest bearer of an alias ends up with it.
        found.sort_by(|a, b| a.about.started.total_cmp(&b.about.started));
        for found in found {
            let result = match alive.remove(&found.about.id) {
                // The keeper knows what the disk does not.
                Some(child) if found.about.private => {
                    self.take_up_unheard(child);
                    continue;
                }
                Some(child) => self.resume(found, child),
                // Taken up before.
                None if self.get(&found.about.id).is_some() => continue,
                // Gone, and all that was said with it.
                None if found.about.private => {
                    bare.push(self.dir_of(&found.about.id));
                    continue;
                }
                // Described before it was started, which then came to nothing.
                None if found.about.pid == 0 && !found.about.unsure => {
                    bare.push(self.dir_of(&found.about.id));
                    continue;
                }
                None => self.remember(found),
            };
            if let Err(error) = result {
                tracing::error!("process not taken up: {error}");
            }
        }
        // The keeper still knows what those were that it holds.
        for found in lost.into_iter().filter(|found| !alive.contains_key(&found.about.id)) {
            if let Err(error) = self.remember(found) {
                tracing::error!("process not taken up: {error}");
            }
        }
        for child in alive.into_values() {
            self.take_up_unheard(child);
        }
        for folder in bare {
            let came_to_nothing =
                folder.file_name().and_then(|id| id.to_str()).is_some_and(|id| self.get(id).is_none());
            if came_to_nothing && let Err(error) = self.forget_files(&folder) {
                tracing::warn!("{}: {error}", folder.display());
            }
        }
    }

    /// Forked, but the daemon died or was cut off before it could write down what it was: the keeper knows, or its folder
    /// where the keeper knows less.
    pub(super) fn take_up_unheard(self: &Arc<Self>, child: Adopted) {
        let key = child.key.clone();
        let about = About::read(&self.dir_of(&key)).or_else(|_| About::decode(&child.meta)).map_err(io::Error::other);
        let result = about.and_then(|about| self.resume(FoundOnDisk { about, end: None, on_roll: false }, child));
        if let Err(error) = result {
            tracing::error!("child {key} not taken up: {error}");
        }
    }

    fn resume(self: &Arc<Self>, found: FoundOnDisk, mut child: Adopted) -> io::Result<()> {
        let FoundOnDisk { mut about, end, on_roll } = found;
        let options = self.journal_options(&about);
        let journal = match about.private {
            true => Journal::from_held(child.io.held.split_off(child.io.held.len().min(1)), options),
            false => Journal::open_on(&self.dir_of(&about.id), options, &self.roll, end),
        }
        .map_err(io::Error::other)?;
        if about.pid == 0 || !on_roll {
            about.runs_as(child.pid, child.start_ticks);
            journal.to_be_described(about.encode());
        }
        if about.relayed {
            self.keep_terminal(&about.id, &mut child.io);
        }
        let io = self.pump_io(&about, child.io);
        let hosted = self.pumps.host(Arc::clone(&journal), io, true);
        self.close_stdin_with(&hosted, &about.id);
        hook!("adopt.hosted");
        let process = self.enter(about, child.start_ticks, journal, Some(hosted));
        if let Some(exit) = child.exit {
            process.child_exited(exit);
        }
        Ok(())
    }

    /// A process that the keeper no longer has: over, and if nobody saw how, its end is unknown.
    fn remember(self: &Arc<Self>, found: FoundOnDisk) -> io::Result<()> {
        let FoundOnDisk { mut about, end, on_roll } = found;
        let dir = self.dir_of(&about.id);
        let journal = Journal::open_on(&dir, JournalOptions::default(), &self.roll, end).map_err(io::Error::other)?;
        let rebooted = about.is_of_another_boot() && journal.bounds().exit.is_none();
        about.rebooted |= rebooted;
        if !on_roll || rebooted {
            journal.to_be_described(about.encode());
        }
        self.enter_ended(about, journal).map(drop)
    }

    /// One that is over. Whoever saw its end has journaled it; if nobody did, what it said last is lost with that.
    pub(super) fn enter_ended(self: &Arc<Self>, about: About, journal: Arc<Journal>) -> io::Result<Process> {
        journal.record_lost()?;
        journal.record_exit(Exit::Unknown)?;
        journal.close_files();
        Ok(self.enter(about, 0, journal, None))
    }
}
