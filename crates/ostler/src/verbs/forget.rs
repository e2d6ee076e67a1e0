//! `ostler forget`: deletes an exited process's journal now.

use std::process::ExitCode;

use clap::Args;
use ostler_api::{IdKeyParams, methods};

use super::Context;
use crate::config::show_size;
use crate::output::{CommandError, Kind};

/// Delete an exited process and everything it said, now
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ostler forget p3fk")]
pub(crate) struct Forget {
    /// Ids, unique prefixes or names
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Forget {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut forgotten = Vec::new();
        for id in &self.ids {
            let (mut reached, process) = context.find_process(id)?;
            if process.exit.is_none() {
                return Err(CommandError::new(Kind::Refused, format!("{} is still running", process.id))
                    .hint(format!("end it first: ostler kill {} --wait", process.id)));
            }
            reached.client.call::<methods::ProcessForget>(&IdKeyParams { id: process.id.clone(), key: None })?;
            if !context.json() {
                let size = show_size(process.stdout_bytes + process.stderr_bytes);
                context.screen.line(&format!("{} forgotten ({size} of output)", process.id))?;
            }
            forgotten.push(process.id);
        }
        if context.json() {
            context.screen.value(&serde_json::json!({ "forgotten": forgotten }))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
