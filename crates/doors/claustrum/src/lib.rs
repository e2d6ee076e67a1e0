//! The claustrum door: newline-delimited JSON-RPC over an owner-only unix socket, as remote desktops speak it.
//!
//! It translates and decides nothing: processes are the engine's, files and git are the workspace's. What is here is the
//! wire: the order of checks, the exact texts, the order of fields.

mod blocking;
mod counters;
mod dispatch;
mod env;
mod envelope;
mod error;
mod files;
mod git;
mod gojson;
mod goos;
mod metrics;
mod process;
mod reply;
mod server;
mod stream;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ostler_door_rpc::{InputLimits, Limits};
use ostler_engine::{Engine, Happening, Observer};
use tokio::sync::{Notify, Semaphore, watch};

pub use counters::Counters;
pub use dispatch::fuzz_line;
pub use gojson::push_string as push_json_string;
pub use goos::errno as errno_text;
pub use metrics::serve as serve_metrics;
pub use server::ARCH;

/// A line of 1 MiB does not fit any more; the newline is not counted.
const LINE_MAX: usize = 1024 * 1024 - 1;
/// Far more than a client has open at once, and a bound on what a hostile one can make us hold.
const IN_FLIGHT: usize = 256;
/// Sixteen of the longest lines.
const IN_FLIGHT_BYTES: usize = 16 * 1024 * 1024;
/// How long a spawn that is under way may hold up the closing of the door.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What a door must be told.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// What every request must carry. Empty: nobody gets in.
    pub token: String,
    /// The version that is reported to clients.
    pub version: String,
    /// Where client ids live: other endpoints of the same engine have their own.
    pub endpoint: String,
    /// The folder that must never be wiped.
    pub home: Option<PathBuf>,
}

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    shared: Arc<DoorState>,
}

/// What all connections of a door have in common.
pub(crate) struct DoorState {
    config: Config,
    engine: Engine,
    counters: Arc<Counters>,
    shutdown: Notify,
    /// True when every connection is to end. Whoever may still start something listens, so that it can be waited for.
    closing: watch::Sender<bool>,
    /// True when what the door started has ended too: then those who asked for it learn it, by the end of their connection.
    ended: watch::Sender<bool>,
    /// For calls that may wait.
    threads: Semaphore,
    _observer: Arc<Observer>,
}

impl Door {
    /// A door to `engine`.
    pub fn new(engine: Engine, config: Config) -> Self {
        let counters = Arc::new(Counters::new(engine.clone(), config.endpoint.clone()));
        let observer = observer(Arc::clone(&counters), config.endpoint.clone());
        engine.observe(&observer);
        let shared = DoorState {
            config,
            engine,
            counters,
            shutdown: Notify::new(),
            closing: watch::Sender::new(false),
            ended: watch::Sender::new(false),
            threads: Semaphore::new(blocking::THREADS),
            _observer: observer,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves a client that has come.
    pub fn admit(&self, stream: tokio::net::UnixStream) {
        drop(tokio::spawn(client(Arc::clone(&self.shared), stream)));
    }

    /// Resolves when a client has asked the daemon to stop.
    pub async fn shutdown_requested(&self) {
        self.shared.shutdown.notified().await;
    }

    /// Ends every connection, and waits until nothing that one of them asked for can start any more. The connection that asked
    /// for the shutdown stays until [`Self::ended`] or the end of the daemon.
    pub async fn close(&self) {
        self.shared.closing.send_replace(true);
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.shared.closing.closed()).await;
    }

    /// What this door started has ended.
    pub fn ended(&self) {
        self.shared.ended.send_replace(true);
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.shared.counters)
    }
}

async fn client(shared: Arc<DoorState>, stream: tokio::net::UnixStream) {
    shared.counters.connected();
    tracing::debug!("[Server] New connection from: @");
    let input = InputLimits::default();
    let limits = Limits { line: LINE_MAX, in_flight: IN_FLIGHT, in_flight_bytes: IN_FLIGHT_BYTES, input };
    let (mut closing, mut ended) = (shared.closing.subscribe(), shared.ended.subscribe());
    let client = dispatch::Client::new(shared);
    let asked = client.asked_for_the_end();
    let mut serving = pin!(ostler_door_rpc::serve(stream, client, limits));
    let left = tokio::select! {
        // First: a client that came just now must not be heard any more.
        biased;
        _ = closing.wait_for(|closing| *closing) => None,
        served = &mut serving => Some(served),
    };
    drop(closing);
    let served = match left {
        Some(served) => served,
        // It takes the end of its connection as the word that everything has ended.
        None if asked.load(Ordering::Acquire) => tokio::select! {
            _ = ended.wait_for(|ended| *ended) => Ok(()),
            served = &mut serving => served,
        },
        None => Ok(()),
    };
    if let Err(error) = served {
        tracing::warn!("[Server] Failed to write response: {error}");
    }
    tracing::debug!("[Server] Connection closed: @");
}

/// Logs and counts what happens to this door's processes, whoever is connected.
fn observer(counters: Arc<Counters>, endpoint: String) -> Arc<Observer> {
    Arc::new(move |process, happening| {
        let Some(alias) = process.about().alias.as_ref().filter(|alias| alias.space == endpoint) else { return };
        let id = reply::for_log(&alias.id);
        match happening {
            Happening::Started => {
                counters.spawned();
                let command = reply::for_log(&process.about().program);
                tracing::info!("[process.Manager] Process {id} started, PID={}, command={command}", process.pid());
            }
            Happening::Ended(exit) => {
                counters.exited(process);
                tracing::info!("[process.Manager] Process {id} exited with code {}", stream::exit_code(exit));
            }
        }
    })
}
