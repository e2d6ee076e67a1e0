//! A socket that stays where it was announced: a logout may sweep the runtime folder, and the door opens again.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_door_rpc::Bound;

use super::host::HostError;
use crate::paths::make_dir;

/// How soon a swept socket is back.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A door's place.
pub(crate) struct Place {
    path: PathBuf,
    /// Users who may connect beside our own.
    guests: Vec<u32>,
    listener: Bound,
}

impl Place {
    /// Listens at `path`; a folder that is missing is made, one that is there may be anybody's.
    pub(crate) fn open(path: &Path) -> Result<Self, HostError> {
        Self::open_for(path, &[])
    }

    /// The same, for these users too.
    pub(crate) fn open_for(path: &Path, guests: &[u32]) -> Result<Self, HostError> {
        let listener = listen(path, guests)?;
        Ok(Self { path: path.to_owned(), guests: guests.to_vec(), listener })
    }

    /// Where to accept, until it is [swept](Self::swept) away.
    pub(crate) fn listener(&self) -> &Bound {
        &self.listener
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
            match listen(&self.path, &self.guests) {
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

fn listen(path: &Path, guests: &[u32]) -> Result<Bound, HostError> {
    let io = |source: io::Error| HostError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        make_dir(folder)?;
    }
    let bound = ostler_door_rpc::bind(path).map_err(io)?;
    if !guests.is_empty() {
        bound.admit(guests).map_err(io)?;
    }
    Ok(bound)
}
