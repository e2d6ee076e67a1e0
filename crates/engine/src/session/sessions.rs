//! Every session of the instance.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ostler_story::{Fact, Said};
use ostler_workspace::{Durable, read_small, replace};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::agents_here::{AgentHere, agents_here};
use super::found::Finder;
use super::new::{self, CreateError, MadeFor, NewSession};
use super::state::State;
use super::store::{Folder, folders};
use super::worktree::Trees;
use super::{Agent, Bell, Desk, Drive, Inner, Session, SessionConfig, UnknownAgent};
use crate::approval::{Approval, Bound, Record};
use crate::brief::Forker;
use crate::feed::Feed;
use crate::names::{Bearer, Given};
use crate::process::Registry;
use crate::{Engine, Environment, Inbox, Joiner, MayWait, id};

/// How long all agents together may take to end when everything ends.
const ENDED_WITHIN: Duration = Duration::from_secs(12);

/// A name of a boot is a UUID; whatever is longer is none.
const BOOT_MAX: u64 = 256;

/// How long the same key waits for whoever is making its session: longer than git takes for a work tree.
const SAME_KEY: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The sessions; a cheap handle.
#[derive(Clone)]
pub struct Sessions {
    pub(super) shared: Arc<SessionsInner>,
    /// The program whose clients look at them.
    pub(crate) joiner: Option<Arc<Joiner>>,
}

pub(super) struct SessionsInner {
    pub(super) registry: Arc<Registry>,
    inbox: Inbox,
    table: Mutex<BTreeMap<String, Session>>,
    /// Held while a session is written down: the same key at the same time is still one session.
    pub(super) making: Mutex<()>,
    revision: watch::Sender<u64>,
    pub(super) runtime: Handle,
    /// The engine ends: nothing is begun any more.
    halting: AtomicBool,
    finder: Finder,
    boot: String,
}

/// An agent that can not be started here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{name:?} is not installed, or not in ostler's PATH ({path})")]
pub struct NoProgram {
    /// What was looked for.
    pub name: String,
    /// Where.
    pub path: String,
}

/// Why a text names no single session.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SessionError {
    /// Nothing is called that.
    #[error("no session is called {0:?}")]
    NotFound(String),
    /// Several could be meant.
    #[error("{text:?} matches several: {}", ids.join(", "))]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// What it could mean.
        ids: Vec<String>,
    },
}

impl SessionsInner {
    pub(super) fn engine(self: &Arc<Self>) -> Engine {
        let (inner, inbox) = (Arc::clone(&self.registry), self.inbox.clone());
        Engine { inner, inbox, sessions: Sessions { shared: Arc::clone(self), joiner: None } }
    }

    /// The engine as the clients of the program know it through which a session was made.
    pub(super) fn engine_of(self: &Arc<Self>, joiner: Option<&str>) -> Engine {
        let mut engine = self.engine();
        engine.sessions.joiner = joiner.and_then(|name| self.registry.joiners.get(name));
        engine
    }

    pub(super) fn changed(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    pub(super) fn feed(&self) -> &Feed {
        &self.registry.feed
    }

    pub(super) fn config(&self) -> &SessionConfig {
        &self.registry.config.sessions
    }

    pub(super) fn is_halting(&self) -> bool {
        self.halting.load(Ordering::Acquire)
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The way an agent is driven here. The first look at a program may take a minute.
    pub(super) fn drive_of(&self, _wait: &MayWait, agent: &Agent, program: Option<&str>, path: &OsStr) -> Drive {
        self.finder.find(agent, program, path).drive
    }

    /// This program, which is also the echo agent's.
    pub(super) fn runner(&self) -> String {
        self.registry.config.runner.to_string_lossy().into_owned()
    }

    /// The work trees of sessions.
    pub(super) fn trees<'a>(&'a self, environment: &'a Environment) -> Trees<'a> {
        Trees {
            instance: &self.registry.config.dir,
            environment,
            forker: Forker::keeper(Arc::downgrade(&self.registry)),
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Session>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.registry.config.dir.join("sessions")
    }

    fn session(self: &Arc<Self>, folder: Folder, state: State, last: u64) -> Session {
        let inner = Inner {
            id: state.created.id.clone(),
            uuid: state.created.uuid.clone(),
            alias: state.created.alias.clone(),
            folder,
            shared: Arc::downgrade(self),
            asks: (!state.asks.is_empty()).into(),
            desk: Desk::new(state),
            bell: Bell::default(),
            last: last.into(),
            rests: tokio::sync::Notify::new(),
            lines: Mutex::default(),
        };
        Session { inner: Arc::new(inner) }
    }
}

/// The session that this key made before, if it is the same.
fn known(table: &BTreeMap<String, Session>, new: &NewSession) -> Result<Option<Session>, CreateError> {
    let Some(key) = &new.key else { return Ok(None) };
    let Some(known) = table.values().find(|known| known.look().state.created.key.as_ref() == Some(key)) else {
        return Ok(None);
    };
    let same = {
        let created = &known.look().state.created;
        // Where its work tree is was not the client's to say.
        let both = created.worktree.is_some() && new.worktree.is_some();
        created.agent == new.agent && (both || created.workspace == new.workspace)
    };
    if same { Ok(Some(known.clone())) } else { Err(CreateError::KeyTaken(known.id().to_owned())) }
}

impl Sessions {
    /// Takes up what is in the instance's folder; what was running goes on. Call within a runtime.
    pub(crate) fn open(wait: &MayWait, registry: Arc<Registry>, inbox: Inbox, runtime: Handle) -> Self {
        let forker = Forker::keeper(Arc::downgrade(&registry));
        let finder =
            Finder::new(Some(registry.config.dir.join("agents.json")), registry.config.sessions.oneshot, forker);
        let shared = Arc::new(SessionsInner {
            finder,
            inbox,
            table: Mutex::default(),
            making: Mutex::default(),
            revision: watch::channel(0).0,
            runtime,
            halting: AtomicBool::new(false),
            boot: crate::approval::boot_id(),
            registry,
        });
        let sessions = Self { shared, joiner: None };
        sessions.load(wait);
        sessions.begin_feed(wait);
        sessions.go_on(wait);
        sessions.hear_decisions();
        sessions
    }

    fn load(&self, wait: &MayWait) {
        let shared = &self.shared;
        for dir in folders(&shared.dir()) {
            let folder = Folder::new(dir, Arc::clone(&shared.registry.pumps), shared.boot.clone());
            match folder.load() {
                Ok((state, last)) => {
                    let session = shared.session(folder, state, last);
                    shared.table().insert(session.id().to_owned(), session);
                }
                Err(error) => tracing::error!("session not taken up: {error}"),
            }
        }
        self.hold_after_reboot(wait);
        self.settle_inbox(wait);
        for session in self.list() {
            session.take_up_screen(wait, shared);
        }
    }

    /// What was running goes on.
    fn go_on(&self, wait: &MayWait) {
        let unfinished = |session: &&Session| session.look().state.has_work();
        for session in self.list().iter().filter(unfinished) {
            session.drive(wait);
        }
    }

    /// After a restart of the machine nothing runs by itself: what waits is held until somebody says something.
    fn hold_after_reboot(&self, wait: &MayWait) {
        let file = self.shared.registry.config.dir.join("boot");
        // Where the kernel does not tell, a crash of the daemon would look the same.
        let Some(boot) = crate::approval::named_boot() else { return };
        match read_small(&file, BOOT_MAX) {
            Ok(last) if last == boot => return,
            Ok(_) => {
                for session in self.list().iter().filter(|session| session.look().state.is_busy()) {
                    let mut desk = session.pen(wait);
                    if let Err(error) = session.tell(&mut desk, Fact::Held {}) {
                        tracing::error!("{}: not held after the restart of the machine: {error}", session.id());
                    }
                }
            }
            // The first daemon here, or nobody knows.
            Err(_) => {}
        }
        // Written last: who dies before holds them all again.
        if let Err(error) = replace(&file, &file.with_extension("new"), boot.as_bytes(), Durable::No) {
            tracing::warn!("{}: {error}", file.display());
        }
    }

    /// A request whose session no longer waits for it waits for nobody: the daemon died before it could say so.
    fn settle_inbox(&self, wait: &MayWait) {
        let waited_for = |approval: &Approval| {
            let session = approval.ask.asker.verified_session.as_deref().and_then(|id| self.get(id));
            session.is_some_and(|session| session.waits_for(approval))
        };
        for approval in self.shared.inbox.pending() {
            if approval.ask.bound == Bound::Session && !waited_for(&approval) {
                let record = Record::Withdrawn { why: "its session no longer waits for it".into() };
                if let Err(error) = self.shared.inbox.note(wait, &approval.id, record) {
                    tracing::error!("inbox: {error}");
                }
            }
        }
    }

    /// Whenever the inbox changes, the threads that wait for it look.
    fn hear_decisions(&self) {
        let shared = Arc::downgrade(&self.shared);
        self.shared.inbox.on_change(Box::new(move || {
            let Some(shared) = shared.upgrade() else { return };
            for session in shared.table().values().filter(|session| session.inner.asks.load(Ordering::Acquire)) {
                session.inner.bell.ring();
            }
        }));
    }

    /// The same as the clients of a program that joined know them.
    pub(crate) fn of(&self, joiner: Arc<Joiner>) -> Self {
        Self { shared: Arc::clone(&self.shared), joiner: Some(joiner) }
    }

    /// What agents inherit.
    fn environment(&self) -> &Arc<Environment> {
        self.joiner.as_ref().map_or(&self.shared.registry.config.environment, |joiner| &joiner.environment)
    }

    /// Waits until it is known where agents are looked for: a login shell may still be asked.
    fn settle_path(&self, _wait: &MayWait) {
        self.shared.runtime.block_on(self.environment().settled());
    }

    /// The agent that people call this.
    pub fn agent(&self, name: &str) -> Result<Agent, UnknownAgent> {
        self.shared.config().agent(name)
    }

    /// Makes a session. Nothing is started before the first prompt. May wait for the disk, for git, and for a login shell.
    pub fn create(&self, wait: &MayWait, mut new: NewSession) -> Result<Session, CreateError> {
        // Whoever asks again is told of the session, whatever has become of its program and folder since.
        if let Some(known) = known(&self.shared.table(), &new)? {
            return Ok(known);
        }
        if new.program_there {
            if new.agent != Agent::Echo {
                self.settle_path(wait);
            }
            self.is_there(&new.agent, new.program.as_deref())?;
        }
        // Held until it can be found by it.
        let _given = match self.name_for(wait, &new)? {
            Ok(given) => given,
            Err(known) => return Ok(known),
        };
        let Some(wanted) = &new.worktree else { return self.store(wait, new, None) };
        let trees = self.shared.trees(self.environment());
        let made = trees.make(wait, &new.workspace, new.name.as_deref(), wanted.branch.as_deref())?;
        let repository = std::mem::replace(&mut new.workspace, made.workspace);
        let made_for = MadeFor { worktree: made.path.clone(), repository };
        let created = self.store(wait, new, Some(made_for));
        let used = |session: &Session| session.look().state.created.worktree.as_ref() == Some(&made.path);
        if !created.as_ref().is_ok_and(used) {
            // Refused, or somebody with the same key was quicker: nobody will ever work here.
            trees.discard(wait, &made.path);
            return created;
        }
        // What somebody said yes to before. The session is there whatever comes of it; `session.setup` tells.
        if let Ok(session) = &created
            && let Err(error) = session.make_ready(wait, false)
        {
            tracing::warn!("{}: not made ready: {error}", session.id());
        }
        created
    }

    /// Its name, if it is to have one; or the session that the same key made meanwhile, under that very name.
    fn name_for(&self, _wait: &MayWait, new: &NewSession) -> Result<Result<Option<Given>, Session>, CreateError> {
        let Some(name) = &new.name else { return Ok(Ok(None)) };
        let deadline = Instant::now() + SAME_KEY;
        loop {
            let taken = match self.shared.engine().take_name(name, None) {
                Ok(given) => return Ok(Ok(Some(given))),
                Err(taken) => taken,
            };
            if let Some(known) = known(&self.shared.table(), new)? {
                return Ok(Err(known));
            }
            if new.key.is_none() || taken.bearer != Bearer::Coming || Instant::now() > deadline {
                return Err(taken.into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn store(&self, wait: &MayWait, new: NewSession, made_for: Option<MadeFor>) -> Result<Session, CreateError> {
        let shared = &self.shared;
        let making = shared.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&shared.table(), &new)? {
            return Ok(known);
        }
        if let Some(alias) = &new.alias
            && let Some(open) = shared.table().values().find(|session| session.answers_to(alias))
        {
            return Ok(open.clone());
        }
        let (id, uuid, env) = (id::session()?, id::uuid()?, new.env.clone());
        let joiner = self.joiner.as_ref().map(|joiner| joiner.name.clone());
        let state = new::begin(new, made_for, (id.clone(), uuid), joiner, shared.registry.config.sessions.oneshot)?;
        let folder = Folder::new(shared.dir().join(&id), Arc::clone(&shared.registry.pumps), shared.boot.clone());
        let made = folder.create().and_then(|journal| {
            let created = Fact::Created(Box::new(state.created.clone()));
            journal.append(0, 0, &ostler_story::payload(&[created]))
        });
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&folder.dir);
            return Err(error.into());
        }
        folder.note(&state, 1);
        folder.rest();
        shared.feed().is_at(&id, &state.created.workspace);
        let created = Said::Fact(Fact::Created(Box::new(state.created.clone())));
        let session = shared.session(folder, state, 1);
        session.noted(1, &[created]);
        session.pen(wait).change(|desk| desk.env = env);
        shared.table().insert(id, session.clone());
        drop(making);
        shared.changed();
        Ok(session)
    }

    /// Whether the program of this agent is where the daemon looks for it. One that is given by its path is not looked for.
    fn is_there(&self, agent: &Agent, program: Option<&str>) -> Result<(), NoProgram> {
        // One that has left the settings is told of when it is to start.
        let Ok(agent) = self.shared.config().with_command(agent.clone()) else { return Ok(()) };
        let name = match (program, &agent) {
            (Some(program), _) => program,
            (None, Agent::Echo) => return Ok(()),
            (None, Agent::Acp { command, .. }) => command.first().map_or("", String::as_str),
            (None, other) => other.name(),
        };
        let path = self.environment().wide_path();
        match crate::lookup::executable(name.as_ref(), &path) {
            Ok(file) if file.exists() => Ok(()),
            _ => Err(NoProgram { name: name.to_owned(), path: path.to_string_lossy().into_owned() }),
        }
    }

    /// Every session that is known, oldest first.
    pub fn list(&self) -> Vec<Session> {
        let mut all: Vec<(u64, Session)> =
            self.shared.table().values().map(|session| (session.look().state.created_ms, session.clone())).collect();
        all.sort_by(|(a, left), (b, right)| (a, left.id()).cmp(&(b, right.id())));
        all.into_iter().map(|(_, session)| session).collect()
    }

    /// The session with exactly this id or UUID.
    pub fn get(&self, id: &str) -> Option<Session> {
        let table = self.shared.table();
        table.get(id).or_else(|| table.values().find(|session| session.uuid() == id)).cloned()
    }

    /// The open session that has this name, or has it for an id, and is not `whose`.
    pub(crate) fn bearer(&self, name: &str, whose: Option<&str>) -> Option<Bearer> {
        let bears = |session: &Session| {
            let desk = session.look();
            let named = !desk.state.closed && desk.state.settings.name.as_deref() == Some(name);
            named || session.id() == name || session.uuid() == name
        };
        let others = self.list().into_iter().filter(|session| whose != Some(session.id()));
        let session = others.into_iter().find(bears)?;
        let agent = session.look().state.created.agent.name().to_owned();
        Some(Bearer::Session { id: session.id().to_owned(), agent })
    }

    /// Sessions that bear or bore this alias, oldest first; if one is open, it is the last.
    pub fn aliased(&self, space: &str, id: &str) -> Vec<Session> {
        let bears = |session: &&Session| session.bears(space, id);
        let found: Vec<Session> = self.shared.table().values().filter(bears).cloned().collect();
        let dated = |session: Session| {
            let desk = session.look();
            let age = (!desk.state.closed, desk.state.created_ms);
            drop(desk);
            (age, session)
        };
        let mut found: Vec<((bool, u64), Session)> = found.into_iter().map(dated).collect();
        found.sort_by_key(|(age, _)| *age);
        found.into_iter().map(|(_, session)| session).collect()
    }

    /// Every agent by its name, and whether its program is where the daemon looks for it. May wait for a login shell.
    pub fn agents(&self, wait: &MayWait) -> Vec<(String, bool)> {
        self.settle_path(wait);
        let config = self.shared.config();
        let names = Agent::KNOWN.into_iter().chain(config.agents.keys().map(String::as_str));
        let there = |name: &str| config.agent(name).is_ok_and(|agent| self.is_there(&agent, None).is_ok());
        names.map(|name| (name.to_owned(), there(name))).collect()
    }

    /// The agents of this instance, in the environment that they get. May wait for a login shell, and if they are asked, for
    /// the agents.
    pub fn agents_here(&self, wait: &MayWait, ask: bool) -> Vec<AgentHere> {
        self.settle_path(wait);
        agents_here(&self.shared.finder, self.environment(), self.shared.config(), ask)
    }

    /// Changes whenever any session does.
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.shared.revision.subscribe()
    }

    /// Deletes a closed session and its journal; `false` if it is not closed, or its process is not gone yet. May
    /// wait for the disk.
    pub fn forget(&self, wait: &MayWait, session: &Session) -> bool {
        let resting = {
            // Whoever is still writing about it has finished then.
            let desk = session.pen(wait);
            desk.state.closed && !desk.driven
        };
        if !resting {
            return false;
        }
        self.shared.table().remove(session.id());
        let engine = self.shared.engine();
        let (sources, screens) = {
            let desk = session.look();
            (desk.state.sources, desk.state.screens)
        };
        let agents = (1..=sources).map(|source| session.process_key(source));
        let keys = agents.chain((1..=screens).map(|number| session.screen_key(number)));
        for process in keys.filter_map(|key| engine.inner.by_key(&key)) {
            engine.forget(wait, &process);
        }
        if let Some(id) = session.view().agent_session {
            let config = &self.shared.registry.config;
            crate::history::transcripts(&config.dir, &config.environment).forget(&id);
        }
        match fs::remove_dir_all(&session.inner.folder.dir) {
            Ok(()) => self.shared.feed().session_forgotten(session.id()),
            Err(error) => tracing::warn!("{}: {error}", session.id()),
        }
        self.shared.changed();
        true
    }

    /// Forgets sessions that were closed long ago, and closes the files of those that rest. May wait for
    /// the disk.
    pub fn tidy(&self, wait: &MayWait) {
        let keep = self.shared.registry.config.sessions.keep_closed;
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        for session in self.list() {
            let (closed, driven, activity) = {
                let desk = session.look();
                (desk.state.closed, desk.driven, desk.state.activity_ms)
            };
            if closed && super::now_ms().saturating_sub(activity) > keep {
                self.forget(wait, &session);
            } else if !driven {
                session.inner.folder.rest();
            }
        }
    }

    /// From now on no turn begins: what waits is for the next daemon.
    pub(crate) fn halt(&self) {
        self.shared.halting.store(true, Ordering::Release);
    }

    /// Ends every agent's process; the sessions stay, and go on when a daemon is there again. Those of a program that joined:
    /// only its own, and they go on when it is there again, or when somebody prompts them.
    pub async fn end_processes(&self) {
        let own = self.own();
        if self.joiner.is_some() {
            let waiting = own.clone();
            let hold = move |wait: &MayWait| {
                waiting.iter().for_each(|session| session.pen(wait).change(|desk| desk.waits = true));
            };
            // One whose disk hangs holds up the others for no longer than all may take to end.
            let _ = tokio::time::timeout(ENDED_WITHIN, MayWait::pool_of(&self.shared.runtime, hold)).await;
        } else {
            self.halt();
        }
        self.end(own).await;
    }

    /// Every session that is known, oldest first; of a program that joined, only those that were made through it.
    pub fn own(&self) -> Vec<Session> {
        let mut own = self.list();
        if let Some(joiner) = &self.joiner {
            own.retain(|session| session.look().state.created.joiner.as_ref() == Some(&joiner.name));
        }
        own
    }

    /// The program is here: what waited for it goes on.
    pub(crate) fn go_on_joined(&self) {
        for session in self.own() {
            let go_on = move |wait: &MayWait| {
                session.pen(wait).change(|desk| desk.waits = false);
                if session.look().state.has_work() {
                    session.drive(wait);
                }
            };
            drop(MayWait::pool_of(&self.shared.runtime, go_on));
        }
    }

    async fn end(&self, mut driven: Vec<Session>) {
        driven.retain(|session| session.look().driven);
        for session in driven.iter().cloned() {
            let end = move |wait: &MayWait| {
                session.pen(wait).change(|desk| desk.end = true);
                session.inner.bell.ring();
            };
            // One that the disk holds up keeps nobody else from ending.
            drop(MayWait::pool_of(&self.shared.runtime, end));
        }
        let all = async {
            for session in &driven {
                session.gone().await;
            }
        };
        if tokio::time::timeout(ENDED_WITHIN, all).await.is_err() {
            tracing::warn!("agents that do not end are left to the keeper");
        }
    }
}
