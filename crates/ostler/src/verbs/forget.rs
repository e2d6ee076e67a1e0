//! `ostler forget`: deletes the journal of an exited process or a closed session now.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use ostler_api::{IdKeyParams, ProcessInfo, SessionIdKeyParams, SessionInfo, SessionStatus, methods};
use ostler_story::words;

use super::Context;
use super::connect::Reached;
use super::wait::both;
use crate::config::show_size;
use crate::output::{Called, CommandError, Kind, visible};

/// Delete a finished process or a closed session
#[derive(Debug, Args)]
#[command(after_help = "\
If a process and a session share the name, use the id.

Examples:\n  ostler forget p3fk\n  ostler close fix && ostler forget fix")]
pub(crate) struct Forget {
    /// Ids or names
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Forget {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut forgotten = Vec::new();
        for id in &self.ids {
            forgotten.push(match context.find_both(id)? {
                // What is deleted is gone: nobody guesses which of the two was meant.
                (Some((_, process)), Some((_, session))) => return Err(both(id, &process, &session)),
                (Some((reached, found)), None) => process(context, reached, found)?,
                (None, Some((reached, found))) => session(context, reached, found)?,
                (None, None) => {
                    let message = format!("no process or session `{id}`");
                    return Err(CommandError::new(Kind::NotFound, message)
                        .hint("list them: ostler ps -a; ostler sessions --all"));
                }
            });
        }
        if context.json() {
            context.screen.value(&serde_json::json!({ "forgotten": forgotten }))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn process(context: &Context, mut reached: Reached, process: ProcessInfo) -> Result<String, CommandError> {
    if process.exit.is_none() {
        return Err(CommandError::new(Kind::Refused, format!("{} is still running", process.called()))
            .hint(format!("end it first: ostler kill {} --wait", process.called())));
    }
    reached.client.call::<methods::ProcessForget>(&IdKeyParams { id: process.id.clone(), key: None })?;
    if !context.json() {
        let size = show_size(process.stdout_bytes + process.stderr_bytes);
        context.screen.line(&format!("{} deleted ({size} of output)", process.called()))?;
    }
    Ok(process.id)
}

fn session(context: &Context, mut reached: Reached, info: SessionInfo) -> Result<String, CommandError> {
    if info.status != SessionStatus::Closed {
        return Err(CommandError::new(Kind::Refused, format!("{} is not closed", info.called()))
            .hint(format!("close it first: ostler close {}", info.called())));
    }
    reached.client.call::<methods::SessionForget>(&SessionIdKeyParams { id: info.id.clone(), key: None })?;
    if !context.json() {
        context.screen.line(&format!("{} deleted ({} records)", info.called(), info.last))?;
        // Nobody else will ever speak of it again.
        if let Some(tree) = info.worktree.as_deref().filter(|tree| Path::new(tree).exists()) {
            let shown = visible(tree);
            context.screen.line(&format!("  its worktree is still there: {shown}"))?;
            let remove = format!("git worktree remove --force {}", words::quoted(tree));
            context.screen.line(&format!("  to remove it later, in the repository: {remove}"))?;
        }
    }
    Ok(info.id)
}
