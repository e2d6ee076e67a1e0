//! The connection of a watch, which outlives the daemon: when one goes, the next is waited for.

use std::time::{Duration, Instant};

use ostler_api::client::Client;

use super::signals::{Signals, Wish};
use crate::instances;
use crate::output::CommandError;
use crate::verbs::Context;
use crate::verbs::connect::Reached;

/// A restart takes a moment and the keeper restarts a crashed daemon within seconds; beyond this somebody meant it.
const COME_BACK_WITHIN: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);

pub(in crate::verbs) struct Link<'a> {
    context: &'a Context,
    instance: String,
    pub(super) client: Client,
}

/// What came of waiting for a new daemon.
pub(super) enum Back {
    Connected,
    /// A signal came first.
    Wished(Wish),
    /// Somebody left by a key, or hung up.
    Left,
    /// Nobody came.
    Alone,
}

impl<'a> Link<'a> {
    pub(in crate::verbs) fn new(context: &'a Context, reached: Reached) -> Self {
        Self { context, instance: reached.found.name, client: reached.client }
    }

    /// Waits for the instance to answer again.
    /// `pause` waits at most so long, and says whether somebody has left meanwhile.
    pub(super) fn reconnect(
        &mut self,
        signals: &mut Signals,
        mut pause: impl FnMut(Duration) -> Result<bool, CommandError>,
    ) -> Result<Back, CommandError> {
        let deadline = Instant::now() + COME_BACK_WITHIN;
        while Instant::now() < deadline {
            let found = instances::find(&self.context.paths, Some(&self.instance))?;
            if let Some(Ok(reached)) =
                found.into_iter().find(|found| found.alive).map(|found| self.context.reach(found))
            {
                self.client = reached.client;
                return Ok(Back::Connected);
            }
            let leave = |wish: &Wish| matches!(wish, Wish::Interrupt | Wish::End(_));
            if let Some(wish) = signals.take().into_iter().find(leave) {
                return Ok(Back::Wished(wish));
            }
            if pause(RETRY)? {
                return Ok(Back::Left);
            }
        }
        Ok(Back::Alone)
    }
}
