//! The native door of an instance: what the command line speaks, whichever name the daemon was started under.

use std::sync::Arc;

use ostler_door_native::{Door, Identity, Instance};
use tokio::sync::watch;

use super::door_socket::{DoorSocket, Folder};
use super::host::{Host, HostError};
use super::open_doors::OpenDoors;
use super::signals::Asked;
use crate::instances::DoorRecord;

/// The door, open, and the place where it stays.
pub(crate) struct Native {
    socket: DoorSocket,
    door: Door,
    asked: watch::Receiver<Option<Asked>>,
    doors: Arc<OpenDoors>,
}

/// What the door's clients may know and ask of the program around the engine.
struct RunningInstance {
    identity: Identity,
    doors: Arc<OpenDoors>,
    ask: watch::Sender<Option<Asked>>,
}

impl Native {
    /// Opens it, and enters the instance in the register with all its doors.
    pub(crate) fn open(host: &Host, others: Vec<DoorRecord>) -> Result<Self, HostError> {
        let path = host.paths().native_socket(host.name());
        let socket = DoorSocket::open(&path, Folder::Ours)?;
        let native = DoorRecord {
            name: "native".into(),
            address: path.display().to_string(),
            connect: "ostler ps, ostler run, ostler attach".into(),
        };
        let doors: Vec<DoorRecord> = std::iter::once(native).chain(others).collect();
        let doors = OpenDoors::new(host.dir().to_owned(), host.register(path, doors)?);
        let (ask, asked) = watch::channel(None);
        let instance = RunningInstance { identity: host.identity(), doors: Arc::clone(&doors), ask };
        let door = Door::new(host.engine().clone(), Arc::new(instance));
        Ok(Self { socket, door, asked, doors })
    }

    /// What it tells of the instance's doors.
    pub(super) fn doors(&self) -> &Arc<OpenDoors> {
        &self.doors
    }

    /// A handle of it, for other entrances.
    pub(crate) fn door(&self) -> Door {
        self.door.clone()
    }

    /// Opens it beside the door of a stand-in, whose clients do not need it and never fail for it.
    pub(crate) fn beside(host: &Host, own: DoorRecord) -> Option<Self> {
        Self::open(host, vec![own]).inspect_err(|error| tracing::warn!("native door: {error}")).ok()
    }

    /// Serves, if it could be opened, until one of its clients asks the daemon to end.
    pub(crate) async fn serve_beside(native: Option<Self>) -> Asked {
        match native {
            Some(native) => native.serve().await,
            None => std::future::pending().await,
        }
    }

    /// Serves until one of its clients asks the daemon to end.
    pub(crate) async fn serve(self) -> Asked {
        let Self { mut socket, door, mut asked, .. } = self;
        tokio::select! {
            () = socket.serve("native door:", |stream| door.admit(stream)) => Asked::Stop,
            end = asked.wait_for(Option::is_some) => end.ok().and_then(|end| *end).unwrap_or(Asked::Stop),
        }
    }
}

impl Instance for RunningInstance {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn doors(&self) -> Vec<ostler_api::Door> {
        let told =
            |door: DoorRecord| ostler_api::Door { name: door.name, address: door.address, connect: door.connect };
        self.doors.list().into_iter().map(told).collect()
    }

    fn end(&self, keep: bool) {
        self.ask.send_replace(Some(if keep { Asked::Keep } else { Asked::Stop }));
    }
}
