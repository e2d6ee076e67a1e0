//! `ostler start`: runs the command of a process that has ended once more, or goes on with a session that the machine's restart
//! stopped.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{SessionIdKeyParams, SessionInfo, methods};

use super::Context;
use super::connect::{Named, Reached};
use super::run::Run;
use crate::output::{Called, CommandError, Kind};

/// Run a finished process again, or continue a session after a reboot
#[derive(Debug, Args)]
#[command(after_help = "\
A process: same folder, same name, your current environment. Its earlier output is kept. A session that a reboot stopped \
goes on with the prompts that were queued; if there were none, the agent is told to continue.

Examples:
  ostler start build
  ostler ps -a                      list what has ended")]
pub(crate) struct Start {
    /// Id or name
    id: String,
}

impl Start {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (reached, process) = match context.find_named(&self.id)? {
            Named::Process(reached, process) => (reached, process),
            Named::Session(reached, session) => return go_on(context, reached, &session),
        };
        if process.exit.is_none() {
            let message = format!("`{}` is running (pid {})", self.id, process.pid);
            return Err(CommandError::new(Kind::Refused, message).hint(format!("see it: ostler attach {}", self.id)));
        }
        if let Some(alias) = &process.alias {
            let message = format!("`{}` belongs to another client ({})", self.id, alias.endpoint);
            return Err(CommandError::new(Kind::Refused, message).hint("start it from that client"));
        }
        let there = Context::new(context.paths.clone(), Some(reached.found.name), context.json());
        Run::again(process).run(&there)
    }
}

fn go_on(context: &Context, mut reached: Reached, session: &SessionInfo) -> Result<ExitCode, CommandError> {
    let params = SessionIdKeyParams { id: session.id.clone(), key: None };
    let done = reached.client.call::<methods::SessionContinue>(&params)?;
    if context.json() {
        context.screen.value(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = session.called();
    context.screen.line(&match (done.told, done.held) {
        (Some(told), _) => format!("{name} continues; sent \"{told}\""),
        (None, 1) => format!("{name} continues with 1 queued prompt"),
        (None, many) => format!("{name} continues with {many} queued prompts"),
    })?;
    context.screen.line(&format!("  follow it: ostler watch {name}"))?;
    Ok(ExitCode::SUCCESS)
}
