//! The codecast door of a shared instance: on its usual port or the next free one. Where clients look for the port by
//! themselves is another product's folder, and taken only when that is asked for.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use ostler_door_codecast::{Config, Door, Ready, Settings};
use tokio::net::TcpListener;

use super::host::Host;
use super::{Options, PortFile};
use crate::instances::DoorRecord;

/// What the address in `~/.codecast/daemon.yaml` is called where it has to be confirmed: an agent can write that file and its
/// tokens, and would open a port to other machines.
const BIND: &str = "codecast.bind";

/// The door, open.
pub(super) struct Codecast {
    door: Door,
    listener: TcpListener,
    _port: Option<PortFile>,
}

impl Codecast {
    /// The address, where it lets other machines in.
    pub(super) fn loosening(options: &Options) -> Option<(String, String)> {
        let folder = PathBuf::from(std::env::var_os("HOME")?).join(".codecast");
        let is_wanted = options.drop_in && options.config.doors.codecast;
        let config = is_wanted.then(|| Config::load(&folder, |_| None).ok()).flatten();
        config.filter(Config::is_open).map(|config| bind(&config))
    }

    /// Opens it, if it can be: a machine without a loopback has no use for it.
    pub(super) fn open(options: &Options, host: &Host, open: &mut Vec<DoorRecord>) -> Option<Self> {
        Self::try_open(options, host, open).inspect_err(|error| tracing::warn!("codecast door: {error}")).ok()
    }

    fn try_open(options: &Options, host: &Host, open: &mut Vec<DoorRecord>) -> io::Result<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).ok_or_else(|| io::Error::other("HOME is not set"))?;
        let folder = home.join(".codecast");
        let mut config = match options.drop_in {
            true => Config::load(&folder, |_| None).map_err(io::Error::other)?,
            false => Config::usual(&folder),
        };
        if config.is_open() && !host.engine().inbox().is_confirmed(&bind(&config)) {
            config.bind = Ipv4Addr::LOCALHOST.into();
        }
        let settings = Settings { version: crate::names::codecast_version(), home };
        let door = Door::new(host.engine().clone(), settings, Ready::read(&config)?);
        let listener = config.listen()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let port = match options.drop_in {
            true => {
                std::fs::create_dir_all(&folder)?;
                Some(PortFile::write(&folder.join("daemon.port"), address.port())?)
            }
            false => None,
        };
        super::put_up_port_sign(host.engine(), address.port());
        open.push(DoorRecord {
            name: "codecast".into(),
            address: address.to_string(),
            connect: match &port {
                Some(_) => "for a codecast head node over ssh (port in ~/.codecast/daemon.port)".into(),
                None => format!("for a codecast head node over ssh (daemon_port: {})", address.port()),
            },
        });
        Ok(Self { door, listener, _port: port })
    }

    /// The door itself, to be closed when everything ends.
    pub(super) fn door(&self) -> Door {
        self.door.clone()
    }

    pub(super) async fn serve(self) {
        self.door.serve(&self.listener).await;
    }
}

fn bind(config: &Config) -> (String, String) {
    (BIND.to_owned(), config.bind.to_string())
}
