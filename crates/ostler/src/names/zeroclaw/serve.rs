//! The daemon: an engine of its own behind one socket. A second one at the same place is refused; a stop that was asked for
//! ends the agents, and their sessions are there again after the next start.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ostler_door_zeroclaw::{Door, Settings};
use ostler_engine::session::Status;
use ostler_engine::{Claim, Ending, Engine};
use tokio::signal::unix::{SignalKind, signal};

use super::endpoint::Endpoint;
use super::{fail, version};
use crate::config::Config;
use crate::daemon::{Asked, DoorSocket, Folder, Host, HostError, LogWriter, Native, Plan, Signals};
use crate::instances::DoorRecord;
use crate::paths::Paths;

/// How long a daemon that leaves with its last client waits for one to come back.
const GRACE: Duration = Duration::from_secs(1);
/// Anybody may make files in such a folder, and nobody touches another's: `/tmp`.
const STICKY: u32 = 0o1000;

pub(super) fn run(endpoint: &Endpoint, ephemeral: bool) -> ExitCode {
    let log = LogWriter::to_stderr();
    // Clients that start it ask for the log of their own program's parts: what means nothing here is left out.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    // A second call would keep the first logger, which is as good.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let endpoint = endpoint.clone();
    let served = crate::daemon::run_to_end(async move { serve(&endpoint, ephemeral).await });
    log.flush();
    match served.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

async fn serve(endpoint: &Endpoint, ephemeral: bool) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let signals = Signals::catch().map_err(|error| text(&error))?;
    // A terminal that goes away is no reason to leave: caught from here on, and nothing is done.
    let _hangup = signal(SignalKind::hangup()).map_err(|error| text(&error))?;
    let paths = Paths::from_env().map_err(|error| text(&error))?;
    let config = Config::load(paths.config_file()).map_err(|error| text(&error))?;
    let socket = &endpoint.socket;
    let instance = crate::daemon::instance_of_socket("zeroclaw", socket);
    let lease = Host::claim(&paths, &instance, Claim::IfFree).map_err(|error| match error {
        HostError::Held { pid, .. } => {
            let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
            format!("a daemon is already serving {}{pid}", socket.display())
        }
        error => error.to_string(),
    })?;
    let host = lease.open(Plan::of_agents("zeroclaw", &config)).await.map_err(|error| text(&error))?;
    crate::daemon::forward(host.engine(), host.dir(), &config.audit.forward);
    let mut place = match DoorSocket::open(socket, folder_of(socket)) {
        Ok(place) => place,
        Err(error) => {
            host.stop(Ending::Keep).await;
            return Err(error.to_string());
        }
    };
    let door = Door::new(host.engine().clone(), settings(endpoint));
    tracing::info!("listening on {}", socket.display());
    let own = DoorRecord {
        name: "zeroclaw".into(),
        address: socket.display().to_string(),
        connect: format!("ZEROCLAW_SOCKET={} zerocode", socket.display()),
    };
    let native = Native::beside(&host, own);
    let asked = tokio::select! {
        () = place.serve("zeroclaw door:", |stream| door.admit(stream)) => Asked::Stop,
        () = door.abandoned(GRACE), if ephemeral => left(host.engine()),
        asked = Native::serve_beside(native) => asked,
        asked = signals.next() => asked,
    };
    drop(place);
    if asked == Asked::Stop {
        host.engine().sessions().end_processes().await;
    }
    host.stop(asked.ending()).await;
    Ok(())
}

/// Everybody has left. A turn that is not over goes on, and the next daemon has what came of it.
fn left(engine: &Engine) -> Asked {
    let busy = |status: Status| matches!(status, Status::Running | Status::Waiting);
    match engine.sessions().list().iter().any(|session| busy(session.view().status)) {
        true => Asked::Keep,
        false => Asked::Stop,
    }
}

/// The socket's folder is made, and made private, unless it is everybody's.
fn folder_of(socket: &Path) -> Folder {
    let found = socket.parent().and_then(|dir| dir.metadata().ok());
    match found.is_some_and(|meta| meta.permissions().mode() & STICKY != 0) {
        true => Folder::Anybodys { guests: Vec::new() },
        false => Folder::Ours,
    }
}

fn settings(endpoint: &Endpoint) -> Settings {
    Settings {
        version: version(),
        workspaces: endpoint.data_dir.join("workspaces"),
        config_dir: endpoint.config_dir.clone(),
        socket: endpoint.socket.clone(),
    }
}
