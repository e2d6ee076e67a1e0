//! A spawn whose keeper died before it answered. What no keeper had begun goes to the next one; what one may have begun is
//! looked for, and if it is not there, nobody knows whether it ran: then that is what is said, and what is written down.

use std::sync::Arc;
use std::time::Duration;

use super::spawn::{Asked, SpawnResult};
use super::{Process, Registry, SpawnError};
use ostler_keeper::SpawnError as Refused;
use tokio::sync::watch;

/// How long a spawn whose keeper went waits for the next: that one is there within a second or two, or hangs.
const KEEPER_BACK: Duration = Duration::from_secs(15);
/// Keepers that one spawn may lose: more than that in a row is not bad luck.
const KEEPERS_MAX: usize = 8;

impl Registry {
    /// Waits for the next keeper; `false` when none comes, or the engine stops.
    async fn next_keeper(&self, keepers: &mut watch::Receiver<u32>) -> bool {
        tokio::select! {
            next = tokio::time::timeout(KEEPER_BACK, keepers.changed()) => matches!(next, Ok(Ok(()))),
            () = self.gate.closed() => false,
        }
    }
}

impl Asked {
    /// The answer of the keeper that was asked, or of whichever comes after it.
    pub(super) async fn answer_of_some_keeper(&mut self) -> SpawnResult {
        for _ in 0..KEEPERS_MAX {
            let answer = self.answer().await;
            let Err(Refused::KeeperGone { begun }) = answer else { return answer };
            let back = self.registry.next_keeper(&mut self.keepers).await;
            // Begun, and held by the keeper that we came back to; or begun, and to be looked for.
            if !back || begun || self.registry.get(&self.about.id).is_some() {
                return answer;
            }
            if let Err(error) = self.ask() {
                return Err(Refused::Refused(error.to_string()));
            }
        }
        Err(Refused::KeeperGone { begun: false })
    }

    /// Looks for what a keeper that is gone may have started. Touches the disk.
    pub(super) fn search(mut self) -> Result<Process, SpawnError> {
        let (id, program) = (self.about.id.clone(), self.about.program.clone());
        let registry = Arc::clone(&self.registry);
        self.about.unsure = true;
        if let Err(error) = registry.roll.describe(&id, &self.about.for_roll()) {
            tracing::error!("{id}: description not written: {error}");
        }
        // One that stops leaves it to the next daemon, which asks its keeper or looks for it.
        if registry.gate.is_closed() {
            return Err(SpawnError::Unsure { id, program });
        }
        let found = ostler_keeper::find(&[self.about.orphan()]).remove(&id);
        if let Some((pid, start_ticks)) = found {
            self.about.runs_as(pid, start_ticks);
            let (about, journal) = registry.in_public(self.about, Some(self.journal)).map_err(SpawnError::Journal)?;
            let process = registry.take_up_cut_off(about, journal).map_err(SpawnError::Journal)?;
            registry.started(&process);
            return Ok(process);
        }
        // The name stays with whoever has it: nobody knows whether this one ever ran.
        self.about.alias = self.about.alias.filter(|alias| !registry.is_used(alias));
        registry.enter_ended(self.about, self.journal).map_err(SpawnError::Journal)?;
        Err(SpawnError::Unsure { id, program })
    }
}
