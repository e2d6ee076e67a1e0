//! A socket that stays where it was announced: a logout may sweep the runtime folder, and the door opens again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_door_rpc::{Bound, accept_each};
use tokio::net::UnixStream;

use super::host::HostError;
use crate::paths::{ensure_private_dir, make_dir};

/// How soon a swept socket is back.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the socket's folder is.
pub(crate) enum Folder {
    /// Ostler's own: made, and kept private.
    Ours,
    /// Where clients look, or where a person said: made if it is missing, else left as it is.
    Anybodys {
        /// Users who may connect beside our own.
        guests: Vec<u32>,
    },
    /// Another process's, which made the socket and looks after it.
    Handed,
}

/// A door's socket.
pub(crate) struct DoorSocket {
    path: PathBuf,
    folder: Folder,
    listener: Bound,
}

impl DoorSocket {
    /// Listens at `path`.
    pub(crate) fn open(path: &Path, folder: Folder) -> Result<Self, HostError> {
        let listener = listen(path, &folder)?;
        Ok(Self { path: path.to_owned(), folder, listener })
    }

    /// The same with a socket that another process listens at.
    pub(crate) fn handed(socket: OwnedFd, path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), folder: Folder::Handed, listener: Bound::handed(socket, path)? })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Hands every client that comes to `admit`, until dropped. Complaints begin with `door`.
    pub(crate) async fn serve(&mut self, door: &str, admit: impl Fn(UnixStream)) {
        loop {
            tokio::select! {
                () = accept_each(door, &self.listener, &admit) => return,
                () = self.swept() => {}
            }
            self.reopen().await;
        }
    }

    /// Resolves when somebody has removed the socket.
    pub(crate) async fn swept(&self) {
        while self.listener.is_in_place() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Listens again.
    pub(crate) async fn reopen(&mut self) {
        tracing::warn!("{} was removed; opening it again", self.path.display());
        loop {
            match listen(&self.path, &self.folder) {
                Ok(listener) => {
                    self.listener = listener;
                    return;
                }
                Err(error) => tracing::error!("{error}"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl AsFd for DoorSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn listen(path: &Path, folder: &Folder) -> Result<Bound, HostError> {
    let io = |source: io::Error| HostError::Io { path: path.to_owned(), source };
    match (path.parent(), folder) {
        (Some(dir), Folder::Ours) => ensure_private_dir(dir)?,
        (Some(dir), Folder::Anybodys { .. }) => make_dir(dir)?,
        (_, Folder::Handed) | (None, _) => {}
    }
    let bound = ostler_door_rpc::bind(path).map_err(io)?;
    if let Folder::Anybodys { guests } = folder
        && !guests.is_empty()
    {
        bound.admit(guests).map_err(io)?;
    }
    Ok(bound)
}
