//! The heartbeat: one number for all clients, so that each sees the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ostler_api::Timestamp;
use serde::Serialize;

use crate::DoorState;
use crate::agent::{self, ClaudeState};

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct Beats(AtomicU64);

impl Beats {
    pub(crate) fn sequence(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What clients are told.
#[derive(Debug, Serialize)]
pub(crate) struct Heartbeat {
    server_time: Timestamp,
    sequence: u64,
    claude_status: ClaudeState,
    uptime_seconds: u64,
}

impl Heartbeat {
    pub(crate) const EVENT: &'static str = "heartbeat";

    pub(crate) fn of(state: &DoorState, sequence: u64) -> Self {
        Self {
            server_time: Timestamp::now(),
            sequence,
            claude_status: agent::claude_state(state),
            uptime_seconds: state.started.elapsed().as_secs(),
        }
    }
}

/// Beats until dropped.
pub(crate) async fn beat(state: &DoorState) {
    // A clock that stood still beats once, not once for each that was missed.
    let mut clock = tokio::time::interval(state.settings.heartbeat.max(Duration::from_millis(100)));
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    clock.tick().await;
    loop {
        clock.tick().await;
        state.heartbeat.0.fetch_add(1, Ordering::AcqRel);
        state.clients.ring();
    }
}
