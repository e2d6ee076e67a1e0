//! `ostler diff`: what a session's agent changed. Git's difference where there is a repository; what the agent's tools did where
//! there is none, and for one turn. With `--comment`, what a person has to say about it goes back to the agent.

mod comment;
mod comment_text;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use ostler_api::{ChangedFile, GitDiff, GitFileDiff, SessionChanges, SessionChangesParams, TurnChanges, methods};
use ostler_door_rpc::decode_base64;
use ostler_story::Diff as Edit;

use super::Context;
use crate::output::{Called, CommandError, Paint, difference_paint, visible, visible_lines};

/// Show what a session changed
#[derive(Debug, Args)]
#[command(after_help = "\
In a git repository: everything since the session began, committed or not, whoever
changed it. With --turn, or without git: what the agent's own edits changed.

With --comment your editor (VISUAL or EDITOR) opens on the difference. What you add below
a line is a comment on it; all of them are sent together as the next prompt. Leaving the
editor with an error, or without adding anything, sends nothing.

Examples:
  ostler diff fix
  ostler diff fix --turn 3
  ostler diff fix --comment              review it in your editor
  ostler diff fix | git apply -R         take it all back
  ostler diff fix --json                 every turn, with its files")]
pub(crate) struct Diff {
    /// Id or name
    id: String,

    /// Only this turn (the number of its prompt)
    #[arg(long, value_name = "N")]
    turn: Option<u64>,

    /// Write comments in your editor and send them as the next prompt
    #[arg(long)]
    comment: bool,
}

impl Diff {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let (mut reached, info) = context.find_session(&self.id)?;
        let params = SessionChangesParams { id: info.id.clone(), turn: self.turn, git: true };
        let changes = reached.client.call::<methods::SessionChanges>(&params)?;
        let any = |diff: &GitDiff| !diff.files.is_empty();
        if self.comment && (changes.diff.as_ref().is_some_and(any) || !changes.turns.is_empty()) {
            return comment::comment(context, &info, &changes, self.turn.is_some());
        }
        if context.json() {
            context.screen.value(&changes)?;
            return Ok(ExitCode::SUCCESS);
        }
        let shown = Shown { context, terminal: io::stdout().is_terminal() };
        let any = match (&changes.diff, self.turn) {
            (Some(diff), None) => shown.whole(diff, &changes)?,
            _ => shown.turns(&changes)?,
        };
        if !any {
            let of = self.turn.map_or(String::new(), |turn| format!(" in turn {turn}"));
            let gone = info.worktree.is_some() && !Path::new(&info.workspace).exists();
            let gone =
                if gone { " by edits of its own; its worktree is gone, and with it what git could tell" } else { "" };
            context.screen.note(&format!("ostler: {} changed nothing{of}{gone}", info.called()));
        }
        if changes.cut {
            context.screen.note("ostler: some changes are not shown: too old, or too many");
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct Shown<'a> {
    context: &'a Context,
    terminal: bool,
}

impl Shown<'_> {
    /// Git's own difference, which a program can read; whether there is any.
    fn whole(&self, diff: &GitDiff, changes: &SessionChanges) -> io::Result<bool> {
        if !changes.since_known {
            self.context.screen.note("ostler: uncommitted changes only; commits since it began are not known");
        }
        diff.files.iter().try_for_each(|file| self.file(file))?;
        if diff.cut {
            self.context.screen.note("ostler: more files have changed than are shown");
        }
        Ok(!diff.files.is_empty())
    }

    fn file(&self, file: &GitFileDiff) -> io::Result<()> {
        let data = file.patch_data.as_ref().and_then(|data| decode_base64(data.as_bytes()).ok());
        match file.patch.as_ref().map(|patch| patch.as_bytes().to_vec()).or(data) {
            Some(patch) => self.patch(&patch),
            None => {
                let why = match (file.binary, file.bytes) {
                    (true, _) => "not text".to_owned(),
                    (false, Some(bytes)) => format!("too large to show ({bytes} bytes)"),
                    (false, None) => "too large to show".to_owned(),
                };
                let name = visible(&file.path.to_string());
                self.context.screen.note(&format!("ostler: {name}: {why}"));
                Ok(())
            }
        }
    }

    /// For a program as it is, for a person safe and coloured.
    fn patch(&self, patch: &[u8]) -> io::Result<()> {
        if !self.terminal {
            return io::stdout().lock().write_all(patch);
        }
        let text = String::from_utf8_lossy(patch);
        text.lines().try_for_each(|line| self.line(difference_paint(line), &visible_lines(line)))
    }

    fn line(&self, paint: Paint, text: &str) -> io::Result<()> {
        self.context.screen.line(&self.context.screen.paint(paint, text))
    }

    /// What the agent's tools did, turn by turn; whether they did anything.
    fn turns(&self, changes: &SessionChanges) -> io::Result<bool> {
        for turn in &changes.turns {
            self.turn(turn)?;
        }
        Ok(changes.turns.iter().any(|turn| !turn.files.is_empty() || !turn.commits.is_empty()))
    }

    fn turn(&self, turn: &TurnChanges) -> io::Result<()> {
        for commit in &turn.commits {
            let short: String = commit.commit.chars().take(7).collect();
            let words = format!("{short} {}: {}", visible(&commit.author), visible(&commit.subject));
            self.line(Paint::Head, &format!("# turn {}: commit {words}", turn.turn))?;
        }
        turn.files.iter().try_for_each(|file| self.edited(turn.turn, file))
    }

    fn edited(&self, turn: u64, file: &ChangedFile) -> io::Result<()> {
        let unfinished = if file.unfinished { ", not finished" } else { "" };
        let name = visible(&file.path.to_string());
        self.line(Paint::Head, &format!("# turn {turn}: {name} ({}{unfinished})", visible(&file.tool)))?;
        for edit in &file.edits {
            let at = edit.line.map_or(String::new(), |line| format!(" line {line}"));
            self.line(Paint::Warn, &format!("@@{at} @@"))?;
            let edit = Edit { path: String::new(), old: edit.old.clone(), new: edit.new.clone(), line: edit.line };
            for (mark, line) in edit.lines() {
                let line = format!("{}{line}", mark.sign());
                self.line(difference_paint(&line), &visible_lines(&line))?;
            }
        }
        Ok(())
    }
}
