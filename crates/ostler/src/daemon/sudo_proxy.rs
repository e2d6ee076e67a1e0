//! The sudo-proxy door of a shared instance: requests come in, the inbox decides. There is no prompt and no terminal here,
//! so sudo is never let to ask for a password.

use std::sync::Arc;
use std::time::Duration;

use ostler_door_sudo_proxy::{Door, End, Question, Request, Settings, Surface};
use ostler_engine::Terminal;

use super::Options;
use super::door_socket::{DoorSocket, Folder};
use super::host::{Host, HostError};
use crate::config::Approvals;
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

/// The door, open, and the place where it stays.
pub(super) struct SudoProxy {
    place: DoorSocket,
    door: Door,
}

impl SudoProxy {
    pub(super) fn open(options: &Options, host: &Host, open: &mut Vec<DoorRecord>) -> Result<Self, HostError> {
        let approvals = &options.config.approvals;
        let theirs = match (&approvals.socket, options.drop_in) {
            (Some(path), _) => Some(path.clone()),
            (None, true) => Some(ostler_door_mcp::runtime_dir().join("sudo-proxy.sock")),
            (None, false) => None,
        };
        let (socket, folder) = match theirs {
            Some(path) => (path, Folder::Anybodys { guests: approvals.requesters.clone() }),
            None => (options.paths.door_socket(host.name(), "sudo-proxy"), Folder::Ours),
        };
        let place = DoorSocket::open(&socket, folder)?;
        let settings = Settings { wait: approvals.wait, ..sudo_proxy_settings(approvals) };
        let door = Door::new(host.engine().clone(), settings, Arc::new(Inbox));
        open.push(DoorRecord {
            name: "sudo-proxy".into(),
            address: socket.display().to_string(),
            connect: format!("sudo-request --socket {} COMMAND   (decide: ostler approvals)", socket.display()),
        });
        Ok(Self { place, door })
    }

    pub(super) async fn serve(self) {
        let Self { mut place, door } = self;
        loop {
            tokio::select! {
                () = door.serve(place.listener()) => return,
                () = place.swept() => place.reopen().await,
            }
        }
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
