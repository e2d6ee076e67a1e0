//! `ostler interrupt`: stops what an agent is doing.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{InterruptParams, methods};

use super::Context;
use crate::output::{Called, CommandError};

/// Interrupt what an agent is doing
#[derive(Debug, Args)]
#[command(after_help = "\
The agent is asked to stop, and ended if it does not. The session stays; continue with the next prompt.

Examples:
  ostler interrupt fix
  ostler interrupt fix --clear-queue     also drop queued prompts
  ostler interrupt fix --stop            end its process at once")]
pub(crate) struct Interrupt {
    /// Id or name
    id: String,

    /// Also drop the queued prompts
    #[arg(long)]
    clear_queue: bool,

    /// End the agent's process at once
    #[arg(long)]
    stop: bool,
}

impl Interrupt {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.find_session(&self.id)?;
        let (id, clear_queue, end_process) = (info.id.clone(), self.clear_queue, self.stop);
        let params = InterruptParams { id, clear_queue, end_process, key: None };
        let done = reached.client.call::<methods::SessionInterrupt>(&params)?;
        if context.json() {
            let (interrupted, dropped) = (done.interrupted, done.dropped);
            context
                .screen
                .value(&serde_json::json!({"session": info.id, "interrupted": interrupted, "dropped": dropped}))?;
        } else if done.interrupted {
            let dropped = match done.dropped {
                0 => String::new(),
                1 => ", 1 queued prompt dropped".to_owned(),
                many => format!(", {many} queued prompts dropped"),
            };
            let name = info.called();
            context.screen.line(&format!("{name} interrupted{dropped}; continue with: ostler send {name} '...'"))?;
        } else {
            context.screen.line(&format!("{} was not running", info.called()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
