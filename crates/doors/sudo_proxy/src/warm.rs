//! A runner that waits beside a question, so that a yes finds it ready. There are few at a time: it is a convenience, and
//! every one is a process.

use std::sync::Arc;

use ostler_engine::WarmCommand;
use ostler_engine::approval::Ticket;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::{DoorState, run};

/// Runners that wait at once: more questions than a person looks at, fewer processes than anybody notices.
pub(crate) const WAITING_MAX: usize = 8;

/// A runner on its way, if this question gets one.
pub(crate) struct Warm(Option<JoinHandle<(Option<WarmCommand>, OwnedSemaphorePermit)>>);

impl Warm {
    /// Starts one beside everything else.
    pub(crate) fn begin(shared: &Arc<DoorState>, ticket: &Arc<Ticket>) -> Self {
        let Ok(place) = Arc::clone(&shared.warm).try_acquire_owned() else { return Self(None) };
        let (shared, ticket) = (Arc::clone(shared), Arc::clone(ticket));
        Self(Some(tokio::spawn(async move {
            let setup = run::setup(&shared, &ticket);
            (shared.engine.warm_command(&ticket, &setup).await, place)
        })))
    }

    /// The runner, once it waits.
    pub(crate) async fn ready(self) -> Option<WarmCommand> {
        self.0?.await.ok()?.0
    }

    /// Nobody needs it any more.
    pub(crate) fn discard(self, shared: &Arc<DoorState>) {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            if let Some(warm) = self.ready().await {
                shared.engine.discard_command(warm);
            }
        });
    }
}
