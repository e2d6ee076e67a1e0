//! The sudo-proxy door of a shared instance: requests come in, the inbox decides. There is no prompt and no terminal here,
//! so sudo is never let to ask for a password. A `sudo-proxy` that has joined has both, and is asked where it runs.

use std::sync::Arc;
use std::time::Duration;

use ostler_door_sudo_proxy::{self as sudo_proxy, Asking, End, Question, Request, Settings, Surface, Writable};
use ostler_engine::{Engine, Terminal};

use super::{Doing, Door, Ended, OwnDoor, Serving, native};
use crate::config::Approvals;
use crate::daemon::door_socket::{DoorSocket, Folder};
use crate::daemon::host::{Host, HostError};
use crate::daemon::joining::Relay;
use crate::daemon::{Asked, Options};
use crate::instances::DoorRecord;

/// How long a prompt waits: it says so, and clients know it.
const WAIT: Duration = Duration::from_secs(60);
/// How long an approved command may run, unless the environment says otherwise.
const LIMIT_SECS: u64 = 300;

/// What the environment says about this door, whichever program opens it.
pub(crate) fn sudo_proxy_settings(approvals: &Approvals) -> Settings {
    let limit = std::env::var("SUDO_PROXY_EXEC_TIMEOUT_SECS").ok().and_then(|text| text.parse().ok());
    Settings {
        version: crate::names::sudo_proxy_version(),
        wait: WAIT,
        limit: Duration::from_secs(limit.unwrap_or(LIMIT_SECS)),
        ssh_agent: std::env::var("SSH_AUTH_SOCK").ok().filter(|socket| !socket.is_empty()),
        writable: approvals.writable_programs,
        requesters: approvals.requesters.clone(),
        tires: false,
        endpoint: None,
    }
}

/// The door, open.
pub(super) struct SudoProxy {
    socket: DoorSocket,
    door: sudo_proxy::Door,
}

impl Door for SudoProxy {
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError> {
        if !options.config.doors.sudo_proxy {
            return Ok(None);
        }
        let approvals = &options.config.approvals;
        let theirs = match (&approvals.socket, options.drop_in) {
            (Some(path), _) => Some(path.clone()),
            (None, true) => Some(ostler_door_mcp::runtime_dir().join("sudo-proxy.sock")),
            (None, false) => None,
        };
        let (path, folder) = match theirs {
            Some(path) => (path, Folder::Anybodys { guests: approvals.requesters.clone() }),
            None => (options.paths.door_socket(host.name(), "sudo-proxy"), Folder::Ours),
        };
        let socket = DoorSocket::open(&path, folder)?;
        let settings = Settings { wait: approvals.wait, tires: true, ..sudo_proxy_settings(approvals) };
        let door = sudo_proxy::Door::new(host.engine().clone(), settings, Arc::new(Inbox));
        Ok(Some(Self { socket, door }))
    }

    fn describe(&self) -> DoorRecord {
        let socket = self.socket.path().display();
        DoorRecord {
            name: "sudo-proxy".into(),
            address: socket.to_string(),
            connect: format!("sudo-request --socket {socket} COMMAND   (decide: ostler approvals)"),
        }
    }

    fn serve<'a>(&'a mut self, _: &'a Host, _: &'a native::Door) -> Doing<'a> {
        let Self { socket, door } = self;
        Box::pin(socket.serve("sudo-proxy:", |stream| door.admit(stream)))
    }
}

/// Nobody sits here: whoever looks into the inbox decides.
struct Inbox;

impl Surface for Inbox {
    fn stranger(&self, uid: u32) {
        tracing::warn!("sudo-proxy: connection from uid {uid} refused");
    }

    fn received(&self, request: &Request) {
        tracing::debug!("sudo-proxy: request {}", request.id);
    }

    fn pinged(&self, _: &Request) {}

    fn stop(&self, _: &Request) -> Result<(), String> {
        Err("this sudo-proxy is part of ostler and in use by others; to stop it: ostler down".into())
    }

    fn ask(&self, _: Arc<Question>) -> Asking {
        Box::pin(std::future::ready(Ok(())))
    }

    fn has_terminal(&self, _: &str) -> bool {
        false
    }

    fn running(&self, _: &str, _: Option<Arc<Terminal>>) {}

    fn over(&self, _: &str, _: End) {}

    fn shows_output(&self) -> bool {
        false
    }
}

/// The door as `sudo-proxy` has it in somebody else's engine: a person is asked where that program runs.
pub(super) struct OwnSudoProxy {
    engine: Engine,
    socket: DoorSocket,
    door: sudo_proxy::Door,
    relay: Arc<Relay>,
    endpoint: Option<String>,
}

impl OwnSudoProxy {
    pub(super) fn open(engine: Engine, socket: DoorSocket, mut settings: Settings) -> Self {
        let warns = ("approvals.writable_programs".to_owned(), "warn".to_owned());
        if settings.writable == Writable::Warn && !engine.inbox().is_confirmed(&warns) {
            settings.writable = Writable::Refuse;
        }
        let (relay, endpoint) = (Relay::new(engine.clone()), settings.endpoint.clone());
        let surface: Arc<dyn Surface> = Arc::<Relay>::clone(&relay);
        let door = sudo_proxy::Door::new(engine.clone(), settings, surface);
        Self { engine, socket, door, relay, endpoint }
    }
}

impl OwnDoor for OwnSudoProxy {
    fn serve(&mut self) -> Serving<'_> {
        let Self { socket, door, .. } = self;
        Box::pin(async move {
            tokio::select! {
                () = socket.serve("sudo-proxy:", |stream| door.admit(stream)) => {}
                () = door.stop_requested() => {}
            }
            Asked::Stop
        })
    }

    fn relay(&self) -> Option<Arc<Relay>> {
        Some(Arc::clone(&self.relay))
    }

    fn end(self: Box<Self>, asked: Asked) -> Ended {
        let Self { engine, socket, door, endpoint, .. } = *self;
        Box::pin(async move {
            drop(socket);
            door.close().await;
            if let Some(endpoint) = endpoint.filter(|_| asked == Asked::Stop) {
                engine.end_all_at(&endpoint).await;
            }
            None
        })
    }
}
