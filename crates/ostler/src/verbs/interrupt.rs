//! `ostler interrupt`: stops what an agent is doing.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{InterruptParams, methods};

use super::Context;
use crate::output::CommandError;

/// Stop the turn that an agent is in
#[derive(Debug, Args)]
#[command(after_help = "\
The agent is asked to stop; if it does not, its processes are ended. The session stays, and the next prompt goes on.

Examples:
  ostler interrupt fix
  ostler interrupt fix --clear-queue     also drop the prompts that wait
  ostler interrupt fix --stop            do not ask: end its process now")]
pub(crate) struct Interrupt {
    /// Id, unique prefix of it, or name
    id: String,

    /// Also drop the prompts that wait
    #[arg(long)]
    clear_queue: bool,

    /// End the agent's process instead of asking the agent
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
                1 => ", 1 waiting prompt dropped".to_owned(),
                many => format!(", {many} waiting prompts dropped"),
            };
            let id = &info.id;
            context.screen.line(&format!("{id} is being interrupted{dropped}; go on with: ostler send {id} '…'"))?;
        } else {
            context.screen.line(&format!("nothing was running in {}", info.id))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
