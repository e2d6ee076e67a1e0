//! The claustrum door of a shared instance.

use std::io;
use std::path::{Path, PathBuf};

use ostler_door_claustrum as claustrum;
use ostler_engine::Engine;
use ostler_workspace::read_small;

use super::{Doing, Door, Ended, OwnDoor, Serving, native};
use crate::daemon::door_socket::{DoorSocket, Folder};
use crate::daemon::host::{Host, HostError};
use crate::daemon::{Asked, Options, write_private};
use crate::instances::DoorRecord;

/// Longer than any token.
const TOKEN_MAX: u64 = 4096;

pub(super) struct Claustrum {
    socket: DoorSocket,
    config: claustrum::Config,
    token_file: PathBuf,
}

impl Door for Claustrum {
    fn open(options: &Options, host: &Host) -> Result<Option<Self>, HostError> {
        if !options.config.doors.claustrum {
            return Ok(None);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let (path, folder) = match home.as_ref().filter(|_| options.drop_in) {
            Some(home) => (home.join(".claude/remote/rpc.sock"), Folder::Anybodys { guests: Vec::new() }),
            None => (options.paths.door_socket(host.name(), "claustrum"), Folder::Ours),
        };
        let socket = DoorSocket::open(&path, folder)?;
        let token_file = host.dir().join("claustrum.token");
        let config = claustrum::Config {
            token: token(&token_file).map_err(|source| HostError::Io { path: token_file.clone(), source })?,
            version: crate::names::claustrum_version(),
            endpoint: host.endpoint("claustrum")?,
            home,
        };
        Ok(Some(Self { socket, config, token_file }))
    }

    fn describe(&self) -> DoorRecord {
        let (socket, token_file) = (self.socket.path().display(), self.token_file.display());
        DoorRecord {
            name: "claustrum".into(),
            address: socket.to_string(),
            connect: format!("ssh HOST ostler as claustrum -bridge -socket {socket}   (token: {token_file})"),
        }
    }

    /// A client that asks this door to shut down ends what came through this door; the daemon belongs to the others too.
    fn serve<'a>(&'a mut self, host: &'a Host, _: &'a native::Door) -> Doing<'a> {
        let Self { socket, config, .. } = self;
        Box::pin(async move {
            loop {
                let door = claustrum::Door::new(host.engine().clone(), config.clone());
                tokio::select! {
                    () = socket.serve("[Server]", |stream| door.admit(stream)) => return,
                    () = door.shutdown_requested() => {}
                }
                door.close().await;
                host.engine().end_all_at(&config.endpoint).await;
                door.ended();
                match host.fresh_endpoint("claustrum") {
                    Ok(endpoint) => config.endpoint = endpoint,
                    Err(error) => tracing::error!("{error}"),
                }
            }
        })
    }
}

/// The door's token: made at the first start, readable by its owner only.
fn token(path: &Path) -> io::Result<String> {
    match read_small(path, TOKEN_MAX) {
        Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut random = [0u8; 32];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    write_private(path, &format!("{token}\n"))?;
    Ok(token)
}

/// The door as `claustrum -serve` has it in somebody else's engine.
pub(super) struct OwnClaustrum {
    engine: Engine,
    socket: DoorSocket,
    door: claustrum::Door,
    endpoint: String,
    keep_children: bool,
}

impl OwnClaustrum {
    pub(super) fn open(engine: Engine, socket: DoorSocket, config: claustrum::Config, keep_children: bool) -> Self {
        let endpoint = config.endpoint.clone();
        let door = claustrum::Door::new(engine.clone(), config);
        crate::daemon::host::extract_login_path(&engine);
        Self { engine, socket, door, endpoint, keep_children }
    }
}

impl OwnDoor for OwnClaustrum {
    fn serve(&mut self) -> Serving<'_> {
        let Self { socket, door, .. } = self;
        Box::pin(async move {
            tokio::select! {
                () = socket.serve("[Server]", |stream| door.admit(stream)) => {}
                () = door.shutdown_requested() => {}
            }
            Asked::Stop
        })
    }

    fn end(self: Box<Self>, asked: Asked) -> Ended {
        let Self { engine, socket, door, endpoint, keep_children } = *self;
        Box::pin(async move {
            drop(socket);
            door.close().await;
            let abandoned = (asked == Asked::Stop && keep_children).then(|| engine.abandon_all_at(&endpoint));
            if asked == Asked::Stop && !keep_children {
                engine.end_all_at(&endpoint).await;
            }
            door.ended();
            abandoned
        })
    }
}
