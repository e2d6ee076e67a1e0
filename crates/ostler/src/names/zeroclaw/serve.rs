//! The daemon: one socket, in front of the engine of `ostler up` where that runs, else of its own. A second one at the same place is refused; a stop that was asked for
//! ends the agents, and their sessions are there again after the next start.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use ostler_door_zeroclaw::Settings;
use ostler_engine::{Claim, Ending, Environment};
use tokio::signal::unix::{SignalKind, signal};

use super::endpoint::Endpoint;
use super::{fail, version};
use crate::config::Config;
use crate::daemon::{
    DoorSocket, Folder, Handed, Host, HostError, Invitation, LogWriter, Native, OwnDoor, OwnZeroclaw, Plan, Signals,
};
use crate::instances::DoorRecord;
use crate::paths::Paths;

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
    let ours = Host::claim(&paths, &instance, Claim::IfFree).map_err(|error| match error {
        HostError::Held { pid, .. } => {
            let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
            format!("a daemon is already serving {}{pid}", socket.display())
        }
        error => error.to_string(),
    })?;
    if let Some(invitation) = Invitation::find(&ours).await {
        let place = DoorSocket::open(socket, folder_of(socket)).map_err(|error| text(&error))?;
        let handed = Handed::Zeroclaw { settings: settings(endpoint), ephemeral };
        let environment = Environment::of_this_process(&["OSTLER_PROCESS"]);
        if let Some(holder) =
            invitation.accept(Some(&config.sessions), &environment, &place, record(socket), handed).await
        {
            tracing::info!("listening on {}", socket.display());
            let over = holder.hold(place, signals.next()).await?;
            ours.left(over.asked);
            return Ok(());
        }
    }
    let host = ours.open(Plan::of_agents("zeroclaw", &config)).await.map_err(|error| text(&error))?;
    crate::daemon::settle(&host, config).await;
    let place = match DoorSocket::open(socket, folder_of(socket)) {
        Ok(place) => place,
        Err(error) => {
            host.stop(Ending::Keep).await;
            return Err(error.to_string());
        }
    };
    let mut door = OwnZeroclaw::open(host.engine().clone(), place, settings(endpoint), ephemeral);
    tracing::info!("listening on {}", socket.display());
    let native = Native::beside(&host, record(socket));
    let asked = tokio::select! {
        asked = door.serve() => asked,
        asked = Native::serve_beside(native) => asked,
        asked = signals.next() => asked,
    };
    Box::new(door).end(asked).await;
    host.stop(asked.ending()).await;
    Ok(())
}

fn record(socket: &Path) -> DoorRecord {
    DoorRecord {
        name: "zeroclaw".into(),
        address: socket.display().to_string(),
        connect: format!("ZEROCLAW_SOCKET={} zerocode", socket.display()),
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
        pid: std::process::id(),
    }
}
