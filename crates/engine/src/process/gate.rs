//! Whether anything may still be started. An engine that stops lets nobody begin, and waits for those who have: a child
//! that came to be while everything ended would be nobody's.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

/// How long a stop waits for spawns under way. A fork takes less than a millisecond, but hundreds may wait in line on a busy
/// machine; one that hangs is not waited for.
const UNDER_WAY: Duration = Duration::from_secs(4);

/// A spawn that is under way.
pub(super) type Pass = OwnedRwLockReadGuard<()>;

#[derive(Default)]
pub(super) struct Gate {
    closed: watch::Sender<bool>,
    under_way: Arc<RwLock<()>>,
}

impl Gate {
    /// The right to start something; nothing once the engine stops.
    pub(super) fn enter(&self) -> Option<Pass> {
        let pass = Arc::clone(&self.under_way).try_read_owned().ok()?;
        // Looked at last: whoever closes the gate says so before they count who is inside.
        (!self.is_closed()).then_some(pass)
    }

    /// Lets nobody in any more, and waits for those inside.
    pub(super) async fn close(&self) {
        self.closed.send_replace(true);
        // Nobody but a fork that hangs takes longer.
        let _ = tokio::time::timeout(UNDER_WAY, self.under_way.write()).await;
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the gate is closed.
    pub(super) async fn closed(&self) {
        let mut told = self.closed.subscribe();
        // It lives as long as the registry, whose caller we are.
        let _ = told.wait_for(|closed| *closed).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_is_inside_is_waited_for_and_nobody_comes_after() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().unwrap();
        let closing = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.close().await }
        });
        gate.closed().await;
        assert!(gate.enter().is_none());
        assert!(!closing.is_finished(), "somebody is inside");
        drop(pass);
        closing.await.unwrap();
        assert!(gate.enter().is_none());
    }
}
