//! What Now does on the terminal that it draws on, with its own screen put away: attaching, in a program of its own, which
//! knows best how to leave a terminal behind.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::inbox::Which;
use crate::output::CommandError;
use crate::verbs::Context;
use crate::verbs::approvals::Tty;

/// How soon the end of the other program is seen.
const LOOK: Duration = Duration::from_millis(20);

/// Attaches until the person leaves or it ends.
pub(super) fn attach(tty: &Tty, which: &Which) -> Result<(), CommandError> {
    let place = || tty.file().try_clone().map(Stdio::from);
    // Through /proc, so that it is the same program also when the file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ostler").args(["attach", &which.id, "--instance", &which.instance]);
    command.stdin(place()?).stdout(place()?).stderr(place()?);
    tty.lend(|| wait(command.spawn()?))
}

fn wait(mut child: Child) -> Result<(), CommandError> {
    loop {
        if child.try_wait()?.is_some() {
            Tty::forget_interrupt();
            return Ok(());
        }
        Tty::forget_interrupt();
        if Tty::ended().is_some() {
            // We are to end, and so is what stands in our place.
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
            child.wait()?;
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Starts the daemon; gives back what there is to tell.
pub(super) fn up(context: &Context) -> String {
    aside(&["up", "--instance", context.instance_name()]).err().unwrap_or_else(|| "ostler is up".to_owned())
}

/// Runs the command of something that has ended once more, or goes on with a session.
pub(super) fn again(which: &Which) -> Result<(), String> {
    aside(&["start", &which.id, "--instance", &which.instance])
}

/// A verb without a terminal; what went wrong, in one line.
fn aside(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ostler").args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let done = command.output().map_err(|error| format!("ostler {}: {error}", args.join(" ")))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let why = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed").to_owned();
    if done.status.success() { Ok(()) } else { Err(why) }
}
