//! The zeroclaw door of a shared instance. Where clients look for it by themselves is another product's folder, and taken only
//! when that is asked for.

use std::path::PathBuf;

use ostler_door_zeroclaw::{Door, Settings};

use super::Options;
use super::door_socket::{DoorSocket, Folder};
use super::host::{Host, HostError};
use crate::instances::DoorRecord;

/// The door, open, and the place where it stays.
pub(super) struct Zeroclaw {
    place: DoorSocket,
    door: Door,
}

impl Zeroclaw {
    pub(super) fn open(options: &Options, host: &Host, open: &mut Vec<DoorRecord>) -> Result<Self, HostError> {
        let theirs =
            std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".zeroclaw")).filter(|_| options.drop_in);
        let (socket, connect) = match &theirs {
            Some(folder) => (folder.join("data/daemon.sock"), "zerocode".to_owned()),
            None => {
                let socket = options.paths.door_socket(host.name(), "zeroclaw");
                let connect = format!("ZEROCLAW_SOCKET={} zerocode", socket.display());
                (socket, connect)
            }
        };
        let place = DoorSocket::open(&socket, Folder::Ours)?;
        let folder = host.dir().join("zeroclaw");
        let settings = Settings {
            version: crate::names::zeroclaw_version(),
            workspaces: folder.join("workspaces"),
            config_dir: theirs.unwrap_or(folder),
            socket: socket.clone(),
        };
        let door = Door::new(host.engine().clone(), settings);
        open.push(DoorRecord { name: "zeroclaw".into(), address: socket.display().to_string(), connect });
        Ok(Self { place, door })
    }

    /// Serves, if it is open.
    pub(super) async fn serve(door: Option<Self>) {
        match door {
            Some(Self { mut place, door }) => serve_zeroclaw(&door, &mut place).await,
            None => std::future::pending().await,
        }
    }
}

/// Serves at a place that may be swept away.
pub(crate) async fn serve_zeroclaw(door: &Door, place: &mut DoorSocket) {
    loop {
        tokio::select! {
            () = door.serve(place.listener()) => return,
            () = place.swept() => {}
        }
        place.reopen().await;
    }
}
