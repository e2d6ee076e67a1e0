//! `ostler approvals --unlock`: a person shows to be one, by the password that sudo asks for. Nothing of ours runs as root: sudo
//! starts the shell of the system, which makes a file that only root can make and takes it away again.

use std::process::{Command, ExitCode};
use std::time::Duration;

use ostler_api::{Empty, methods};

use crate::output::{CommandError, Kind};
use crate::verbs::Context;
use crate::verbs::connect::Reached;

/// How often to look whether the file was seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What root does. The file is there for long enough to be seen.
const SCRIPT: &str = "umask 077; : > \"$0\" && sleep 2; rm -f -- \"$0\"";

pub(super) fn run(context: &Context) -> Result<ExitCode, CommandError> {
    let mut locked = false;
    for mut reached in context.reach_all()? {
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
        prove(&mut reached, &file)?;
        context.screen.line(&format!("{name}: unlocked"))?;
    }
    if !locked {
        context.screen.note("nothing is locked");
    }
    Ok(ExitCode::SUCCESS)
}

/// sudo asks on this terminal; meanwhile the daemon looks.
fn prove(reached: &mut Reached, file: &str) -> Result<(), CommandError> {
    let mut sudo = Command::new(ostler_engine::access::SUDO)
        .args(["-k", "--", "/bin/sh", "-c", SCRIPT, file])
        .spawn()
        .map_err(|error| CommandError::failed(format!("{}: {error}", ostler_engine::access::SUDO)))?;
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
