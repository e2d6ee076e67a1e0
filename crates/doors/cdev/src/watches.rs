//! The workspaces that are watched for this door's clients: from the first client on, until the door closes. What changes there is
//! told by the feed, as everything is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_engine::MayWait;
use ostler_engine::workspace::WatchLease;

use crate::DoorState;

/// Workspaces that one door has watched: more than anybody follows on a phone.
const MOST: usize = 32;

/// All of them; nothing where it is being begun, or cannot be.
#[derive(Default)]
pub(crate) struct Watches(Mutex<BTreeMap<PathBuf, Option<WatchLease>>>);

impl Watches {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<WatchLease>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has every workspace watched that is served. The first look at a large one takes its time, and nobody waits for it.
pub(crate) fn begin(state: &Arc<DoorState>) {
    let folders = state.settings.repo.clone().map_or_else(|| state.engine.workspaces(), |repo| vec![repo]);
    for folder in folders.into_iter().take(MOST) {
        let mut all = state.watches.all();
        if all.len() >= MOST || all.contains_key(&folder) {
            continue;
        }
        all.insert(folder.clone(), None);
        drop(all);
        let state = Arc::clone(state);
        drop(MayWait::pool(move |wait| {
            let root = state.engine.root(wait, &folder);
            let watched = root
                .map_err(|error| error.to_string())
                .and_then(|root| state.engine.watch_workspace(wait, root).map_err(|error| error.to_string()));
            match watched {
                Ok(lease) => drop(state.watches.all().insert(folder, Some(lease))),
                Err(error) => tracing::warn!("cdev: {}: {error}", folder.display()),
            }
        }));
    }
}
