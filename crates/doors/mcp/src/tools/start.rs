//! `start_server`: a terminal window with a daemon in it, here or at the end of a tunnel.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::CallToolResult;
use rmcp::schemars;
use serde::Deserialize;

use crate::ready;
use crate::server::Settings;
use crate::target::Target;
use crate::terminal;
use crate::wording::{done, failed};

/// A daemon starts in well under a second; a terminal window may take a few.
const LOCAL_LIMIT: Duration = Duration::from_secs(5);
/// Enough for a password to be typed.
const REMOTE_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct StartServer {
    /// The host to connect (omit for this machine)
    #[serde(default)]
    host: Option<String>,
    /// Let unprivileged commands there use this machine's SSH agent when they ask for it; means nothing locally
    #[serde(default)]
    forward_agent: bool,
}

pub(crate) async fn start(settings: &Settings, params: StartServer) -> Result<CallToolResult, ErrorData> {
    let target = match settings.places.target(params.host.as_deref()) {
        Ok(target) => target,
        Err(error) => return Ok(failed(format!("invalid host: {error}"))),
    };
    let socket = settings.places.socket(&target);
    if ready::is_ready(&socket).await {
        super::touch(&settings.registry, target.name(), "").await;
        return Ok(done(already(&target, &socket)));
    }
    let mut program = settings.daemon.clone();
    if let Target::Remote(host) = &target {
        program.extend(["--host".into(), host.into()]);
        program.extend(params.forward_agent.then(|| "--forward-agent".into()));
    }
    let window = terminal::open(&program).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    reap(window);
    let limit = if target == Target::Local { LOCAL_LIMIT } else { REMOTE_LIMIT };
    if !ready::becomes_ready(&socket, limit).await {
        return Ok(failed(late(&target, &socket)));
    }
    super::touch(&settings.registry, target.name(), "").await;
    Ok(done(started(&target, &socket)))
}

/// Windows end whenever a person closes them, which may be after us: no runtime may have to wait for that.
fn reap(mut window: Child) {
    std::thread::spawn(move || window.wait());
}

fn already(target: &Target, socket: &Path) -> String {
    match target {
        Target::Local => format!("sudo-proxy is already running at {}", socket.display()),
        Target::Remote(host) => format!("SSH tunnel to {host} is already active at {}", socket.display()),
    }
}

fn started(target: &Target, socket: &Path) -> String {
    match target {
        Target::Local => format!("sudo-proxy started in terminal at {}", socket.display()),
        Target::Remote(host) => format!("SSH tunnel to {host} established at {}", socket.display()),
    }
}

fn late(target: &Target, socket: &Path) -> String {
    match target {
        Target::Local => {
            format!("Terminal opened but socket not ready after {}s at {}", LOCAL_LIMIT.as_secs(), socket.display())
        }
        Target::Remote(host) => {
            format!("Terminal opened for SSH to {host} but tunnel socket not ready after {}s", REMOTE_LIMIT.as_secs())
        }
    }
}
