//! The zeroclaw door of a shared instance. Where clients look for it by themselves is another product's folder, and taken only
//! when that is asked for.

use std::path::PathBuf;

use ostler_door_zeroclaw::{self as zeroclaw, Settings};

use super::{Doing, Door, native};
use crate::daemon::Options;
use crate::daemon::door_socket::{DoorSocket, Folder};
use crate::daemon::host::{Host, HostError};
use crate::instances::DoorRecord;

/// The door, open.
pub(super) struct Zeroclaw {
    socket: DoorSocket,
    door: zeroclaw::Door,
    connect: String,
}

impl Door for Zeroclaw {
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError> {
        if !options.config.doors.zeroclaw {
            return Ok(None);
        }
        let theirs =
            std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".zeroclaw")).filter(|_| options.drop_in);
        let (path, connect) = match &theirs {
            Some(folder) => (folder.join("data/daemon.sock"), "zerocode".to_owned()),
            None => {
                let socket = options.paths.door_socket(host.name(), "zeroclaw");
                let connect = format!("ZEROCLAW_SOCKET={} zerocode", socket.display());
                (socket, connect)
            }
        };
        let socket = DoorSocket::open(&path, Folder::Ours)?;
        let folder = host.dir().join("zeroclaw");
        let settings = Settings {
            version: crate::names::zeroclaw_version(),
            workspaces: folder.join("workspaces"),
            config_dir: theirs.unwrap_or(folder),
            socket: path,
        };
        let door = zeroclaw::Door::new(host.engine().clone(), settings);
        Ok(Some(Self { socket, door, connect }))
    }

    fn describe(&self) -> DoorRecord {
        let address = self.socket.path().display().to_string();
        DoorRecord { name: "zeroclaw".into(), address, connect: self.connect.clone() }
    }

    fn serve<'a>(&'a mut self, _: &'a Host, _: &'a native::Door) -> Doing<'a> {
        let Self { socket, door, .. } = self;
        Box::pin(socket.serve("zeroclaw door:", |stream| door.admit(stream)))
    }
}
