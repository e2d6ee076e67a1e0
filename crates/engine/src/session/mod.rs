//! A conversation with an agent in a workspace: prompts in, events out, and everything in between survives this program.
//!
//! # Theory of operation
//! A session is a folder with one event journal. Its records are facts of the engine's own (a prompt was accepted, a process
//! begins, an answer goes out) and what an agent's output means, line by line; where the session stands is their sum
//! ([`state::State`]) and is kept nowhere else. While there is something to do a thread of its own ([`driver`]) reads the
//! agent's raw journal, has the adapter derive events, and writes what the adapter wants written. Whatever goes to an agent
//! is written down first, with the place in the stdin ledger where it begins; a daemon that takes over compares and writes
//! what is missing ([`rebuild`]). So nothing is said to an agent twice, and nothing that it said is lost.
//!
//! A session never runs a prompt again by itself: one whose process is gone is interrupted, and the next prompt resumes.

mod agents_here;
mod ask;
mod attention;
mod bell;
mod bookmark;
mod change;
mod changes;
mod desk;
mod driver;
mod feed;
mod find;
mod found;
mod go_on;
mod lines;
mod logged_in;
mod named;
mod new;
mod prompt;
mod prompts_from;
mod raw_line;
mod ready;
mod rebuild;
mod running;
mod screen;
mod sessions;
mod spent;
mod start;
mod state;
mod stop;
mod store;
mod waiting;
mod worktree;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLockReadGuard, Weak};
use std::time::{Duration, SystemTime};

use ostler_journal::{EventBounds, Subscription, Wake};
use tokio::sync::Notify;

pub use agents_here::{AgentHere, agents_here};
pub use bookmark::Bookmark;
pub use change::{Change, ChangeError};
pub use changes::{ChangedTurn, SessionChanged};
pub use found::{Finder, Found};
pub use go_on::GoneOn;
pub use logged_in::Login;
pub use named::UnknownAgent;
pub use new::{CreateError, NewSession, NewTree};
pub use ostler_agents::Unsupported;
pub use ostler_journal::{EventCursor, EventHead, EventStep};
pub use prompt::{Accepted, Prompt, PromptError, Queue};
pub use raw_line::{ClaudeLine, claude_line};
pub use ready::{PrepareError, Readiness, ReadyNote};
pub use screen::{NewScreen, ScreenError};
pub use sessions::{NoProgram, SessionError, Sessions};
pub use spent::Spent;
pub use state::Status;
pub use stop::{CLOSED, Interrupt, Stopped};
pub use store::{LoadError, open_in};
pub use worktree::{OWN_BRANCHES, TreeError, TreeFate, WORKSPACES, WORKTREES};

use crate::MayWait;
use ostler_story::{Agent, Alias, Asked, Autonomy, Drive, Fact, Lifetime, Limit, Said, said};

use bell::Bell;
use desk::{Current, Desk, Pen};
use sessions::SessionsInner;
use state::State;
use store::Folder;

/// How sessions behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// An agent that nobody prompts is stopped after this; the next prompt resumes.
    pub idle_stop: Duration,
    /// Prompts that may wait in one session.
    pub queue: usize,
    /// How long an agent may take until it takes a prompt. Under load some need half a minute.
    pub start_timeout: Duration,
    /// How long a request of an agent waits for somebody until it is denied; for ever without it.
    pub ask_timeout: Option<Duration>,
    /// How long a closed session is kept.
    pub keep_closed: Duration,
    /// Every agent is run once for each prompt, whatever it offers.
    pub oneshot: bool,
    /// Agents of the user's own: a name, and the command that speaks the Agent Client Protocol.
    pub agents: BTreeMap<String, Vec<String>>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            idle_stop: Duration::from_secs(15 * 60),
            queue: 32,
            start_timeout: Duration::from_secs(90),
            ask_timeout: None,
            keep_closed: Duration::from_secs(30 * 24 * 3600),
            oneshot: false,
            agents: BTreeMap::new(),
        }
    }
}

/// A handle to a session.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    uuid: String,
    alias: Option<Alias>,
    folder: Folder,
    shared: Weak<SessionsInner>,
    desk: Desk,
    bell: Bell,
    /// Somebody waits for the inbox.
    asks: AtomicBool,
    /// The last record, for those who only look.
    last: AtomicU64,
    /// Told when no thread drives the session any more.
    rests: Notify,
    /// What was said last, as of which record.
    lines: Mutex<Option<(u64, lines::Lines)>>,
}

/// A session as everybody sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// `s` and twelve letters.
    pub id: String,
    /// Lower case, with dashes.
    pub uuid: String,
    /// What people call it.
    pub name: Option<String>,
    /// What a door's clients call it.
    pub alias: Option<Alias>,
    /// Where it works.
    pub workspace: PathBuf,
    /// The worktree that was made for it.
    pub worktree: Option<PathBuf>,
    /// The folder that the worktree was made for.
    pub repository: Option<PathBuf>,
    /// Which agent.
    pub agent: Agent,
    /// What it may do without asking.
    pub autonomy: Autonomy,
    /// The agent's own mode, instead.
    pub raw_mode: Option<String>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The model that the agent says it is.
    pub reported_model: Option<String>,
    /// What the agent calls the conversation.
    pub title: Option<String>,
    /// The limits of use that it told of.
    pub limits: Vec<Limit>,
    /// The agent's own id of the conversation.
    pub agent_session: Option<String>,
    /// A conversation that the agent did not know any more.
    pub lost: Option<String>,
    /// How long a process lives.
    pub lifetime: Lifetime,
    /// The door it was made through.
    pub door: String,
    /// Where it stands.
    pub status: Status,
    /// Why it failed, or stopped by itself.
    pub why: Option<String>,
    /// Its last turn broke off although nobody wanted it to stop.
    pub broke_off: bool,
    /// A restart of the machine stopped it, and nobody has said anything since.
    pub rebooted: bool,
    /// Its last turn failed because nobody is logged in to the agent.
    pub logged_out: bool,
    /// Prompts that were ever accepted.
    pub prompts: u64,
    /// Prompts that wait.
    pub queued: usize,
    /// The prompt that runs.
    pub turn: Option<u64>,
    /// The record at which its turn began; nothing once the agent has said that it is over.
    pub turn_began: Option<u64>,
    /// Requests in the inbox that wait for an answer.
    pub approvals: Vec<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When anything happened, in milliseconds since 1970.
    pub activity_ms: u64,
    /// The agent's process, while one lives.
    pub process: Option<String>,
    /// The terminal program that has the conversation, while the agent's own screen is open.
    pub screen: Option<String>,
    /// Its last record.
    pub last: u64,
    /// What it has used.
    pub spent: Spent,
    /// The process that was to make its work tree ready and failed.
    pub failed_setup: Option<String>,
}

impl Session {
    /// `s` and twelve letters.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Its UUID.
    pub fn uuid(&self) -> &str {
        &self.inner.uuid
    }

    /// The session or process that it was made from, if that is hosted.
    pub fn owner(&self) -> Option<String> {
        self.look().state.created.owner.clone()
    }

    /// The session as everybody sees it. Never touches the disk.
    pub fn view(&self) -> View {
        let screen = self.screen().map(|process| process.id().to_owned());
        let failed_setup = self.failed_setup();
        let desk = self.look();
        let State { created, settings, .. } = &desk.state;
        let status = desk.state.status();
        View {
            id: self.inner.id.clone(),
            uuid: self.inner.uuid.clone(),
            name: settings.name.clone(),
            alias: created.alias.clone(),
            workspace: created.workspace.clone(),
            worktree: created.worktree.clone(),
            repository: created.repository.clone(),
            agent: created.agent.clone(),
            autonomy: settings.autonomy,
            raw_mode: settings.raw_mode.clone(),
            model: settings.model.clone(),
            reported_model: desk.state.reported_model.clone(),
            title: desk.state.title.clone(),
            limits: desk.state.limits.clone(),
            agent_session: settings.agent_session.clone(),
            lost: desk.state.lost.clone(),
            lifetime: settings.lifetime,
            door: created.door.clone(),
            status,
            why: desk.state.why(),
            broke_off: desk.state.broke_off && !desk.state.is_busy(),
            rebooted: desk.state.is_rebooted(),
            logged_out: status == Status::Failed && desk.state.logged_out,
            prompts: desk.state.prompts,
            queued: desk.state.queue.len(),
            turn: desk.state.turn.as_ref().map(|turn| turn.prompt.number),
            turn_began: desk.state.turn.as_ref().filter(|turn| !turn.ended).map(|turn| turn.began),
            approvals: desk.state.asks.iter().filter_map(|open| open.approval.clone()).collect(),
            created_ms: desk.state.created_ms,
            activity_ms: desk.state.activity_ms,
            process: desk.process.clone(),
            screen,
            last: self.inner.last.load(Ordering::Acquire),
            spent: desk.state.meter.sum.clone(),
            failed_setup,
        }
    }

    /// Requests in the inbox that wait for an answer to this session.
    pub fn approvals(&self) -> Vec<String> {
        self.look().state.asks.iter().filter_map(|open| open.approval.clone()).collect()
    }

    /// What the agent asks and the inbox has, each with its id there.
    pub fn asked(&self) -> Vec<(String, Asked)> {
        let desk = self.look();
        let asks = desk.state.asks.iter();
        asks.filter_map(|open| Some((open.approval.clone()?, open.asked.clone()))).collect()
    }

    /// A reader of its records, after the one with this number. Opening the journal may wait for the disk.
    pub fn events(&self, wait: &MayWait, after: u64) -> io::Result<EventCursor> {
        Ok(EventCursor::new(self.inner.folder.journal(wait)?, after))
    }

    /// Calls `wake` when there are more, once per [`Subscription::arm`]. As all that opens the journal, it may wait for the disk.
    pub fn subscribe(&self, wait: &MayWait, wake: Arc<dyn Wake>) -> io::Result<Subscription> {
        Ok(self.inner.folder.journal(wait)?.subscribe(wake))
    }

    /// What its journal holds.
    pub fn bounds(&self, wait: &MayWait) -> io::Result<EventBounds> {
        Ok(self.inner.folder.journal(wait)?.bounds())
    }

    /// A named place in its journal that outlives its reader. May wait for the disk.
    pub fn bookmark(&self, _wait: &MayWait, name: &str) -> io::Result<Bookmark> {
        Bookmark::open(&self.inner.folder.dir, name)
    }

    /// The agent's own bytes between two offsets of its stdout, for as long as its process is kept. May wait for the disk.
    pub fn raw(&self, wait: &MayWait, source: u32, from: u64, to: u64) -> Option<Vec<u8>> {
        let engine = self.inner.shared.upgrade()?.engine();
        engine.inner.by_key(&self.process_key(source))?.stdout_between(wait, from, to).ok()
    }

    /// The same of its stderr.
    pub fn raw_stderr(&self, wait: &MayWait, source: u32, from: u64, to: u64) -> Option<Vec<u8>> {
        let engine = self.inner.shared.upgrade()?.engine();
        engine.inner.by_key(&self.process_key(source))?.stderr_between(wait, from, to).ok()
    }

    /// The agent's process with this number, for as long as it is kept.
    pub fn process(&self, source: u32) -> Option<crate::Process> {
        self.inner.shared.upgrade()?.engine().inner.by_key(&self.process_key(source))
    }

    /// The key under which the keeper starts the session's process with this number, once.
    fn process_key(&self, source: u32) -> String {
        format!("session:{}:{source}", self.inner.id)
    }

    /// Whether it is open and bears this alias.
    fn answers_to(&self, alias: &Alias) -> bool {
        self.inner.alias.as_ref() == Some(alias) && !self.is_closed()
    }

    /// Whether clients of this space call it, or called it, by this name.
    fn bears(&self, space: &str, name: &str) -> bool {
        self.inner.alias.as_ref().is_some_and(|alias| alias.space == space && alias.id == name)
    }

    fn is_closed(&self) -> bool {
        self.look().state.closed
    }

    /// Where files may be kept that belong to it: they go with it. Made when it is missing; may wait for the disk.
    pub fn files(&self, _wait: &MayWait) -> io::Result<PathBuf> {
        let dir = self.inner.folder.dir.join("files");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(dir)
    }

    /// Where it stands. Never waits for the disk.
    fn look(&self) -> RwLockReadGuard<'_, Current> {
        self.inner.desk.look()
    }

    /// The right to change it. May wait for whoever has it, who may wait for the disk.
    fn pen<'a>(&'a self, wait: &'a MayWait) -> Pen<'a> {
        self.inner.desk.pen(wait)
    }

    /// Writes a fact down, and only then is it so. May wait for the disk, as whoever has the pen.
    fn tell(&self, desk: &mut Pen<'_>, fact: Fact) -> io::Result<u64> {
        let journal = self.inner.folder.journal(desk.wait)?;
        let record = journal.append(0, 0, &ostler_story::payload(std::slice::from_ref(&fact)))?;
        let record = record.ok_or_else(|| io::Error::other("the journal took no fact"))?;
        self.take(desk, record, (0, 0), &[Said::Fact(fact)]);
        self.changed(desk);
        if !desk.driven {
            // No thread will do so when it leaves.
            self.inner.folder.rest();
        }
        Ok(record)
    }

    /// Lets a record change where it stands; whoever looks sees both or neither.
    fn take(&self, desk: &mut Pen<'_>, record: u64, (source, end): (u32, u64), said: &[Said]) {
        self.noted(record, said);
        desk.change(|desk| {
            desk.state.take(record, source, end, now_ms(), said);
            self.inner.last.store(record, Ordering::Release);
        });
    }

    /// The feed tells of a record.
    fn noted(&self, record: u64, said: &[Said]) {
        if let Some(shared) = self.inner.shared.upgrade() {
            shared.feed().session(&self.inner.id, record, said);
        }
    }

    /// Everybody who watches sessions hears that this one is not what it was.
    fn changed(&self, desk: &Current) {
        self.inner.asks.store(!desk.state.asks.is_empty(), Ordering::Release);
        if let Some(shared) = self.inner.shared.upgrade() {
            shared.changed();
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
