//! The sudo-proxy door: one JSON line per connection, a human in between.
//!
//! It translates and decides nothing. A request passes every check, is asked of the engine's inbox, waits for somebody's
//! yes, runs once, and is answered. What the client says of itself is shown as such; what the system says of it counts.

mod answer;
mod arrive;
mod chars;
mod client;
mod client_slots;
mod excerpt;
mod login;
mod plan;
mod request;
mod run;
mod surface;
mod time;
mod warm;
mod wire;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ostler_engine::approval::Ask;
use ostler_engine::{Engine, MayWait};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, watch};

pub use chars::is_treacherous;
pub use excerpt::Excerpt;
pub use plan::{File, Missing, Stage};
pub use request::{Refusal, Request};
pub use surface::{Asking, End, Peer, Question, Surface};
pub use time::TimeError;

pub use ostler_story::words;

use answer::Responder;
use client_slots::ClientSlots;
use login::Login;

const BUSY: &str = "server busy: too many in-flight requests";
/// Clients at once that are told so; each keeps a connection open for a moment, so that it gets to read it.
const TURNED_AWAY: usize = 256;

/// How long the end of a door waits for its clients: one that does not read its answer is left alone.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// What to do with a privileged command whose file the asker could replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Writable {
    /// Refuse it.
    #[default]
    Refuse,
    /// Show it with a warning.
    Warn,
}

/// What a door must be told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The version that is reported to clients.
    pub version: String,
    /// How long a request waits once somebody could see it.
    pub wait: Duration,
    /// How long an approved command may run.
    pub limit: Duration,
    /// The SSH agent's socket, for commands that may use it.
    pub ssh_agent: Option<String>,
    /// Programs that the asker could replace.
    pub writable: Writable,
    /// Users who may ask beside our own.
    pub requesters: Vec<u32>,
    /// Whether a question that was refused several times is not put again for a while. Who sits at a prompt of their own is
    /// always asked.
    pub tires: bool,
    /// The name space of what runs through this door, where it ends without the daemon.
    pub endpoint: Option<String>,
}

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<DoorState>,
}

/// What all connections of a door have in common.
pub(crate) struct DoorState {
    engine: Engine,
    settings: Settings,
    surface: Arc<dyn Surface>,
    /// Looked up with the first request.
    login: OnceLock<Login>,
    places: ClientSlots,
    turned_away: Arc<Semaphore>,
    warm: Arc<Semaphore>,
    stop: Notify,
    /// The door is closed.
    closed: watch::Sender<bool>,
}

impl Door {
    /// A door to `engine`.
    pub fn new(engine: Engine, settings: Settings, surface: Arc<dyn Surface>) -> Self {
        let shared = DoorState {
            engine,
            settings,
            surface,
            login: OnceLock::new(),
            places: ClientSlots::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
            warm: Arc::new(Semaphore::new(warm::WAITING_MAX)),
            stop: Notify::new(),
            closed: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Resolves when a client has asked the daemon to stop, and was answered.
    pub async fn stop_requested(&self) {
        self.shared.stop.notified().await;
    }

    /// Lets every client go without an answer, as the end of the daemon would: one that comes back with the same words to
    /// another door like this is known there. What was approved goes on. Returns when they are gone.
    pub async fn close(&self) {
        self.shared.closed.send_replace(true);
        // Each of them listens, unless it is being written to.
        let _ = tokio::time::timeout(CLOSED_WITHIN, self.shared.closed.closed()).await;
    }

    /// Serves a client that has come, if it may ask and there is a place for it.
    pub fn admit(&self, stream: UnixStream) {
        let Ok(credentials) = stream.peer_cred() else { return };
        let shared = Arc::clone(&self.shared);
        let uid = credentials.uid();
        if uid != rustix::process::getuid().as_raw() && !shared.settings.requesters.contains(&uid) {
            shared.surface.stranger(uid);
            return;
        }
        let Some(place) = shared.places.take(uid, || shared.engine.host_of(&stream).map(|host| host.name)) else {
            return Self::turn_away(&shared, stream);
        };
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        let peer = Peer { uid, pid, hosted: None, workspace: None };
        let open = Open(shared.closed.subscribe());
        tokio::spawn(async move {
            client::serve(shared, stream, peer, open).await;
            drop(place);
        });
    }

    /// There is no place for this client. It may still be writing its request, and is answered whenever it looks.
    fn turn_away(shared: &Arc<DoorState>, stream: UnixStream) {
        let line = shared.answer("").error(BUSY);
        match Arc::clone(&shared.turned_away).try_acquire_owned() {
            Ok(place) => drop(tokio::spawn(async move {
                client::refuse(stream, line).await;
                drop(place);
            })),
            // A fresh socket has room for a line.
            Err(_) => drop(stream.try_write(&line)),
        }
    }
}

/// Held by whoever serves a client, so that its end can be waited for.
pub(crate) struct Open(watch::Receiver<bool>);

impl Open {
    /// Resolves when the door is closed.
    pub(crate) async fn closed(&mut self) {
        // The door lives as long as whoever serves its clients.
        let _ = self.0.wait_for(|closed| *closed).await;
    }
}

impl DoorState {
    fn answer<'a>(&'a self, id: &'a str) -> Responder<'a> {
        Responder { id, version: &self.settings.version }
    }

    /// Whether this id comes for the first time.
    fn first_use(&self, id: &str) -> bool {
        self.engine.inbox().first_use(id)
    }

    /// Leaves a trace of what may not even be asked.
    async fn turned_away(&self, ask: &Ask, why: &str) {
        let (inbox, asker, title, why) =
            (self.engine.inbox().clone(), ask.asker.clone(), ask.title.clone(), why.to_owned());
        let noted = MayWait::pool(move |wait| inbox.turned_away(wait, asker, title, why)).await;
        if let Ok(Err(error)) = noted {
            tracing::error!("sudo-proxy: a refusal was not recorded: {error}");
        }
    }
}
