//! `ostler restart`: a new daemon takes the old one's place; every child goes on.

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::{Empty, methods};

use super::Context;
use super::start::{self, Start};
use crate::config::Config;
use crate::output::{CommandError, Kind};
use crate::paths::DEFAULT_INSTANCE;

/// A keeper changes over in milliseconds, once it has nothing else to do.
const CHANGED_WITHIN: Duration = Duration::from_secs(5);

/// Replace the daemon by a fresh one; what it hosts goes on untouched
#[derive(Debug, Args)]
#[command(after_help = "\
After an upgrade of the program (its keeper changes over too), or a change of its settings. Clients are cut off for a moment and come back to the \
same ids, pids and sequence numbers.

Example:
  ostler restart")]
pub(crate) struct Restart {
    /// As for `up`; a daemon that was started so stays so
    #[arg(long)]
    drop_in: bool,
}

impl Restart {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        refuse_unknown(context)?;
        let config = Config::load(context.paths.config_file())?;
        let old = context.living()?.into_iter().find(|found| found.name == context.instance_name());
        let old = old.and_then(|found| found.record);
        if let Some(record) = old.as_ref().filter(|record| record.door != "up") {
            return Err(CommandError::new(
                Kind::Refused,
                format!("instance {} was started as `{}` and is restarted by its own client", record.name, record.door),
            ));
        }
        let had_places = old.as_ref().is_some_and(|record| start::is_drop_in(record.pid));
        let outdated = keeper(context).filter(|pid| !is_this_program(*pid));
        let start = Start { drop_in: self.drop_in || had_places || config.doors.drop_in, take_over: true };
        let record = start::launch(context, &start)?;
        let headline = match old {
            Some(old) => format!("ostler is up again (pid {}, in place of {})", record.pid, old.pid),
            None => format!("ostler was not running; it is up now (pid {})", record.pid),
        };
        let code = super::up::report(context, &record, &headline, false)?;
        if let Some(pid) = outdated {
            context.screen.note(&changed_over(pid));
        }
        Ok(code)
    }
}

/// A name that nobody has is a slip, and no wish for a new instance.
fn refuse_unknown(context: &Context) -> Result<(), CommandError> {
    let name = context.instance_name();
    let known = crate::instances::find(&context.paths, None)?;
    if name == DEFAULT_INSTANCE || known.iter().any(|found| found.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = known.iter().map(|found| found.name.as_str()).collect();
    let these = if names.is_empty() { String::new() } else { format!("; there is: {}", names.join(", ")) };
    Err(CommandError::new(Kind::NoInstance, format!("there is no instance `{name}`{these}"))
        .hint(format!("a new one is made with: ostler up --instance {name}")))
}

/// The keeper of the daemon that is to be replaced.
fn keeper(context: &Context) -> Option<u32> {
    let found = context.living().ok()?.into_iter().find(|found| found.name == context.instance_name())?;
    context.reach(found).ok()?.client.call::<methods::InstanceStatus>(&Empty {}).ok()?.keeper_pid
}

fn is_this_program(pid: u32) -> bool {
    let file = |link: &str| std::fs::metadata(link).map(|file| (file.dev(), file.ino())).ok();
    file(&format!("/proc/{pid}/exe")) == file("/proc/self/exe")
}

/// Waits until a keeper of another program has become this one, and says whether it has.
fn changed_over(pid: u32) -> String {
    let deadline = Instant::now() + CHANGED_WITHIN;
    while !is_this_program(pid) {
        if Instant::now() > deadline {
            return format!("its keeper (pid {pid}) is still the program it was; `ostler logs --daemon` says why");
        }
        std::thread::sleep(start::POLL);
    }
    format!("its keeper (pid {pid}) changed over to this program too, in place")
}
