//! `ostler resume`: a session of a conversation that was begun elsewhere.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_api::{HistoryEntry, HistoryEvidence, HistoryIdParams, HistoryRunning, PromptBlock, SessionStatus, methods};
use ostler_story::words;

use super::Context;
use super::history::call;
use super::new::New;
use super::session::{Free, Order, deliver};
use crate::output::{Called, CommandError, Kind, visible};

/// Continue a conversation that began in a terminal
#[derive(Debug, Args)]
#[command(after_help = "\
Makes a session of a conversation of claude, codex, gemini or opencode, in the folder where it began; the agent continues it \
with the next prompt. An open session stays what it is. Where the conversation is still open in a terminal this is refused: two \
programs would write to one transcript.

Examples:
  ostler history
  ostler resume 72a0dd
  ostler resume 72a0dd --name fix -m 'and now the tests'")]
pub(crate) struct Resume {
    /// Id of a conversation, as `ostler history` lists it
    id: String,

    /// Give the session a name
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,

    /// What the agent may do without asking: ask, edits, plan or all
    #[arg(short = 'p', long = "permissions", value_name = "WHAT")]
    #[arg(value_enum, default_value = "ask", hide_default_value = true, hide_possible_values = true)]
    autonomy: Free,

    /// Send this prompt and follow the answer
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Even if it is still open in a terminal
    #[arg(short, long)]
    force: bool,
}

impl Resume {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.message.as_ref().is_some_and(|text| text.trim().is_empty()) {
            return Err(CommandError::usage("the prompt is empty").hint("leave out -m, or write a prompt"));
        }
        let mut reached = context.reach_one()?;
        let entry = call::<methods::HistoryGet>(&mut reached, &HistoryIdParams { id: self.id.clone() })?;
        if let (Some(session), Some(status)) = (&entry.session, entry.status)
            && status != SessionStatus::Closed
        {
            return self.go_on(context, session);
        }
        self.is_free(context, &entry)?;
        let conversation = entry.conversation.clone().ok_or_else(|| {
            CommandError::new(
                Kind::Refused,
                format!("{} keeps no conversation that it could resume", visible(&entry.agent)),
            )
            .hint("start another: ostler new")
        })?;
        let workspace = entry.workspace.as_deref().map(PathBuf::from).ok_or_else(|| {
            CommandError::new(Kind::Refused, "its transcript does not say where it worked")
                .hint(format!("in its folder: ostler new {} --resume {conversation}", entry.agent))
        })?;
        if !workspace.is_dir() {
            return Err(gone(context, &entry, &workspace));
        }
        New::resuming(entry.agent, workspace, conversation, self.name, self.autonomy, self.message).run(context)
    }

    /// It is a session already.
    fn go_on(self, context: &Context, session: &str) -> Result<ExitCode, CommandError> {
        let (reached, info) = context.find_session(session)?;
        if let Some(text) = self.message {
            let blocks = vec![PromptBlock::Text { text }];
            return deliver(context, reached, Order { session: info, blocks, key: None, wait: true });
        }
        if context.json() {
            context.screen.value(&info)?;
        } else {
            let name = info.called();
            context
                .screen
                .line(&format!("{}  is this conversation already; continue with: ostler send {name} '...'", info.id))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Nobody else is at it, as far as can be told.
    fn is_free(&self, context: &Context, entry: &HistoryEntry) -> Result<(), CommandError> {
        let Some(HistoryRunning { pid, evidence }) = &entry.running else { return Ok(()) };
        let who = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let agent = visible(&entry.agent);
        if *evidence == HistoryEvidence::Recent {
            // Its own session was the last to write.
            if entry.session.is_some() {
                return Ok(());
            }
            context.screen.note(&format!("ostler: {agent} may still be open elsewhere{who}: its transcript was just written; close it there before you send a prompt"));
            return Ok(());
        }
        if self.force {
            context.screen.note(&format!("ostler: {agent} still has it open{who}"));
            return Ok(());
        }
        Err(CommandError::new(Kind::Refused, format!("the conversation is still open in {agent}{who}"))
            .hint("close it there, or resume it all the same with --force"))
    }
}

/// Its folder is not there any more. Of a worktree that was finished it is known what to put in its place.
fn gone(context: &Context, entry: &HistoryEntry, workspace: &Path) -> CommandError {
    let session = entry.session.as_ref().and_then(|id| context.find_session(id).ok());
    let made_for = session.and_then(|(_, info)| Some((info.worktree?, info.repository?)));
    let hint = match made_for {
        Some((worktree, repository)) => format!(
            "it was a worktree; make it again: git -C {} worktree add --detach {}",
            words::quoted(&repository),
            words::quoted(&worktree)
        ),
        None => "make it again, or restore it".to_owned(),
    };
    let message = format!("its folder {} is gone", visible(&workspace.to_string_lossy()));
    CommandError::new(Kind::NotFound, message).hint(visible(&hint))
}
