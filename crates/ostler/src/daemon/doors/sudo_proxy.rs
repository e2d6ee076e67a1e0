//! The sudo-proxy door of a shared instance: requests come in, the inbox decides. There is no prompt and no terminal here,
//! so sudo is never let to ask for a password.

use std::sync::Arc;
use std::time::Duration;

use ostler_door_sudo_proxy::{self as sudo_proxy, End, Question, Request, Settings, Surface};
use ostler_engine::Terminal;

use super::{Doing, Door, native};
use crate::config::Approvals;
use crate::daemon::Options;
use crate::daemon::door_socket::{DoorSocket, Folder};
use crate::daemon::host::{Host, HostError};
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
        let settings = Settings { wait: approvals.wait, ..sudo_proxy_settings(approvals) };
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

    fn ask(&self, _: Arc<Question>) -> Result<(), String> {
        Ok(())
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
