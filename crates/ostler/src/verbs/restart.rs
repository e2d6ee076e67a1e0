//! `ostler restart`: a new daemon takes the old one's place; every child goes on.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::{Empty, KeeperUpgrade, methods};

use super::Context;
use super::background::{self, Start};
use super::connect::Reached;
use crate::config::Config;
use crate::output::{CommandError, Kind};
use crate::paths::DEFAULT_INSTANCE;

/// A keeper changes over in milliseconds, once it has nothing else to do.
const CHANGED_WITHIN: Duration = Duration::from_secs(5);

/// Restart ostler; everything in it keeps running
#[derive(Debug, Args)]
#[command(after_help = "\
Use it after an upgrade or a change of the settings. Clients lose the connection for a moment and find everything as it was.

Example:
  ostler restart")]
pub(crate) struct Restart {
    /// Same as for `ostler up`
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
                format!("`{}` was started as `{}`; its own client restarts it", record.name, record.door),
            ));
        }
        let had_places = old.as_ref().is_some_and(|record| background::is_drop_in(record.pid));
        let start = Start { drop_in: self.drop_in || had_places || config.doors.drop_in, take_over: true };
        let record = background::launch(context, &start)?;
        let headline = match old {
            Some(old) => format!("ostler restarted (pid {}, was {})", record.pid, old.pid),
            None => format!("ostler was not running; started (pid {})", record.pid),
        };
        let code = super::up::report(context, &record, &headline, false)?;
        let now = context.living()?.into_iter().find(|found| found.name == context.instance_name());
        let Some(mut now) = now.and_then(|found| context.reach(found).ok()) else { return Ok(code) };
        if let Some(note) = changed_over(&mut now) {
            context.screen.note(&note);
        }
        if !context.json() {
            super::status::unconfirmed_of(&mut now, |_| true).iter().for_each(|line| context.screen.note(line));
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
    let these = if names.is_empty() { String::new() } else { format!("; running: {}", names.join(", ")) };
    Err(CommandError::new(Kind::NoInstance, format!("no instance `{name}`{these}"))
        .hint(format!("to start a new one: ostler up --instance {name}")))
}

/// Waits until a keeper of another program has become the new daemon's, and says whether it has. Nothing where it was all the
/// time.
fn changed_over(reached: &mut Reached) -> Option<String> {
    let deadline = Instant::now() + CHANGED_WITHIN;
    loop {
        let status = reached.client.call::<methods::InstanceStatus>(&Empty {}).ok()?;
        let pid = status.keeper_pid?;
        match status.keeper_upgrade? {
            KeeperUpgrade::Done => return Some(format!("upgraded in place (pid {pid}); everything keeps running")),
            KeeperUpgrade::Pending if Instant::now() < deadline => std::thread::sleep(background::POLL),
            KeeperUpgrade::Pending | KeeperUpgrade::Failed => {
                return Some(format!("a part of it (pid {pid}) still runs the old version; see: ostler logs --daemon"));
            }
        }
    }
}
