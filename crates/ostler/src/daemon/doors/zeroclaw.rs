//! The zeroclaw door of a shared instance. Where clients look for it by themselves is another product's folder, and taken only
//! when that is asked for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_door_zeroclaw::{self as zeroclaw, Settings};
use ostler_engine::Engine;
use ostler_engine::session::Status;

use super::{Doing, Door, Ended, Entrance, OwnDoor, Serving, native};
use crate::daemon::door_socket::{DoorSocket, Folder};
use crate::daemon::host::{Host, HostError};
use crate::daemon::{Asked, Options};
use crate::instances::DoorRecord;

/// How long a daemon that leaves with its last client waits for one to come back.
const GRACE: Duration = Duration::from_secs(1);

/// The door, open.
pub(super) struct Zeroclaw {
    socket: DoorSocket,
    door: zeroclaw::Door,
    connect: String,
    /// It is on the port for devices too.
    on_web: bool,
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
            workspaces: host.dir().join(ostler_engine::session::WORKSPACES),
            config_dir: theirs.unwrap_or(folder),
            socket: path,
            pid: std::process::id(),
        };
        let door = zeroclaw::Door::new(host.engine().clone(), settings);
        Ok(Some(Self { socket, door, connect, on_web: options.config.web.zeroclaw }))
    }

    fn describe(&self) -> DoorRecord {
        let address = self.socket.path().display().to_string();
        DoorRecord { name: "zeroclaw".into(), address, connect: self.connect.clone() }
    }

    fn entrance(&self) -> Option<Entrance> {
        let door = self.door.clone();
        let router = Arc::new(move |exposure, arrived| door.router(exposure, arrived));
        self.on_web.then_some(Entrance { clients: "zeroclaw clients", path: zeroclaw::PATH, router })
    }

    fn serve<'a>(&'a mut self, _: &'a Host, _: &'a native::Door) -> Doing<'a> {
        let Self { socket, door, .. } = self;
        Box::pin(socket.serve("zeroclaw door:", |stream| door.admit(stream)))
    }
}

/// The door as `zeroclaw daemon` has it.
pub(crate) struct OwnZeroclaw {
    engine: Engine,
    socket: DoorSocket,
    door: zeroclaw::Door,
    /// It leaves with its last client.
    ephemeral: bool,
}

impl OwnZeroclaw {
    pub(crate) fn open(engine: Engine, socket: DoorSocket, settings: Settings, ephemeral: bool) -> Self {
        let door = zeroclaw::Door::new(engine.clone(), settings);
        Self { engine, socket, door, ephemeral }
    }
}

impl OwnDoor for OwnZeroclaw {
    fn serve(&mut self) -> Serving<'_> {
        let Self { engine, socket, door, ephemeral } = self;
        Box::pin(async move {
            tokio::select! {
                () = socket.serve("zeroclaw door:", |stream| door.admit(stream)) => Asked::Stop,
                () = door.abandoned(GRACE), if *ephemeral => left(engine),
            }
        })
    }

    fn end(self: Box<Self>, asked: Asked) -> Ended {
        let Self { engine, socket, door, .. } = *self;
        Box::pin(async move {
            drop(socket);
            if asked == Asked::Stop {
                engine.sessions().end_processes().await;
            }
            door.close().await;
            None
        })
    }
}

/// Everybody has left. A turn that is not over goes on, and the next daemon has what came of it.
fn left(engine: &Engine) -> Asked {
    let busy = |status: Status| matches!(status, Status::Running | Status::Waiting);
    match engine.sessions().own().iter().any(|session| busy(session.view().status)) {
        true => Asked::Keep,
        false => Asked::Stop,
    }
}
