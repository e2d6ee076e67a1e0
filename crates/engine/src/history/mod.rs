//! Every conversation that was ever had here: our own sessions, and what agents recorded in a terminal. Where the agent's own id
//! is the same they are one entry. Nothing here is a truth of its own: sessions are told by their journals, the rest by
//! transcripts that belong to other programs.

mod own;
mod search;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use ostler_workspace::history::{
    Begin, Changed, Conversation, Evidence, Hit, Needle, Page, Placed, Position, Recorder, Running, Summary, Transcript,
};
pub use search::{HitIn, Searched, Wanted};

use ostler_workspace::history::{History as Transcripts, Places};

use crate::session::{Session, SessionError, Status, View};
use crate::{Engine, Environment, MayWait};

/// The folder of an instance in which what is derived from transcripts is kept.
const FOLDER: &str = "history";
/// How long a list may look into files that it does not know: the next one goes on.
const LOOK: Duration = Duration::from_secs(5);
/// How long who follows waits between two looks: a look is one `stat`.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// As much of an id as people must type.
const PREFIX_MIN: usize = 4;
/// Ids that are named where several are meant.
const NAMED: usize = 8;

/// A conversation as it is listed.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Our session of it, the one that is open or else the newest.
    pub session: Option<View>,
    /// What its agent recorded.
    pub conversation: Option<Conversation>,
    /// What was asked first, where no transcript tells.
    pub first_prompt: Option<String>,
}

impl Entry {
    /// The agent.
    pub fn agent(&self) -> &str {
        match (&self.session, &self.conversation) {
            (Some(view), _) => view.agent.name(),
            (None, Some(found)) => found.transcript.recorder.name(),
            (None, None) => "",
        }
    }

    /// Where it works.
    pub fn workspace(&self) -> Option<&Path> {
        let recorded = || self.conversation.as_ref()?.summary.workspace.as_deref().map(Path::new);
        self.session.as_ref().map(|view| view.workspace.as_path()).or_else(recorded)
    }

    /// When anything happened last, in milliseconds since 1970.
    pub fn active_ms(&self) -> u64 {
        let recorded = self.conversation.as_ref().map_or(0, |found| found.changed_ms);
        self.session.as_ref().map_or(0, |view| view.activity_ms).max(recorded)
    }

    /// Whether our session of it takes prompts.
    pub fn is_open(&self) -> bool {
        self.session.as_ref().is_some_and(|view| view.status != Status::Closed)
    }
}

/// What a text means.
#[derive(Clone)]
pub struct Meant {
    /// Our session.
    pub session: Option<Session>,
    /// What its agent recorded.
    pub transcript: Option<Transcript>,
}

/// Why a text means no conversation.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Nothing is called that.
    #[error("no conversation is called {0:?}")]
    NotFound(String),
    /// Several could be meant.
    #[error("{text:?} matches several: {}", ids.join(", "))]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// What it could mean.
        ids: Vec<String>,
    },
    /// It is there and cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Which conversations are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// In this folder or beneath it.
    pub workspace: Option<PathBuf>,
    /// With this agent.
    pub agent: Option<String>,
}

impl Filter {
    fn wants(&self, entry: &Entry) -> bool {
        let there = |folder: &PathBuf| entry.workspace().is_some_and(|workspace| workspace.starts_with(folder));
        self.workspace.as_ref().is_none_or(there) && self.agent.as_ref().is_none_or(|agent| entry.agent() == agent)
    }
}

/// Says whether the asker may see a conversation, by our session of it.
pub type Sees<'a> = &'a dyn Fn(Option<&View>) -> bool;

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// Transcripts that were not looked into yet.
    pub behind: u64,
    /// What cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// The conversations of a user; made for each question, by somebody who may wait for the answer.
pub struct History<'a> {
    wait: &'a MayWait,
    engine: Engine,
    transcripts: Transcripts,
}

/// The transcripts that somebody with this environment has.
pub(crate) fn transcripts(dir: &Path, environment: &Environment) -> Transcripts {
    Transcripts::new(Places::of(|name| environment.get(name)), dir.join(FOLDER))
}

impl Engine {
    /// Every conversation that was ever had here.
    pub fn history<'a>(&self, wait: &'a MayWait) -> History<'a> {
        let config = &self.inner.config;
        History { wait, engine: self.clone(), transcripts: transcripts(&config.dir, &config.environment) }
    }
}

impl History<'_> {
    /// All that are wanted and may be seen.
    pub fn list(&self, filter: &Filter, sees: Sees<'_>) -> Listed {
        let found = self.transcripts.list(Instant::now() + LOOK);
        let mut ours: HashMap<(String, String), View> = HashMap::new();
        let mut alone = Vec::new();
        // Oldest first, so that the newest of those that share a conversation is left, and an open one in any case.
        for view in self.engine.sessions().list().iter().map(Session::view) {
            match &view.agent_session {
                Some(id) => {
                    let key = (view.agent.name().to_owned(), id.clone());
                    let keep = ours
                        .get(&key)
                        .is_some_and(|known| known.status != Status::Closed && view.status == Status::Closed);
                    if !keep {
                        ours.insert(key, view);
                    }
                }
                None if view.prompts > 0 => alone.push(view),
                None => {}
            }
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(found.conversations.len());
        for conversation in found.conversations {
            let key = (conversation.transcript.recorder.name().to_owned(), conversation.transcript.id.clone());
            entries.push(Entry { session: ours.remove(&key), conversation: Some(conversation), first_prompt: None });
        }
        let rest = ours.into_values().filter(|view| view.prompts > 0).chain(alone);
        entries.extend(rest.map(|view| Entry { session: Some(view), conversation: None, first_prompt: None }));
        entries.retain(|entry| filter.wants(entry) && sees(entry.session.as_ref()));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.active_ms()));
        Listed { entries, behind: found.behind, unreadable: found.unreadable }
    }

    /// Tells what only the journal of a session knows.
    pub fn complete(&self, entry: &mut Entry) {
        if let (None, Some(view)) = (&entry.conversation, &entry.session)
            && let Some(session) = self.engine.sessions().get(&view.id)
        {
            entry.first_prompt = own::first_prompt(self.wait, &session);
        }
    }

    /// The conversation that a text means: a session as everywhere, the agent's own id, or the unique beginning of one.
    pub fn find(&self, text: &str) -> Result<Meant, HistoryError> {
        match self.engine.sessions().resolve(text) {
            Ok(session) => return Ok(self.of_session(session)),
            Err(SessionError::Ambiguous { text, ids }) => return Err(HistoryError::Ambiguous { text, ids }),
            Err(SessionError::NotFound(_)) => {}
        }
        let meant = |transcript: Transcript| Meant { session: None, transcript: Some(transcript) };
        let mut exact = self.transcripts.locate(text);
        if let (1, Some(only)) = (exact.len(), exact.pop()) {
            return Ok(meant(only));
        }
        if text.len() < PREFIX_MIN {
            return Err(HistoryError::NotFound(text.to_owned()));
        }
        let listed = self.transcripts.list(Instant::now() + LOOK);
        let mut alike: Vec<Transcript> = listed.conversations.into_iter().map(|found| found.transcript).collect();
        alike.retain(|transcript| transcript.id.starts_with(text));
        if alike.len() > 1 {
            let ids = alike.iter().take(NAMED).map(|transcript| transcript.id.clone()).collect();
            return Err(HistoryError::Ambiguous { text: text.to_owned(), ids });
        }
        let only = alike.pop().ok_or_else(|| HistoryError::NotFound(text.to_owned()))?;
        // It may be one of ours by now.
        let ours = self.engine.sessions().find(&[], &only.id).ok();
        Ok(ours.map_or_else(|| meant(only), |session| self.of_session(session)))
    }

    /// The same for programs, which know whole ids.
    pub fn find_exactly(&self, id: &str) -> Result<Meant, HistoryError> {
        match self.engine.sessions().find(&[], id) {
            Ok(session) => return Ok(self.of_session(session)),
            Err(SessionError::Ambiguous { text, ids }) => return Err(HistoryError::Ambiguous { text, ids }),
            Err(SessionError::NotFound(_)) => {}
        }
        let mut exact = self.transcripts.locate(id);
        match (exact.len(), exact.pop()) {
            (1, Some(only)) => Ok(Meant { session: None, transcript: Some(only) }),
            (0, _) => Err(HistoryError::NotFound(id.to_owned())),
            _ => Err(HistoryError::Ambiguous { text: id.to_owned(), ids: vec![id.to_owned()] }),
        }
    }

    /// A session, and what its agent recorded of it.
    pub fn of_session(&self, session: Session) -> Meant {
        let view = session.view();
        let recorded = |id: &String| {
            let found = self.transcripts.locate(id);
            found.into_iter().find(|transcript| transcript.recorder.name() == view.agent.name())
        };
        Meant { transcript: view.agent_session.as_ref().and_then(recorded), session: Some(session) }
    }

    /// What a list would show of it, every message counted.
    pub fn describe(&self, meant: &Meant) -> Result<Entry, HistoryError> {
        let conversation =
            meant.transcript.as_ref().map(|transcript| self.transcripts.describe(transcript)).transpose()?;
        let session = meant.session.as_ref().map(Session::view);
        let mut entry = Entry { session, conversation, first_prompt: None };
        self.complete(&mut entry);
        Ok(entry)
    }

    /// Lets go of what is kept of transcripts that are gone.
    pub fn tidy(&self) {
        self.transcripts.tidy();
    }

    /// The file of its transcript, for people.
    pub fn file(&self, transcript: &Transcript) -> PathBuf {
        self.transcripts.file(transcript)
    }

    /// Whether a program that is not our session's seems to be at it.
    pub fn running(&self, entry: &Entry) -> Option<Running> {
        let conversation = entry.conversation.as_ref().filter(|_| !entry.is_open())?;
        let workspace = conversation.summary.workspace.as_deref();
        self.transcripts.running(&conversation.transcript, workspace, conversation.changed_ms)
    }

    /// Messages from a place on.
    pub fn page(&self, meant: &Meant, begin: Begin, limit: usize) -> Result<Page, HistoryError> {
        match (&meant.transcript, &meant.session) {
            (Some(transcript), _) => Ok(self.transcripts.page(transcript, begin, limit)?),
            (None, Some(session)) => Ok(own::page(self.wait, session, begin, limit)?),
            (None, None) => Ok(Page::default()),
        }
    }

    /// The same, and where there is nothing yet, once there is something; nothing at all after `wait`, or when nobody waits.
    pub fn follow(
        &self,
        meant: &Meant,
        begin: Begin,
        limit: usize,
        wait: Duration,
        gone: &dyn Fn() -> bool,
    ) -> Result<Page, HistoryError> {
        let until = Instant::now() + wait;
        loop {
            let page = self.page(meant, begin, limit)?;
            let told = !page.messages.is_empty() || page.changed.is_some() || page.unread > 0;
            if told || Instant::now() >= until || gone() {
                return Ok(page);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
