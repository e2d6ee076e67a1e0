//! The asker's side of a request. Dropping it while nothing was carried out withdraws what was bound to a connection.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Approval, Bound, Inbox, State};
use crate::MayWait;

/// A request that was taken in.
pub struct Ticket {
    inbox: Inbox,
    id: String,
    reattached: bool,
    /// The asker has not gone: it was let go.
    left: AtomicBool,
}

impl Ticket {
    pub(super) fn new(inbox: Inbox, id: String, reattached: bool) -> Self {
        Self { inbox, id, reattached, left: AtomicBool::new(false) }
    }

    /// The request's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether this request was there before the daemon was restarted.
    pub fn is_reattached(&self) -> bool {
        self.reattached
    }

    /// The door is closed and not the connection: the asker may come back to another door, for as long as after a restart.
    /// May wait for the disk.
    pub fn leave(&self, wait: &MayWait) {
        self.inbox.left(wait, &self.id);
        self.left.store(true, Ordering::Release);
    }

    /// The request as everybody sees it; nothing if it is so old that memory let it go.
    pub fn approval(&self) -> Option<Approval> {
        self.inbox.peek(&self.id)
    }

    /// Waits until it is no longer pending.
    pub async fn settled(&self) -> State {
        self.wait(|state| !state.is_pending()).await
    }

    /// Waits until nothing can happen to it any more.
    pub async fn finished(&self) -> State {
        self.wait(State::is_final).await
    }

    async fn wait(&self, done: impl Fn(&State) -> bool) -> State {
        let mut revision = self.inbox.revision();
        loop {
            revision.mark_unchanged();
            match self.approval() {
                Some(approval) if !done(&approval.state) => {}
                Some(approval) => return approval.state,
                None => return State::Unknown,
            }
            if revision.changed().await.is_err() {
                return State::Unknown;
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let open = |approval: &Approval| {
            approval.ask.bound == Bound::Connection
                && matches!(approval.state, State::Pending { .. } | State::Accepted { .. })
        };
        if !*self.left.get_mut() && self.approval().is_some_and(|approval| open(&approval)) {
            self.inbox.hung_up(std::mem::take(&mut self.id));
        }
    }
}
