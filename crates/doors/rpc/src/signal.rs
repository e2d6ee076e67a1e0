//! How the threads that journal reach a connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ostler_engine::Wake;
use tokio::sync::Notify;

/// Writes what is left of the process with this id, if that needs nobody's waiting. `false`: the connection's task has to.
type PassOn = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Wakes a connection: raised by pump threads, lowered by the connection.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    notify: Notify,
    pass_on: OnceLock<PassOn>,
}

impl Signal {
    /// Sets what is tried first when a process ends.
    pub(crate) fn ends_go_to(&self, pass_on: impl Fn(&str) -> bool + Send + Sync + 'static) {
        // Once, before anything is watched.
        let _ = self.pass_on.set(Box::new(pass_on));
    }

    pub(crate) fn raise(&self) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            self.notify.notify_one();
        }
    }

    /// Has the connection's task look, whatever it was told before: one that is lowering the signal would miss a raised one.
    pub(crate) fn call(&self) {
        self.notify.notify_one();
    }

    pub(crate) fn lower(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }

    pub(crate) async fn raised(&self) {
        self.notify.notified().await;
    }
}

/// The signal of a connection, as rung by one journal.
pub(crate) struct Bell {
    pub(crate) signal: Arc<Signal>,
    /// The id of what is watched.
    pub(crate) of: String,
}

impl Wake for Bell {
    fn wake(&self) {
        self.signal.raise();
    }

    fn ended(&self) {
        if !self.signal.pass_on.get().is_some_and(|pass_on| pass_on(&self.of)) {
            self.signal.raise();
        }
    }
}
