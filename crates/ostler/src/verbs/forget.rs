//! `ostler forget`: deletes the journal of an exited process or a closed session now.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use ostler_api::{IdKeyParams, SessionIdKeyParams, SessionStatus, methods};

use super::Context;
use crate::config::show_size;
use crate::output::{CommandError, Kind, visible};

/// Delete an exited process or a closed session and everything that was said, now
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ostler forget p3fk\n  ostler close fix && ostler forget fix")]
pub(crate) struct Forget {
    /// Ids, unique prefixes or names
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Forget {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut forgotten = Vec::new();
        for id in &self.ids {
            forgotten.push(match process(context, id) {
                // Processes and sessions share the person's names; what is no process may be a session.
                Err(error) if error.kind == Kind::NotFound => session(context, id)?,
                other => other?,
            });
        }
        if context.json() {
            context.screen.value(&serde_json::json!({ "forgotten": forgotten }))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn process(context: &Context, id: &str) -> Result<String, CommandError> {
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
    Ok(process.id)
}

fn session(context: &Context, id: &str) -> Result<String, CommandError> {
    let (mut reached, info) = context.find_session(id).map_err(|error| match error.kind {
        Kind::NotFound => CommandError::new(Kind::NotFound, format!("there is no process and no session `{id}`"))
            .hint("`ostler ps -a` and `ostler sessions --all` list all of them"),
        _ => error,
    })?;
    if info.status != SessionStatus::Closed {
        return Err(CommandError::new(Kind::Refused, format!("{} is not closed", info.id))
            .hint(format!("close it first: ostler close {}", info.id)));
    }
    reached.client.call::<methods::SessionForget>(&SessionIdKeyParams { id: info.id.clone(), key: None })?;
    if !context.json() {
        context.screen.line(&format!("{} forgotten ({} records)", info.id, info.last))?;
        // Nobody else will ever speak of it again.
        if let Some(tree) = info.worktree.as_deref().filter(|tree| Path::new(tree).exists()) {
            let shown = visible(tree);
            context.screen.line(&format!("  its work tree is still there: {shown}"))?;
            let remove = format!("git worktree remove --force {shown}");
            context.screen.line(&format!("  when you are done with it, in the repository: {remove}"))?;
        }
    }
    Ok(info.id)
}
