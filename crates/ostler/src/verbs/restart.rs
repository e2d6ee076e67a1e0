//! `ostler restart`: a new daemon takes the old one's place; every child goes on.

use std::process::ExitCode;

use clap::Args;

use super::Context;
use super::start::{self, Start};
use crate::config::Config;
use crate::output::{CommandError, Kind};

/// Replace the daemon by a fresh one; what it hosts goes on untouched
#[derive(Debug, Args)]
#[command(after_help = "\
After an upgrade of the program, or a change of its settings. Clients are cut off for a moment and come back to the
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
        let start = Start { drop_in: self.drop_in || had_places || config.doors.drop_in, take_over: true };
        let record = start::launch(context, &start)?;
        let headline = match old {
            Some(old) => format!("ostler is up again (pid {}, in place of {})", record.pid, old.pid),
            None => format!("ostler was not running; it is up now (pid {})", record.pid),
        };
        super::up::report(context, &record, &headline)
    }
}
