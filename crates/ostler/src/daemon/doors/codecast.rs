//! The codecast door of a shared instance: on its usual port or the next free one. Where clients look for the port by
//! themselves is another product's folder, and taken only when that is asked for.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use ostler_door_codecast::{self as codecast, Config, Ready, Settings};
use ostler_engine::Engine;
use tokio::net::TcpListener;

use super::{Doing, Door, Ended, OwnDoor, Serving, native};
use crate::daemon::host::{Host, HostError};
use crate::daemon::{Asked, Options, PortFile, PortSign, put_up_port_sign};
use crate::instances::DoorRecord;

/// What the address in `~/.codecast/daemon.yaml` is called where it has to be confirmed: an agent can write that file and its
/// tokens, and would open a port to other machines.
const BIND: &str = "codecast.bind";

/// The door, open.
pub(super) struct Codecast {
    own: OwnCodecast,
    address: SocketAddr,
    port: Option<PortFile>,
}

impl Door for Codecast {
    /// A machine without a loopback has no use for it, and goes on without.
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError> {
        let opened = options.config.doors.codecast.then(|| Self::open_here(options, host));
        Ok(opened.and_then(|opened| opened.inspect_err(|error| tracing::warn!("codecast door: {error}")).ok()))
    }

    /// The address, where it lets other machines in.
    fn loosening(options: &Options) -> Option<(String, String)> {
        let folder = PathBuf::from(std::env::var_os("HOME")?).join(".codecast");
        let is_wanted = options.drop_in && options.config.doors.codecast;
        let config = is_wanted.then(|| Config::load(&folder, |_| None).ok()).flatten();
        config.filter(Config::is_open).map(|config| bind(&config))
    }

    fn describe(&self) -> DoorRecord {
        DoorRecord {
            name: "codecast".into(),
            address: self.address.to_string(),
            connect: match &self.port {
                Some(_) => "for a codecast head node over ssh (port in ~/.codecast/daemon.port)".into(),
                None => format!("for a codecast head node over ssh (daemon_port: {})", self.address.port()),
            },
        }
    }

    fn serve<'a>(&'a mut self, _: &'a Host, _: &'a native::Door) -> Doing<'a> {
        Box::pin(self.own.door.serve(&self.own.listener))
    }

    /// Streams end: as they should where their turn is over, broken off where that goes on.
    fn close(self: Box<Self>) -> Doing<'static> {
        let door = self.own.door;
        Box::pin(async move { door.close().await })
    }
}

impl Codecast {
    fn open_here(options: &Options, host: &Host) -> io::Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).ok_or_else(|| io::Error::other("HOME is not set"))?;
        let folder = home.join(".codecast");
        let mut config = match options.drop_in {
            true => Config::load(&folder, |_| None).map_err(io::Error::other)?,
            false => Config::usual(&folder),
        };
        if config.is_open() && !host.engine().inbox().is_confirmed(&bind(&config)) {
            config.bind = Ipv4Addr::LOCALHOST.into();
        }
        let settings = Settings { version: crate::names::codecast_version(), home, pid: std::process::id() };
        let ready = Ready::read(&config)?;
        let own = OwnCodecast::open(host.engine().clone(), config.listen()?, settings, ready)?;
        let address = own.listener.local_addr()?;
        let port = match options.drop_in {
            true => {
                std::fs::create_dir_all(&folder)?;
                Some(PortFile::write(&folder.join("daemon.port"), address.port())?)
            }
            false => None,
        };
        Ok(Self { own, address, port })
    }
}

fn bind(config: &Config) -> (String, String) {
    (BIND.to_owned(), config.bind.to_string())
}

/// The door as `codecast-daemon` has it.
pub(crate) struct OwnCodecast {
    engine: Engine,
    door: codecast::Door,
    listener: TcpListener,
    _sign: PortSign,
}

impl OwnCodecast {
    /// Opens it at a socket of the process that clients are told of.
    pub(crate) fn open(
        engine: Engine,
        listener: std::net::TcpListener,
        settings: Settings,
        ready: Ready,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let sign = put_up_port_sign(&engine, listener.local_addr()?.port(), settings.pid);
        let door = codecast::Door::new(engine.clone(), settings, ready);
        Ok(Self { engine, door, listener, _sign: sign })
    }
}

impl OwnDoor for OwnCodecast {
    fn serve(&mut self) -> Serving<'_> {
        Box::pin(async move {
            self.door.serve(&self.listener).await;
            Asked::Stop
        })
    }

    fn end(self: Box<Self>, asked: Asked) -> Ended {
        let Self { engine, door, listener, .. } = *self;
        Box::pin(async move {
            drop(listener);
            if asked == Asked::Stop {
                // Streams that are open tell how their turn ended.
                engine.sessions().end_processes().await;
            }
            door.close().await;
            None
        })
    }
}
