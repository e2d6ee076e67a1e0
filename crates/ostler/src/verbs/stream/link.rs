//! The connection of a watch, which outlives the daemon: when one goes, the next takes its place.

use std::io::{self, IsTerminal};

use ostler_api::client::Client;

use crate::instances;
use crate::output::CommandError;
use crate::verbs::Context;
use crate::verbs::bells::Bells;
use crate::verbs::connect::Reached;

pub(in crate::verbs) struct Link<'a> {
    context: &'a Context,
    instance: String,
    pub(super) client: Client,
    /// Rings for what happens elsewhere, where somebody sits at a terminal.
    pub(super) bells: Option<Bells>,
}

impl<'a> Link<'a> {
    pub(in crate::verbs) fn new(context: &'a Context, reached: Reached) -> Self {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && !context.json();
        // Without it nothing rings, and everything else goes on.
        let bells = terminal.then(|| Bells::listen(context, &reached.found).ok()).flatten();
        Self { context, instance: reached.found.name, client: reached.client, bells }
    }

    /// Whether the instance answers again.
    pub(super) fn reconnect(&mut self) -> Result<bool, CommandError> {
        let found = instances::find(&self.context.paths, Some(&self.instance))?;
        let reached = found.into_iter().find(|found| found.alive).map(|found| self.context.reach(found));
        Ok(match reached {
            Some(Ok(reached)) => {
                self.client = reached.client;
                true
            }
            _ => false,
        })
    }
}
