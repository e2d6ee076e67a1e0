//! The zeroclaw door: JSON-RPC 2.0, one message on a line over an owner-only socket, or in a text over a WebSocket; a turn is
//! told as it happens.
//!
//! It translates and decides nothing. Sessions are the engine's, and so are the names that clients give them; what a
//! connection knows beyond that (who it is, what it was shown) is gone when it ends. Turns are places in a session's journal,
//! so a client that does not read costs nothing, and one that goes away stops nothing.

mod attachments;
mod connection;
mod elicit;
mod error;
mod frame;
mod history;
mod methods;
mod presence;
mod returning;
mod spelling;
mod turn;
mod update;
mod web;
mod who;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_door_rpc::{InputLimits, Limits, Shares};
use ostler_engine::session::{Session, SessionError, Status, View};
use ostler_engine::{Engine, Peer};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, watch};

use connection::Client;
use presence::Presence;
use who::Who;

pub use web::PATH;

/// What sessions and prompts that come through here are marked with.
pub(crate) const DOOR: &str = "zeroclaw";
/// Names of conversations, and of those that a client keeps apart as work on code. The order in which they are looked up.
pub(crate) const SPACES: [&str; 2] = [CHAT, CODE];
pub(crate) const CHAT: &str = "zeroclaw";
pub(crate) const CODE: &str = "zeroclaw-code";
/// The only version of the protocol.
pub(crate) const PROTOCOL: u64 = 1;

/// Clients know this bound: 8 MiB with the newline.
const FRAME_MAX: usize = 8 * 1024 * 1024;
/// The same without it.
pub(crate) const MESSAGE_MAX: usize = FRAME_MAX - 1;
/// Requests of one connection that are worked on at once; prompts count only until they are accepted.
const IN_FLIGHT: usize = 64;
/// Two of the longest lines.
const IN_FLIGHT_BYTES: usize = 2 * FRAME_MAX;
/// Connections at once: far more than the windows of one person.
const CONNECTIONS: usize = 512;
/// Whoever connects says who it is within this time.
const GREETING: Duration = Duration::from_secs(30);
/// How long connections may take to end when the door closes.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What a door must be told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The version that is reported to clients, some of which refuse any but their own.
    pub version: String,
    /// Where sessions work that name no folder: a folder in here for each agent.
    pub workspaces: PathBuf,
    /// The folder that clients know as the configuration's.
    pub config_dir: PathBuf,
    /// Where the door is.
    pub socket: PathBuf,
    /// The process that clients are told of.
    pub pid: u32,
}

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<DoorState>,
}

/// What all connections have in common.
pub(crate) struct DoorState {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    pub(crate) started: Instant,
    pub(crate) presence: Presence,
    pub(crate) counts: history::Counts,
    pub(crate) connections: Arc<Semaphore>,
    /// How many of them one device may have.
    pub(crate) shares: Shares,
    /// True when every connection is to end. Whoever serves one listens, so that it can be waited for.
    closing: watch::Sender<bool>,
}

impl Door {
    /// A door to `engine`.
    pub fn new(engine: Engine, settings: Settings) -> Self {
        let (started, connections) = (Instant::now(), Arc::new(Semaphore::new(CONNECTIONS)));
        let (presence, counts) = (Presence::default(), history::Counts::default());
        let (shares, closing) = (Shares::default(), watch::Sender::new(false));
        let shared = DoorState { engine, settings, started, presence, counts, connections, shares, closing };
        Self { shared: Arc::new(shared) }
    }

    /// Serves a client that has come. Others than the daemon's own user are turned away.
    pub fn admit(&self, stream: UnixStream) {
        if !ostler_door_rpc::is_ours(&stream) {
            return tracing::warn!("zeroclaw door: a client of another user was turned away");
        }
        // Counted from here on, not from when its task first runs.
        let here = self.shared.presence.enter();
        drop(tokio::spawn(client(Arc::clone(&self.shared), stream, here)));
    }

    /// Ends every connection, and waits until they have ended, if that is soon.
    pub async fn close(&self) {
        self.shared.closing.send_replace(true);
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.shared.closing.closed()).await;
    }

    /// Resolves when clients have been here and the last of them has been gone for so long.
    pub async fn abandoned(&self, grace: Duration) {
        self.shared.presence.abandoned(grace).await;
    }
}

async fn client(shared: Arc<DoorState>, mut stream: UnixStream, here: presence::Here) {
    let Ok(_slot) = Arc::clone(&shared.connections).try_acquire_owned() else {
        // It may have gone already.
        let _ = stream.write_all(&frame::crowded(CONNECTIONS)).await;
        return;
    };
    let client = Client::new(Arc::clone(&shared), Who::Here(Peer::of(&stream).ok()), here.number());
    attend(&shared, client.greeted(), ostler_door_rpc::serve(stream, client, limits())).await;
    drop(here);
}

/// The bounds of one connection.
fn limits() -> Limits {
    Limits { line: MESSAGE_MAX, in_flight: IN_FLIGHT, in_flight_bytes: IN_FLIGHT_BYTES, input: InputLimits::default() }
}

/// Serves a client until it goes, the door closes, or it turns out that nobody speaks.
async fn attend(shared: &DoorState, greeted: Arc<Notify>, serving: impl Future<Output = io::Result<()>>) {
    let mut closing = shared.closing.subscribe();
    let served = tokio::select! {
        // First: a client that came just now must not be heard any more.
        biased;
        _ = closing.wait_for(|closing| *closing) => Ok(()),
        served = serving => served,
        () = silent(greeted) => Err(io::Error::other("a client said nothing about itself in time")),
    };
    if let Err(error) = served {
        tracing::warn!("zeroclaw door: {error}");
    }
}

/// Resolves if the client has not initialised the connection in time, and else never.
async fn silent(greeted: Arc<Notify>) {
    if tokio::time::timeout(GREETING, greeted.notified()).await.is_ok() {
        std::future::pending().await
    }
}

impl DoorState {
    /// The open session that clients mean by this: a name that one of them gave it comes first.
    pub(crate) fn session(&self, id: &str) -> Result<Session, SessionError> {
        self.engine.sessions().find_open(&SPACES, id)
    }

    /// Every session that clients have called this, oldest first; closed ones too.
    pub(crate) fn lives(&self, id: &str) -> Result<Vec<Session>, SessionError> {
        let sessions = self.engine.sessions();
        Ok(self.lives_of(&sessions.find(&SPACES, id)?.view()))
    }

    /// Every session that has had the name of this one, oldest first.
    pub(crate) fn lives_of(&self, view: &View) -> Vec<Session> {
        let sessions = self.engine.sessions();
        match &view.alias {
            Some(alias) if SPACES.contains(&alias.space.as_str()) => sessions.aliased(&alias.space, &alias.id),
            _ => sessions.get(&view.id).into_iter().collect(),
        }
    }

    /// Every open session, whichever door it came through.
    pub(crate) fn sessions(&self) -> Vec<View> {
        let all = self.engine.sessions().list();
        all.iter().map(Session::view).filter(|view| view.status != Status::Closed).collect()
    }
}

/// What clients call a session.
pub(crate) fn name_of(view: &View) -> &str {
    match &view.alias {
        Some(alias) if SPACES.contains(&alias.space.as_str()) => &alias.id,
        _ => &view.uuid,
    }
}
