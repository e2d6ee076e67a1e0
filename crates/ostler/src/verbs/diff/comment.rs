//! `ostler diff --comment`: the user's own editor on the difference; what is added to it is sent.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ostler_api::{ReviewParams, SessionChanges, SessionInfo, methods};
use signal_hook::consts::{SIGINT, SIGQUIT};

use super::comment_text::{CommentText, Written};
use crate::output::{Called, CommandError};
use crate::paths::ensure_private_dir;
use crate::verbs::Context;

/// Nobody writes more, and the rest of the text is at most 3 MiB.
const SHEET_MAX: u64 = 8 << 20;

/// Has comments written and sends them.
pub(super) fn comment(
    context: &Context,
    info: &SessionInfo,
    changes: &SessionChanges,
    turn: bool,
) -> Result<ExitCode, CommandError> {
    let editor = editor().ok_or_else(|| {
        CommandError::usage("there is no editor: neither VISUAL nor EDITOR is set")
            .hint("for example: export EDITOR=vi")
    })?;
    let mut text = CommentText::new(&info.called());
    match &changes.diff {
        Some(diff) if !turn => text.add_files(diff),
        _ => changes.turns.iter().for_each(|turn| text.add_turn(turn)),
    }
    let file = write(context, info, &text.text())?;
    if !edited(&editor, &file)? {
        fs::remove_file(&file)?;
        return Err(CommandError::failed("the editor ended with an error; nothing was sent"));
    }
    let written = text.written(&read(&file)?);
    if written.comments.is_empty() && written.text.is_none() {
        fs::remove_file(&file)?;
        context.screen.note("ostler: nothing was written, so nothing was sent");
        return Ok(ExitCode::SUCCESS);
    }
    send(context, info, written).map_err(|error| kept(error, &file))?;
    fs::remove_file(&file)?;
    Ok(ExitCode::SUCCESS)
}

fn send(context: &Context, info: &SessionInfo, written: Written) -> Result<(), CommandError> {
    // Asked for anew: a daemon may have come and gone while somebody wrote.
    let (mut reached, info) = context.find_session(&info.id)?;
    let Written { text, comments } = written;
    let count = comments.len() + usize::from(text.is_some());
    let params = ReviewParams { id: info.id.clone(), comments, text, refuse_if_busy: false, key: None };
    let accepted = reached.client.call::<methods::SessionReview>(&params)?;
    if context.json() {
        context.screen.value(&accepted)?;
        return Ok(());
    }
    let name = info.called();
    let comments = if count == 1 { "1 comment".to_owned() } else { format!("{count} comments") };
    let when = if accepted.position > 0 { "queued" } else { "sent" };
    context.screen.line(&format!("{comments} {when} for {name}; follow the answer: ostler watch {name}"))?;
    Ok(())
}

/// What somebody wrote is not thrown away.
fn kept(error: CommandError, file: &Path) -> CommandError {
    let hint = error.hint.clone().map_or(String::new(), |hint| format!("{hint}; "));
    error.hint(format!("{hint}your comments are in {}", file.display()))
}

fn write(context: &Context, info: &SessionInfo, text: &str) -> Result<PathBuf, CommandError> {
    let folder = context.paths.runtime_dir();
    ensure_private_dir(folder)?;
    let file = folder.join(format!("review-{}-{}.diff", info.id, std::process::id()));
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options.open(&file)?.write_all(text.as_bytes())?;
    Ok(file)
}

fn read(file: &Path) -> Result<String, CommandError> {
    let size = fs::metadata(file)?.len();
    if size > SHEET_MAX {
        let message = format!("{} has {size} bytes; {SHEET_MAX} is the limit", file.display());
        return Err(CommandError::failed(message).hint("nothing was sent"));
    }
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// Whether the editor ended well. Ctrl-C is the editor's meanwhile.
fn edited(editor: &OsStr, file: &Path) -> Result<bool, CommandError> {
    let unheard = Arc::new(AtomicBool::new(false));
    let held = [SIGINT, SIGQUIT].map(|signal| signal_hook::flag::register(signal, Arc::clone(&unheard)));
    // As git does it: the variable may hold options, which the shell takes apart; the file is not part of that text.
    let mut line = editor.to_owned();
    line.push(" \"$@\"");
    let ended = Command::new("sh").arg("-c").arg(line).arg(editor).arg(file).status();
    for registered in held.into_iter().flatten() {
        signal_hook::low_level::unregister(registered);
    }
    let ended = ended.map_err(|error| CommandError::failed(format!("cannot start the editor: sh: {error}")))?;
    Ok(ended.success())
}

fn editor() -> Option<OsString> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let usual = || std::io::stdin().is_terminal().then(|| OsStr::new("vi").to_owned());
    set("VISUAL").or_else(|| set("EDITOR")).or_else(usual)
}
