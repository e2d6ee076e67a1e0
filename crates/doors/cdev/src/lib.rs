//! The cdev door: phones and browsers, JSON-RPC over a WebSocket and REST on one port.
//!
//! # Theory of operation
//! A method is a type ([`method::Method`]): what it takes, what it gives, the right that it needs and how it runs. One list
//! ([`methods`]) serves all of them on the WebSocket, another ([`table`]) gives some of them an address of REST, and both describe
//! themselves from the same types. Whoever comes shows the token of a device, which is the engine's; the few addresses that need
//! none are named one by one ([`http`]).
//!
//! The door decides nothing and keeps nothing: sessions, files, devices and positions are the engine's. Events are read from
//! journals, or looked up when a connection is nudged; nothing is queued for a client.

mod agent;
mod answer_events;
mod auth;
mod clients;
mod connection;
mod discover;
mod envelope;
mod error;
mod event_filter;
mod events;
mod file;
mod form;
mod git;
mod heartbeat;
mod http;
mod lifecycle;
mod method;
mod methods;
mod notify;
mod page;
mod pair;
mod permission;
mod place;
mod proof;
mod qr;
mod query;
mod rate;
mod reply;
mod repository;
mod session;
mod settings;
mod shell;
mod status;
mod table;
mod upload;
mod watches;
mod workspace;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ostler_door_rpc::Shares;
use ostler_door_web::{Exposure, Web};
use ostler_engine::access::device::Guest;
use ostler_engine::{Engine, MayWait};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use settings::{DIFF_BYTES, FILE_BYTES, Pairing, Rate, Reach, Settings};

use clients::Clients;
use error::Error;
use heartbeat::Beats;
use proof::Challenges;
use rate::{Windows, too_much};
use upload::Uploads;

/// What sessions and offers that come through here are marked with.
pub(crate) const DOOR: &str = "cdev";
/// The version of the protocol that is spoken, as its header says it.
pub(crate) const PROTOCOL: &str = "1.0.0";
/// How much more than one connection a device may ask for, over all that it has.
const OF_DEVICE: u32 = 4;
/// Tokens and codes that one address may try in a minute.
const OF_ADDRESS: u32 = 60;
/// How long clients may take to hear that the server ends.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An open door; a cheap handle.
#[derive(Clone)]
pub struct Door {
    state: Arc<DoorState>,
    exposure: Arc<Exposure>,
    web: Web,
}

/// What all connections have in common.
pub(crate) struct DoorState {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    /// What this run of the server is called.
    pub(crate) id: String,
    pub(crate) started: Instant,
    pub(crate) clients: Clients,
    pub(crate) heartbeat: Beats,
    pub(crate) watches: watches::Watches,
    pub(crate) challenges: Challenges,
    pub(crate) uploads: Uploads,
    pub(crate) counted: session::Counted,
    /// What each device may have under way.
    pub(crate) shares: Shares,
    devices: Option<Mutex<Windows<String>>>,
    addresses: Option<Mutex<Windows<IpAddr>>>,
    ending: AtomicBool,
    /// A client asked for the end of the program, which its user allows.
    end: watch::Sender<bool>,
}

impl DoorState {
    fn new(engine: Engine, settings: Settings, id: String) -> Self {
        let rate = settings.rate;
        Self {
            engine,
            id,
            started: Instant::now(),
            clients: Clients::default(),
            heartbeat: Beats::default(),
            watches: watches::Watches::default(),
            challenges: Challenges::default(),
            uploads: Uploads::default(),
            counted: session::Counted::default(),
            shares: Shares::default(),
            devices: rate.map(|rate| Mutex::new(Windows::new(rate.commands.saturating_mul(OF_DEVICE)))),
            addresses: rate.map(|_| Mutex::new(Windows::new(OF_ADDRESS))),
            ending: AtomicBool::new(false),
            end: watch::Sender::new(false),
            settings,
        }
    }

    /// The repository that is served, or the only workspace: of several none is the one that is meant.
    pub(crate) fn repo(&self) -> Option<PathBuf> {
        let only = |mut all: Vec<PathBuf>| all.pop().filter(|_| all.is_empty());
        self.settings.repo.clone().or_else(|| only(self.engine.workspaces()))
    }

    /// That repository and its name, as clients see them.
    pub(crate) fn repo_shown(&self) -> (String, String) {
        let Some(repo) = self.repo() else { return Default::default() };
        let name = repo.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (repo.to_string_lossy().into_owned(), name)
    }

    /// Counts a request of a device.
    pub(crate) fn count_device(&self, guest: &Guest, now: Instant) -> Result<(), Error> {
        let Some(devices) = &self.devices else { return Ok(()) };
        devices.lock().unwrap_or_else(PoisonError::into_inner).take(&guest.id, now).map_err(too_much)
    }

    /// Counts a try at a token or code.
    pub(crate) fn count_address(&self, address: IpAddr, now: Instant) -> Result<(), Error> {
        let Some(addresses) = &self.addresses else { return Ok(()) };
        addresses.lock().unwrap_or_else(PoisonError::into_inner).take(&address, now).map_err(too_much)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(crate) fn asks_to_end(&self) {
        self.end.send_replace(true);
    }
}

impl Door {
    /// A door to `engine`, reached as `exposure` says.
    pub fn new(engine: Engine, settings: Settings, exposure: Exposure) -> std::io::Result<Self> {
        let web = Web::new(DOOR, exposure.certificate.clone(), exposure.is_open()).apart_from_hosted(engine.clone());
        let state = DoorState::new(engine, settings, ostler_engine::uuid()?);
        Ok(Self { state: Arc::new(state), exposure: Arc::new(exposure), web })
    }

    /// Has the devices count that were paired here before, where the engine is this door's own and every program of this machine
    /// may pair one unasked, and nobody else. Otherwise a person affirms them.
    pub async fn welcome_back(&self) {
        if self.state.settings.pairing.approval || self.exposure.is_open() {
            return;
        }
        let engine = self.state.engine.clone();
        let affirmed = MayWait::pool(move |wait| engine.affirm_devices_of(wait, DOOR));
        if let Ok(Err(error)) = affirmed.await {
            tracing::warn!("cdev: devices that were paired before: {error}");
        }
    }

    /// How others than our own user reach it.
    pub fn exposure(&self) -> &Exposure {
        &self.exposure
    }

    /// Serves whoever comes, until a client may and does ask for the end.
    pub async fn serve(&self, listener: &TcpListener) {
        let (state, exposure) = (Arc::clone(&self.state), Arc::clone(&self.exposure));
        let bound = match listener.local_addr() {
            Ok(bound) => bound,
            Err(error) => return tracing::error!("cdev: {error}"),
        };
        let router = move |arrived| http::router(Arc::clone(&state), Arc::clone(&exposure), bound, arrived);
        let mut end = self.state.end.subscribe();
        tokio::select! {
            () = self.web.serve(listener, router) => {}
            () = heartbeat::beat(&self.state) => {}
            _ = end.wait_for(|end| *end) => {}
        }
    }

    /// Tells every client that the server ends, and hangs up.
    pub async fn close(&self) {
        self.state.ending.store(true, Ordering::Release);
        self.state.clients.ring();
        let told = async {
            while self.state.clients.count() > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // Who does not read is not waited for.
        let _ = tokio::time::timeout(TOLD_WITHIN, told).await;
        self.web.close().await;
    }
}
