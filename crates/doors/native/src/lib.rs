//! The native door: JSON-RPC 2.0 over an owner-only unix socket, and for devices over a WebSocket, whose methods are named after the engine's nouns.
//!
//! It translates and decides nothing. What only the program around it knows, its doors and how it ends, it asks of an
//! [`Instance`]. Every watch is a cursor into a journal; nothing here outlives a connection but counters.

mod approval;
mod arrival;
mod call;
mod changes;
mod counters;
mod device;
mod dispatch;
mod feed;
mod finish;
mod frame;
mod git;
mod history;
mod hosted;
mod info;
mod instance;
mod notice;
mod pieces;
mod place;
mod process;
mod reach;
mod record;
mod reply;
mod review;
mod rights;
mod rules;
mod search;
mod session;
mod session_read;
mod setup;
mod signed;
mod site;
mod table;
mod watches;
mod web;
mod words;
mod workspace;

pub use instance::agent_info;
pub use web::ANSWER_PATH;

use std::sync::Arc;
use std::time::Duration;

use ostler_api::Timestamp;
use ostler_door_rpc::{InputLimits, Limits, Shares};
use ostler_engine::{Engine, MayWait, Observer, Origin, Peer};

use counters::Counters;

/// Far more than a client has open at once, and a bound on what a hostile one can make us hold.
const IN_FLIGHT: usize = 256;
/// The longest line and some more.
const IN_FLIGHT_BYTES: usize = 16 * 1024 * 1024;

/// The program around the engine.
pub trait Instance: Send + Sync + 'static {
    /// Who answers.
    fn identity(&self) -> Identity;

    /// Every door that is open, this one included.
    fn doors(&self) -> Vec<ostler_api::Door>;

    /// Ends the program soon after this returns: with `keep` its children stay with the keeper.
    fn end(&self, keep: bool);
}

/// Who answers.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The instance's name.
    pub name: String,
    /// The program's version.
    pub program: String,
    /// When the daemon was started.
    pub started: Timestamp,
    /// Where journals and records live.
    pub state_dir: String,
    /// How long a process may take to end when nobody says otherwise.
    pub kill_grace: Duration,
}

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<DoorState>,
}

/// What all connections have in common.
pub(crate) struct DoorState {
    engine: Engine,
    instance: Arc<dyn Instance>,
    counters: Arc<Counters>,
    /// What each device may have under way.
    shares: Shares,
    _observer: Arc<Observer>,
}

impl Door {
    /// A door to `engine`.
    pub fn new(engine: Engine, instance: Arc<dyn Instance>) -> Self {
        let counters = Arc::new(Counters::default());
        let observer = Counters::observer(&counters);
        engine.observe(&observer);
        Self {
            shared: Arc::new(DoorState { engine, instance, counters, shares: Shares::default(), _observer: observer }),
        }
    }

    /// Serves a client that has come. Others than the daemon's own user are turned away.
    pub fn admit(&self, stream: tokio::net::UnixStream) {
        match ostler_door_rpc::is_ours(&stream) {
            true => drop(tokio::spawn(client(Arc::clone(&self.shared), stream))),
            false => tracing::warn!("native door: a client of another user was turned away"),
        }
    }
}

/// What one connection may have under way, whatever it runs over.
fn limits() -> Limits {
    Limits {
        line: ostler_api::LINE_MAX,
        in_flight: IN_FLIGHT,
        in_flight_bytes: IN_FLIGHT_BYTES,
        input: InputLimits::default(),
    }
}

async fn client(shared: Arc<DoorState>, stream: tokio::net::UnixStream) {
    let present = shared.counters.connected();
    // A client that is gone already decides nothing, and touches nothing but what is nobody's.
    let (peer, engine) = (Peer::of(&stream).ok(), shared.engine.clone());
    let looked_at = MayWait::pool(move |wait| (engine.origin(wait, peer.as_ref()), peer)).await;
    let (origin, peer) = looked_at.unwrap_or((Origin::Unknown, None));
    let client = dispatch::Client::new(call::Call::here(shared, peer, origin));
    if let Err(error) = ostler_door_rpc::serve(stream, client, limits()).await {
        tracing::warn!("native door: {error}");
    }
    drop(present);
}
