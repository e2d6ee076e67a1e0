//! What a repository's own `.ostler.toml` says about new worktrees: shown, asked about, and its setup watched. Used by `ostler
//! new` and `ostler set`.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use ostler_api::client::ClientError;
use ostler_api::{ErrorKind, SessionInfo, SessionSetup, SessionSetupParams, SetupFile, methods};

use super::Context;
use super::stream::{Outcome, watch_whole};
use super::wait::exit_words;
use crate::output::{Called, CommandError, Paint, visible, visible_lines};

/// Has a new worktree made ready, as far as somebody said yes. A setup that fails is an error: who works there should know.
pub(super) fn make_ready(context: &Context, info: &SessionInfo, again: bool) -> Result<SessionSetup, CommandError> {
    let name = info.called();
    let call = |trust: Option<String>| -> Result<SessionSetup, CommandError> {
        let (mut reached, _) = context.find_session(&info.id)?;
        let params = SessionSetupParams { id: info.id.clone(), trust, again };
        match reached.client.call::<methods::SessionSetup>(&params) {
            // A daemon of an older version makes nothing ready.
            Err(ClientError::Rpc(error)) if error.kind() == ErrorKind::UnknownMethod => Ok(nothing()),
            told => Ok(told?),
        }
    };
    let mut ready = call(None)?;
    if let Some(file) = ready.file.as_ref().filter(|file| !file.trusted) {
        if !asked(context, file)? {
            let how = format!("to read it and say yes: ostler set {name} --setup");
            context.screen.note(&format!("ostler: .ostler.toml of this repository was not followed; {how}"));
            return Ok(ready);
        }
        ready = call(Some(file.hash.clone()))?;
    }
    for why in &ready.not_copied {
        context.screen.note(&format!("ostler: not copied: {}", visible(why)));
    }
    if ready.process.is_some() {
        watch(context, info, &ready)?;
    }
    Ok(ready)
}

fn nothing() -> SessionSetup {
    SessionSetup { file: None, copied: Vec::new(), not_copied: Vec::new(), port: None, port_last: None, process: None }
}

/// `ostler set --setup`: asks if it must, and begins a setup that failed once more.
pub(super) fn again(context: &Context, id: &str) -> Result<ExitCode, CommandError> {
    let (_, info) = context.find_session(id)?;
    let ready = make_ready(context, &info, true)?;
    if context.json() {
        context.screen.value(&ready)?;
    } else if ready.file.is_none() {
        context.screen.note("ostler: its repository has no .ostler.toml; see docs/workspace.md");
    } else if ready.file.is_some_and(|file| file.trusted) {
        context.screen.line(&format!("the worktree of {} is ready", info.called()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the file to a person and asks; nobody else is asked.
fn asked(context: &Context, file: &SetupFile) -> Result<bool, CommandError> {
    if context.json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    context.screen.note(&context.screen.paint(Paint::Head, ".ostler.toml of this repository says:"));
    context.screen.note(&visible_lines(file.text.trim_end()));
    let mut err = io::stderr();
    write!(err, "do this in its worktrees, until the file changes [y/N]? ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn watch(context: &Context, info: &SessionInfo, ready: &SessionSetup) -> Result<(), CommandError> {
    let Some(process) = &ready.process else { return Ok(()) };
    let name = info.called();
    match watch_whole(context, &info.id, process)? {
        Outcome::Exited(exit) if exit.shell_code() == Some(0) => Ok(()),
        Outcome::Exited(exit) => {
            let message = format!("the setup of {name} {}", exit_words(&exit));
            let hint = format!("what it said: ostler logs {}; again: ostler set {name} --setup", process.id);
            Err(CommandError::failed(message).hint(hint))
        }
        _ => Err(CommandError::failed(format!("left while the setup of {name} was at work; it goes on"))
            .hint(format!("follow it: ostler logs -f {}", process.id))),
    }
}
