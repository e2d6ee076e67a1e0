//! What a daemon is asked from outside: to stop, or to leave its children for the next one.

use std::io;

use ostler_engine::Ending;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    /// End, and end what this door's contract says ends with it.
    Stop,
    /// End, and leave everything running for the daemon that takes over now.
    Leave,
    /// End, and leave everything running until somebody starts a daemon again.
    Keep,
}

impl Asked {
    /// What becomes of everything that is hosted.
    pub(crate) fn ending(self) -> Ending {
        match self {
            Self::Leave => Ending::Leave,
            Self::Keep => Ending::Keep,
            Self::Stop => Ending::Kill,
        }
    }
}

/// The signals that mean something to us.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    leave: Signal,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            leave: signal(SignalKind::from_raw(ostler_engine::LEAVE.as_raw()))?,
        })
    }

    /// The next one.
    pub(crate) async fn next(mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.leave.recv() => Asked::Leave,
        }
    }
}
