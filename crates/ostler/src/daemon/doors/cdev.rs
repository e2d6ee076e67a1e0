//! The cdev door of a shared instance: on its usual port or the next free one, for every workspace. It is reached from
//! elsewhere as the port for devices is, and a person is asked about each device that comes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use ostler_door_cdev::{self as cdev, Pairing, Rate, Reach, Settings};
use ostler_door_web::{Exposure, listen};
use ostler_engine::Engine;
use tokio::net::TcpListener;

use super::{Doing, Door, Ended, OwnDoor, Serving, native};
use crate::config::Config;
use crate::daemon::host::{Host, HostError};
use crate::daemon::{Asked, Options};
use crate::instances::DoorRecord;

/// The door, open.
pub(super) struct Cdev {
    own: OwnCdev,
    address: SocketAddr,
}

impl Door for Cdev {
    /// A machine without a loopback has no use for it, and goes on without.
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError> {
        let opened = options.config.doors.cdev.then(|| Self::open_here(&options.config, host));
        Ok(opened.and_then(|opened| opened.inspect_err(|error| tracing::warn!("cdev: {error}")).ok()))
    }

    fn describe(&self) -> DoorRecord {
        cdev_record(self.own.door.exposure(), self.address)
    }

    fn serve<'a>(&'a mut self, _: &'a Host, _: &'a native::Door) -> Doing<'a> {
        Box::pin(self.own.door.serve(&self.own.listener))
    }

    fn close(self: Box<Self>) -> Doing<'static> {
        let door = self.own.door;
        Box::pin(async move { door.close().await })
    }
}

impl Cdev {
    fn open_here(config: &Config, host: &Host) -> io::Result<Self> {
        let web = &config.web;
        // What a person has not confirmed yet does not count, and what is left may protect nothing.
        let protected = config.cdev.url.is_some() || web.certificate.is_some() || web.insecure_lan;
        let bind = if protected { web.bind } else { Ipv4Addr::LOCALHOST.into() };
        let settings = Settings {
            version: crate::names::cdev_version(),
            repo: None,
            heartbeat: config.cdev.heartbeat,
            pairing: Pairing::default(),
            rate: config.cdev.rate_limit.then(Rate::default),
            origins: Vec::new(),
            reach: Reach {
                url: config.cdev.url.as_ref().map(|url| url.as_str().to_owned()),
                certificate: web.certificate.clone().zip(web.key.clone()),
                insecure_lan: web.insecure_lan && !bind.to_canonical().is_loopback(),
            },
            shutdown_ends: false,
            shell: config.cdev.shell,
            claude: None,
            max_file_bytes: cdev::FILE_BYTES,
            max_diff_bytes: cdev::DIFF_BYTES,
        };
        let own = OwnCdev::open(host.engine().clone(), listen(bind, config.cdev.port)?, settings)?;
        let address = own.listener.local_addr()?;
        Ok(Self { own, address })
    }
}

/// How a door that is bound to this address is found.
pub(crate) fn cdev_record(exposure: &Exposure, bound: SocketAddr) -> DoorRecord {
    let here = exposure.from_here(bound);
    let connect = match exposure.from_elsewhere(bound) {
        Some(url) => format!("cdev clients: {here}, from elsewhere {url}"),
        None => format!("cdev clients: {here}"),
    };
    DoorRecord { name: "cdev".into(), address: bound.to_string(), connect }
}

/// The door as `cdev start` has it.
pub(crate) struct OwnCdev {
    engine: Engine,
    door: cdev::Door,
    listener: TcpListener,
}

impl OwnCdev {
    /// Opens it at a socket of the process that clients are told of.
    pub(crate) fn open(engine: Engine, listener: std::net::TcpListener, settings: Settings) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let exposure = settings.exposure()?;
        let door = cdev::Door::new(engine.clone(), settings, exposure)?;
        Ok(Self { engine, door, listener })
    }

    /// The devices of before count again, where that is for the door to say.
    pub(crate) async fn welcome_back(&self) {
        self.door.welcome_back().await;
    }
}

impl OwnDoor for OwnCdev {
    fn serve(&mut self) -> Serving<'_> {
        Box::pin(async move {
            self.door.serve(&self.listener).await;
            Asked::Stop
        })
    }

    fn end(self: Box<Self>, asked: Asked) -> Ended {
        let Self { engine, door, listener } = *self;
        Box::pin(async move {
            drop(listener);
            if asked == Asked::Stop {
                // Clients hear how a turn ended before they hear that the server does.
                engine.sessions().end_processes().await;
            }
            door.close().await;
            None
        })
    }
}
