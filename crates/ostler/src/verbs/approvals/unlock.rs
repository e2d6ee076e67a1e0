//! `ostler approvals --unlock`: a person shows to be one, by the password that sudo asks for. Nothing of ours runs as root: sudo
//! starts the shell of the system, which makes a file that only root can make and takes it away again.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use ostler_api::{Empty, methods};
use ostler_engine::access::{SUDO, is_proof};

use super::Tty;
use crate::output::{CommandError, Kind, visible};
use crate::verbs::Context;
use crate::verbs::connect::Reached;

/// How often to look whether the file was seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What root does. The file is there for long enough to be seen.
const SCRIPT: &str = "umask 077; : > \"$0\" && sleep 2; rm -f -- \"$0\"";

pub(super) fn run(context: &Context) -> Result<ExitCode, CommandError> {
    // Whoever has no terminal hears from the daemon what is missing.
    let tty = Tty::deciding();
    let mut locked = false;
    for mut reached in context.reach_all_deciding()? {
        let found = reached.client.call::<methods::ApprovalUnlock>(&Empty {})?;
        if found.open {
            continue;
        }
        locked = true;
        let name = reached.found.name.clone();
        let Some(file) = found.file else {
            let why = found.why_not.unwrap_or_default();
            return Err(CommandError::new(Kind::Refused, format!("`{name}` cannot be unlocked: {why}"))
                .hint("restart the machine; until then, only rules answer"));
        };
        if !is_proof(Path::new(&file)) {
            return Err(CommandError::failed(format!(
                "`{name}` asks for a file that proves nothing: {}",
                visible(&file)
            )));
        }
        let tty = tty.as_ref().map_err(|error| CommandError::new(Kind::Refused, format!("/dev/tty: {error}")))?;
        tty.alone(&reached.client)?;
        prove(tty, &mut reached, &file)?;
        context.screen.line(&format!("{name}: unlocked"))?;
    }
    if !locked {
        context.screen.note("nothing is locked");
    }
    Ok(ExitCode::SUCCESS)
}

/// sudo asks on this terminal, which nobody else can open, so it is handed over; meanwhile the daemon looks.
fn prove(tty: &Tty, reached: &mut Reached, file: &str) -> Result<(), CommandError> {
    let mut sudo = Command::new(SUDO)
        .args(["-k", "-S", "--", "/bin/sh", "-c", SCRIPT, file])
        .stdin(tty.file().try_clone()?)
        .stderr(tty.file().try_clone()?)
        .spawn()
        .map_err(|error| CommandError::failed(format!("{SUDO}: {error}")))?;
    loop {
        let ended = sudo.try_wait().map_err(|error| CommandError::failed(format!("sudo: {error}")))?;
        let seen = reached.client.call::<methods::ApprovalUnlock>(&Empty {}).is_ok_and(|found| found.open);
        match (seen, ended) {
            (true, _) => {
                // The shell takes its file away.
                let _ = sudo.wait();
                return Ok(());
            }
            (false, Some(_)) => return Err(CommandError::new(Kind::Refused, "not unlocked: sudo was not convinced")),
            (false, None) => std::thread::sleep(LOOK_EVERY),
        }
    }
}
