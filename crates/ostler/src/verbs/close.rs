//! `ostler close`: ends a session; what was said in it is kept.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler_api::{SessionIdKeyParams, WorktreeFate, methods};
use ostler_story::words;

use super::Context;
use crate::output::{Called, CommandError, visible};

/// The agent's process is given time to end, and git to look at the work tree.
const CLOSED_WITHIN: Duration = Duration::from_secs(120);

/// Close a session and end its agent
#[derive(Debug, Args)]
#[command(after_help = "\
The conversation is kept: `ostler watch` and `ostler export` still show it; `ostler forget ID` deletes it. A worktree that was \
made for the session is removed if everything in it is committed, and left alone otherwise.

Example:
  ostler close fix")]
pub(crate) struct Close {
    /// Ids or names
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl Close {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut all = Vec::new();
        for id in &self.ids {
            let (mut reached, info) = context.find_session(id)?;
            reached.client.answer_within(Some(CLOSED_WITHIN))?;
            let params = SessionIdKeyParams { id: info.id.clone(), key: None };
            let closed = reached.client.call::<methods::SessionClose>(&params)?;
            if !context.json() {
                let name = info.called();
                context.screen.line(&format!("{name} closed; to read it: ostler export {name}"))?;
                for line in closed.worktree.iter().flat_map(fate) {
                    context.screen.line(&format!("  {}", visible(&line)))?;
                }
            }
            all.push(closed);
        }
        if context.json() {
            context.screen.value(&all)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What became of the work tree, and what to do about one that is still there.
fn fate(fate: &WorktreeFate) -> Vec<String> {
    let WorktreeFate { path, branch, .. } = fate;
    match (&fate.kept_because, fate.branch_removed) {
        (None, true) => vec![format!("its worktree had no changes; removed, with branch {branch}")],
        (None, false) => {
            vec![format!("its worktree was removed; branch {branch} stays, with its commits")]
        }
        (Some(why), _) => vec![
            format!("its worktree stays: {why}"),
            format!("{path} (branch {branch})"),
            format!("to remove it later, in the repository: git worktree remove --force {}", words::quoted(path)),
        ],
    }
}
