//! The daemon: an engine of its own behind one port. A second one for the same home takes over from the first, and what runs
//! goes on; a stop that was asked for ends the agents, and their sessions are there again after the next start.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ostler_door_codecast::{Config, Door, Ready, Settings};
use ostler_engine::{Claim, Ending};
use tokio::net::TcpListener;
use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::{fail, version};
use crate::daemon::{Asked, Host, LogWriter, Native, Plan, PortFile, Signals};
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
    let lease = Host::claim(&paths, &instance, Claim::TakeOver).map_err(|error| text(&error))?;
    if let Some(pid) = lease.replaced {
        tracing::info!("taking over from pid {pid}");
    }
    let host = lease.open(Plan::of_agents("codecast", &settings)).await.map_err(|error| text(&error))?;
    crate::daemon::forward(host.engine(), host.dir(), &settings.audit.forward);
    let opened = open(&host, &config, ready, home, &folder);
    let (door, listener, port) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            host.stop(Ending::Keep).await;
            return Err(error.to_string());
        }
    };
    let address = listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string());
    let own = DoorRecord {
        name: "codecast".into(),
        connect: format!("a codecast head node, through ssh to {address}"),
        address,
    };
    let native = Native::beside(&host, own);
    let asked = tokio::select! {
        () = door.serve(&listener) => Asked::Stop,
        asked = Native::serve_beside(native) => asked,
        asked = signals.next() => asked,
    };
    drop((listener, port));
    if asked == Asked::Stop {
        // Streams that are open tell how their turn ended.
        host.engine().sessions().end_processes().await;
    }
    door.close().await;
    host.stop(asked.ending()).await;
    Ok(())
}

/// Opens the door and tells where it is.
fn open(
    host: &Host,
    config: &Config,
    ready: Ready,
    home: &Path,
    folder: &Path,
) -> io::Result<(Door, TcpListener, PortFile)> {
    let settings = Settings { version: version(), home: PathBuf::from(home) };
    let door = Door::new(host.engine().clone(), settings, ready);
    let listener = config.listen()?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let address = listener.local_addr()?;
    let port = PortFile::write(&folder.join("daemon.port"), address.port())?;
    crate::daemon::put_up_port_sign(host.engine(), address.port());
    // Who started it may have left; the port is in the file too.
    let _ = writeln!(io::stdout(), "DAEMON_PORT={}", address.port()).and_then(|()| io::stdout().flush());
    tracing::info!("listening on {address}{}", if config.is_open() { " (TLS, tokens)" } else { "" });
    Ok((door, listener, port))
}
