//! `ostler finish`: the end of a session that has a work tree of its own. Shows what it changed, then merges, proposes or
//! discards it. The daemon says what the next step is; here it is watched, and asked for again.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler_api::{
    FilePath, FinishHow, FinishStanding, ProcessInfo, SessionChangesParams, SessionFinishParams, SessionFinished,
    SessionFinishing, SessionIdParams, SessionInfo, methods,
};

use super::Context;
use super::stream::{Outcome, watch_whole};
use super::wait::exit_words;
use crate::config::show_duration;
use crate::output::{Called, CommandError, Kind, Paint, visible};

/// The agent's process is given time to end, and git to remove a large tree.
const DONE_WITHIN: Duration = Duration::from_secs(180);
/// Commit, merge, remove, and some more; a hook that makes new changes each time has no end.
const STEPS_MAX: usize = 8;
/// Files that are listed; `ostler diff` shows them all.
const FILES_MAX: usize = 20;

/// Merge, propose or discard what a session did in its worktree
#[derive(Debug, Args)]
#[command(after_help = "\
For sessions that were started with --worktree. Without a flag it shows what was changed and
asks. Afterwards the session is closed, and its worktree and branch are gone; files that git
ignores go with them.

  --merge    merge its branch into the branch of the repository's own folder. A conflict
             takes the merge back: nothing changes, and the worktree stays.
  --pr       push its branch and open a pull request with your own `gh` (or `glab`)
  --discard  throw it away. For a day its commits stay under a reference and its uncommitted
             files in ostler's folder; --undo puts the worktree back with all of it.

Hooks run as usual; what they say is shown. If it is interrupted, call it again.

Examples:
  ostler finish fix
  ostler finish fix --merge -m 'Fix the parser'       commit what is uncommitted, then merge
  ostler finish fix --pr --into develop
  ostler finish fix --discard
  ostler finish fix --undo")]
pub(crate) struct Finish {
    /// Id or name
    id: String,

    /// Merge its branch
    #[arg(long, conflicts_with_all = ["pr", "discard", "undo"])]
    merge: bool,

    /// Open a pull request
    #[arg(long, conflicts_with_all = ["discard", "undo"])]
    pr: bool,

    /// Throw it away
    #[arg(long, conflicts_with = "undo")]
    discard: bool,

    /// Put back what was discarded
    #[arg(long, conflicts_with_all = ["into", "message"])]
    undo: bool,

    /// The branch to merge into [default: that of the repository's own folder]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,

    /// Commit what is uncommitted first, with this message
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

impl Finish {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.undo {
            return self.undo(context);
        }
        let (_, info) = context.find_session(&self.id)?;
        let into = self.into.as_ref().map(|name| FilePath(name.into()));
        let mut params = SessionFinishParams { id: info.id.clone(), how: None, into, message: self.message.clone() };
        let how = match (self.merge, self.pr, self.discard) {
            (true, ..) => Some(FinishHow::Merge),
            (_, true, _) => Some(FinishHow::PullRequest),
            (_, _, true) => Some(FinishHow::Discard),
            _ => None,
        };
        params.how = match how {
            Some(how) => Some(how),
            None => match self.choose(context, &info, &mut params)? {
                Some(how) => Some(how),
                None => return Ok(ExitCode::SUCCESS),
            },
        };
        let done = carry_out(context, &info, &params)?;
        told(context, &info, &params, &done)
    }

    fn undo(&self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.find_session(&self.id)?;
        reached.client.answer_within(Some(DONE_WITHIN))?;
        let back = reached.client.call::<methods::SessionUnfinish>(&SessionIdParams { id: info.id.clone() })?;
        if context.json() {
            context.screen.value(&back)?;
            return Ok(ExitCode::SUCCESS);
        }
        let branch = back.branch.as_deref().map_or(String::new(), |branch| format!(" (branch {})", visible(branch)));
        context.screen.line(&format!(
            "the worktree of {} is back: {}{branch}",
            info.called(),
            visible(&back.worktree)
        ))?;
        context
            .screen
            .line(&format!("continue there: ostler resume {0}; finish it: ostler finish {0}", info.called()))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Shows what there is, and asks what to do with it.
    fn choose(
        &self,
        context: &Context,
        info: &SessionInfo,
        params: &mut SessionFinishParams,
    ) -> Result<Option<FinishHow>, CommandError> {
        let name = info.called();
        let (mut reached, _) = context.find_session(&info.id)?;
        reached.client.answer_within(Some(DONE_WITHIN))?;
        let SessionFinishing { standing, done, .. } = reached.client.call::<methods::SessionFinish>(params)?;
        let Some(standing) = standing else {
            let back =
                done.and_then(|done| done.reference).map(|_| format!("to put it back: ostler finish {name} --undo"));
            return Err(CommandError::new(Kind::Refused, format!("{name} is finished already; its worktree is gone"))
                .hint(back.unwrap_or_else(|| format!("what was said: ostler export {name}"))));
        };
        if context.json() {
            context.screen.value(&standing)?;
            return Ok(None);
        }
        let changes = SessionChangesParams { id: info.id.clone(), turn: None, git: true };
        let changes = reached.client.call::<methods::SessionChanges>(&changes)?;
        let files = changes.diff.map(|diff| diff.files).unwrap_or_default();
        for file in files.iter().take(FILES_MAX) {
            let count = |sign: char, lines: Option<u64>| lines.map_or(String::new(), |lines| format!(" {sign}{lines}"));
            let counts = count('+', file.added) + &count('-', file.removed);
            context.screen.line(&format!("  {} {}{counts}", file.status, visible(&file.path.to_string())))?;
        }
        if let Some(more) = files.len().checked_sub(FILES_MAX).filter(|more| *more > 0) {
            context.screen.line(&format!("  and {more} more; all of it: ostler diff {name}"))?;
        }
        let into = standing.into.as_ref().map(|into| visible(&into.to_string()));
        context.screen.line(&context.screen.paint(Paint::Head, &summary(&standing, into.as_deref())))?;
        if !io::stdin().is_terminal() {
            return Err(CommandError::usage("say what to do with it").hint("use --merge, --pr or --discard"));
        }
        let merge = into.map_or("[m]erge".to_owned(), |into| format!("[m]erge into {into}"));
        let how = match ask(&format!("{merge}, open a [p]ull request, [d]iscard, or leave it as it is [m/p/d/N]? "))?
            .as_str()
        {
            "m" | "merge" => FinishHow::Merge,
            "p" | "pr" => FinishHow::PullRequest,
            "d" | "discard" => FinishHow::Discard,
            _ => {
                context.screen.note("ostler: left as it is");
                return Ok(None);
            }
        };
        if how != FinishHow::Discard && standing.uncommitted > 0 && params.message.is_none() {
            let message = ask(&format!("message for a commit of {}: ", files_in_words(standing.uncommitted)))?;
            if message.is_empty() {
                context.screen.note("ostler: left as it is");
                return Ok(None);
            }
            params.message = Some(message);
        }
        Ok(Some(how))
    }
}

fn summary(standing: &FinishStanding, into: Option<&str>) -> String {
    let branch = standing.branch.as_ref().map_or("no branch".to_owned(), |branch| visible(&branch.to_string()));
    let commits = if standing.ahead == 1 { "1 commit".to_owned() } else { format!("{} commits", standing.ahead) };
    let beyond = into.map_or(String::new(), |into| format!(" that {into} does not have"));
    format!("{branch}: {commits}{beyond}, {} not committed", files_in_words(standing.uncommitted))
}

fn files_in_words(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn ask(question: &str) -> Result<String, CommandError> {
    let mut out = io::stderr().lock();
    out.write_all(question.as_bytes())?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

/// Step by step, until there is no next one.
fn carry_out(
    context: &Context,
    info: &SessionInfo,
    params: &SessionFinishParams,
) -> Result<SessionFinished, CommandError> {
    for _ in 0..STEPS_MAX {
        // Asked for anew: a daemon may have come and gone while a hook ran.
        let (mut reached, _) = context.find_session(&info.id)?;
        reached.client.answer_within(Some(DONE_WITHIN))?;
        let SessionFinishing { process, done, .. } = reached.client.call::<methods::SessionFinish>(params)?;
        if let Some(done) = done {
            return Ok(done);
        }
        let Some(process) = process else { break };
        watch(context, info, &process)?;
    }
    Err(CommandError::failed(format!("{} is not finished: there is always something left to do", info.called()))
        .hint(format!("see what: ostler diff {}", info.called())))
}

/// Shows what the process says; only one that ends well is followed by another step.
fn watch(context: &Context, info: &SessionInfo, process: &ProcessInfo) -> Result<(), CommandError> {
    let name = info.called();
    let Outcome::Exited(exit) = watch_whole(context, &info.id, process)? else {
        let message = format!("left while {} was at work on it; it goes on", process.id);
        return Err(CommandError::failed(message).hint(format!("then again: ostler finish {name}")));
    };
    if exit.shell_code() == Some(0) {
        return Ok(());
    }
    let message =
        format!("{name} is not finished: its {} {}; nothing was removed", process.called(), exit_words(&exit));
    Err(CommandError::new(Kind::Failed, message)
        .hint(format!("what it said: ostler logs {}; then again: ostler finish {name}", process.id)))
}

fn told(
    context: &Context,
    info: &SessionInfo,
    params: &SessionFinishParams,
    done: &SessionFinished,
) -> Result<ExitCode, CommandError> {
    if context.json() {
        context.screen.value(done)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = info.called();
    let branch = done.branch.as_deref().map_or(String::new(), |branch| format!(" and branch {}", visible(branch)));
    let how = match params.how {
        Some(FinishHow::Merge) => "merged",
        Some(FinishHow::PullRequest) => "proposed",
        _ => "discarded",
    };
    context.screen.line(&format!("{name} is {how} and closed; its worktree{branch} are gone"))?;
    if let Some(reference) = &done.reference {
        let until = done.until.map_or(String::new(), |until| format!(" for {}", show_duration(until.left())));
        let commits = format!("its commits are kept in {}", visible(reference));
        match (done.commits_kept, done.uncommitted_kept) {
            (true, true) => context.screen.line(&format!("{commits}, its uncommitted files too{until}"))?,
            (true, false) => context.screen.line(&format!("{commits}{until}"))?,
            (false, true) => context.screen.line(&format!("its uncommitted files are kept{until}"))?,
            (false, false) => {}
        }
        context.screen.line(&format!("to put it back: ostler finish {} --undo", info.id))?;
    }
    Ok(ExitCode::SUCCESS)
}
