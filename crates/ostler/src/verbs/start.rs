//! `ostler start`: runs the command of a process that has ended once more, after a reboot for example.

use std::process::ExitCode;

use clap::Args;

use super::Context;
use super::run::Run;
use crate::output::{CommandError, Kind};

/// Run a finished process again
#[derive(Debug, Args)]
#[command(after_help = "\
Same folder, same name, your current environment. Its earlier output is kept.

Examples:
  ostler start build
  ostler ps -a                      list what has ended")]
pub(crate) struct Start {
    /// Id or name
    id: String,
}

impl Start {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (reached, process) = context.find_process(&self.id)?;
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
