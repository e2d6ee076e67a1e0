//! The codecast door: one HTTP endpoint, answers as JSON, turns as server-sent events.
//!
//! It translates and decides nothing. Sessions are the engine's, and so is the place up to which a client has read; what a
//! connection knows beyond that is gone when it ends. It never waits for an agent while another client waits for it.

mod answer;
mod config;
mod connection;
mod door;
mod envelope;
mod event;
mod memory;
mod methods;
mod paths;
mod read_position;
mod reader;
mod skills;
mod stream;
mod subscribers;
mod translate;
mod yaml;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ostler_door_rpc::RpcError;
use ostler_engine::session::{Session, SessionError, Status};
use ostler_engine::{Engine, MayWait};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use config::{Config, ConfigError};
pub use door::{Door, Ready};

use read_position::{ReadPosition, Stretch};
use subscribers::Subscribers;

/// What sessions and prompts that come through here are marked with.
pub(crate) const DOOR: &str = "codecast";
/// Sessions are spread over so many locks; each is held for moments.
const LOCKS: usize = 16;

/// What a door must be told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The version that is reported to clients.
    pub version: String,
    /// The user's home folder.
    pub home: PathBuf,
    /// The process that clients are told of.
    pub pid: u32,
}

/// What all connections have in common.
pub(crate) struct DoorState {
    engine: Engine,
    settings: Settings,
    started: Instant,
    subscribers: Arc<Subscribers>,
    /// Sessions whose owed events are on their way to somebody.
    handing: Arc<Subscribers>,
    /// Whoever reads and changes a session's place holds its lock.
    locks: [Mutex<()>; LOCKS],
    spread: RandomState,
    /// How many events wait, so that looking again costs nothing; never more than there are sessions.
    counts: Mutex<HashMap<String, Counted>>,
    /// The door is being closed: streams end.
    stop: watch::Receiver<bool>,
}

/// What waited for a session's clients when it was last counted.
struct Counted {
    stretches: Vec<Stretch>,
    events: usize,
}

impl DoorState {
    fn new(engine: Engine, settings: Settings, stop: watch::Receiver<bool>) -> Self {
        Self {
            engine,
            settings,
            started: Instant::now(),
            subscribers: Arc::default(),
            handing: Arc::default(),
            locks: Default::default(),
            spread: RandomState::new(),
            counts: Mutex::default(),
            stop,
        }
    }

    /// The session that is meant by this id, unless it was destroyed.
    fn session(&self, id: &str) -> Result<Option<Session>, RpcError> {
        match self.engine.sessions().find_open(&[], id) {
            Ok(session) => Ok(Some(session)),
            Err(SessionError::NotFound(_)) => Ok(None),
            Err(error @ SessionError::Ambiguous { .. }) => Err(envelope::failed(error)),
        }
    }

    /// Every session that was not destroyed.
    fn sessions(&self) -> Vec<Session> {
        let mut all = self.engine.sessions().list();
        all.retain(|session| session.view().status != Status::Closed);
        all
    }

    fn lock(&self, session: &Session) -> MutexGuard<'_, ()> {
        let mut hasher = self.spread.build_hasher();
        hasher.write(session.id().as_bytes());
        let index = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default();
        let [first, ..] = &self.locks;
        self.locks.get(index).unwrap_or(first).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a session's place, or changes it. May wait for the disk.
    fn place<T>(
        &self,
        wait: &MayWait,
        session: &Session,
        work: impl FnOnce(&mut ReadPosition) -> io::Result<T>,
    ) -> io::Result<T> {
        let _held = self.lock(session);
        work(&mut ReadPosition::of(wait, session)?)
    }
}
