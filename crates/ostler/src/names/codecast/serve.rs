//! The daemon: one port, in front of the engine of `ostler up` where that runs, else of its own. A second one for the same home takes over from the first, and what runs
//! goes on; a stop that was asked for ends the agents, and their sessions are there again after the next start.

use std::fs;
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ostler_door_codecast::{Config, Ready, Settings};
use ostler_engine::{Claim, Ending, Environment};
use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::{fail, version};
use crate::daemon::{Handed, Host, Invitation, LogWriter, Native, OwnCodecast, OwnDoor, Plan, PortFile, Signals};
use crate::instances::DoorRecord;
use crate::paths::Paths;

pub(super) fn run(home: &Path) -> ExitCode {
    let log = LogWriter::to_stderr();
    let level = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    log.take_events(level.unwrap_or_else(|| Targets::new().with_default(Level::INFO)));
    let home = home.to_owned();
    let served = crate::daemon::run_to_end(async move { serve(&home).await });
    log.flush();
    match served.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

async fn serve(home: &Path) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let signals = Signals::catch().map_err(|error| text(&error))?;
    let folder = home.join(".codecast");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let config = Config::load(&folder, |name| std::env::var_os(name)).map_err(|error| text(&error))?;
    let paths = Paths::from_env().map_err(|error| text(&error))?;
    let settings = crate::config::Config::load(paths.config_file()).map_err(|error| text(&error))?;
    let instance = crate::daemon::instance_name("codecast", &folder.canonicalize().unwrap_or(folder.clone()));
    // A daemon that could not serve must not end one that does. The port itself is that one's until it leaves.
    let ready = Ready::read(&config).and_then(|ready| config.listen().map(|_| ready)).map_err(|error| text(&error))?;
    // Clients start a daemon only when the one before does not answer: whatever it hosts must not be lost with it.
    let ours = Host::claim(&paths, &instance, Claim::TakeOver).map_err(|error| text(&error))?;
    if let Some(pid) = ours.replaced {
        tracing::info!("taking over from pid {pid}");
    }
    let door = Settings { version: version(), home: PathBuf::from(home), pid: std::process::id() };
    if let Some(invitation) = Invitation::find(&ours).await {
        let listener = config.listen().map_err(|error| text(&error))?;
        let handed = Handed::Codecast { config: config.clone(), settings: door.clone() };
        let environment = Environment::of_this_process(&["OSTLER_PROCESS"]);
        let record = record(&listener).map_err(|error| text(&error))?;
        if let Some(holder) = invitation.accept(Some(&settings.sessions), &environment, &listener, record, handed).await
        {
            let port = announce(&listener, &config, &folder).map_err(|error| text(&error))?;
            let over = holder.hold(listener, signals.next()).await?;
            drop(port);
            ours.left(over.asked);
            return Ok(());
        }
    }
    let host = ours.open(Plan::of_agents("codecast", &settings)).await.map_err(|error| text(&error))?;
    crate::daemon::settle(&host, settings).await;
    let opened = open(&host, &config, ready, door, &folder);
    let (mut door, native, port) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            host.stop(Ending::Keep).await;
            return Err(error.to_string());
        }
    };
    let asked = tokio::select! {
        asked = door.serve() => asked,
        asked = Native::serve_beside(native) => asked,
        asked = signals.next() => asked,
    };
    drop(port);
    Box::new(door).end(asked).await;
    host.stop(asked.ending()).await;
    Ok(())
}

/// Opens the door in an engine of its own.
fn open(
    host: &Host,
    config: &Config,
    ready: Ready,
    settings: Settings,
    folder: &Path,
) -> io::Result<(OwnCodecast, Option<Native>, PortFile)> {
    let listener = config.listen()?;
    let record = record(&listener)?;
    let announced = listener.try_clone()?;
    let door = OwnCodecast::open(host.engine().clone(), listener, settings, ready)?;
    let port = announce(&announced, config, folder)?;
    Ok((door, Native::beside(host, record), port))
}

fn record(listener: &TcpListener) -> io::Result<DoorRecord> {
    let address = listener.local_addr()?.to_string();
    Ok(DoorRecord {
        name: "codecast".into(),
        connect: format!("a codecast head node, through ssh to {address}"),
        address,
    })
}

/// Tells where the door is.
fn announce(listener: &TcpListener, config: &Config, folder: &Path) -> io::Result<PortFile> {
    let address = listener.local_addr()?;
    let port = PortFile::write(&folder.join("daemon.port"), address.port())?;
    // Who started it may have left; the port is in the file too.
    let _ = writeln!(io::stdout(), "DAEMON_PORT={}", address.port()).and_then(|()| io::stdout().flush());
    tracing::info!("listening on {address}{}", if config.is_open() { " (TLS, tokens)" } else { "" });
    Ok(port)
}
