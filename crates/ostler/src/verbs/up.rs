//! `ostler up`: starts the daemon, waits until every door answers, and says how to connect.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use ostler_engine::{Claim, Claimed, claim};

use super::Context;
use super::start::{self, Start};
use crate::config::Config;
use crate::daemon;
use crate::instances::InstanceRecord;
use crate::output::{CommandError, Kind, Paint};

/// Start ostler, wait until every door answers, and say how to connect
#[derive(Debug, Args)]
#[command(after_help = "\
Run again, it says that it is running and changes nothing. What runs under it survives `ostler restart`, \
a crash and a kill -9 of the daemon.

Examples:
  ostler up
  ostler up --drop-in               sudo-request, codecast and the like find it by themselves
  ostler service install            start it with the machine
  ostler up --instance lab          a second, separate instance")]
pub(crate) struct Up {
    /// Stay in the foreground and log to stderr
    #[arg(short, long)]
    foreground: bool,

    /// Also take the places where clients of the programs ostler stands in for look by themselves
    #[arg(long)]
    drop_in: bool,

    /// Leave the caller's session; what `up` itself passes on
    #[arg(long, hide = true, requires = "foreground")]
    detached: bool,

    /// Started by the keeper
    #[arg(long, hide = true, requires = "foreground")]
    guarded: bool,

    /// Take the place of a living daemon; what `restart` passes on
    #[arg(long, hide = true, requires = "foreground")]
    take_over: bool,

    /// Started by a service manager; what the unit of `service install` says
    #[arg(long, hide = true, requires = "foreground", conflicts_with = "detached")]
    service: bool,
}

impl Up {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        if self.foreground {
            return self.stay(context);
        }
        // Mistakes in the settings are for the person who typed, not for a log.
        let config = Config::load(context.paths.config_file())?;
        if let Some(code) = already(context, self.drop_in && !config.doors.drop_in)? {
            return Ok(code);
        }
        let start = Start { drop_in: self.drop_in || config.doors.drop_in, take_over: false };
        let record = match start::launch(context, &start) {
            Ok(record) => record,
            Err(error) => return overtaken(context, error),
        };
        let code = report(context, &record, &format!("ostler is up (pid {})", record.pid))?;
        if !context.json() {
            context.screen.line("try: ostler new echo -m hello")?;
        }
        Ok(code)
    }

    fn stay(self, context: &Context) -> Result<ExitCode, CommandError> {
        let config = Config::load(context.paths.config_file())?;
        Ok(daemon::run(daemon::Options {
            paths: context.paths.clone(),
            drop_in: self.drop_in || config.doors.drop_in,
            config,
            instance: context.instance_name().to_owned(),
            detached: self.detached,
            guarded: self.guarded,
            take_over: self.take_over || self.service,
            service: self.service,
        }))
    }
}

/// Says so if the instance has a daemon that answers. One that was to take the usual places and has not is told too: its
/// clients would look for it in vain.
fn already(context: &Context, places: bool) -> Result<Option<ExitCode>, CommandError> {
    let Some(found) = context.living()?.into_iter().find(|found| found.name == context.instance_name()) else {
        return Ok(None);
    };
    let reached = context.reach(found)?;
    let record = reached.found.record.unwrap_or_else(|| record_of(&reached.hello));
    if places && !start::is_drop_in(record.pid) {
        let message = format!("already running (pid {}), without --drop-in", record.pid);
        return Err(CommandError::new(Kind::Refused, message)
            .hint("ostler restart --drop-in takes those places; what runs goes on untouched"));
    }
    let code = report(context, &record, &format!("already running (pid {})", record.pid))?;
    if reached.hello.program != env!("CARGO_PKG_VERSION") {
        let (theirs, ours) = (&reached.hello.program, env!("CARGO_PKG_VERSION"));
        context
            .screen
            .note(&format!("it is ostler {theirs}, this is {ours}; ostler restart changes over and keeps everything"));
    }
    Ok(Some(code))
}

/// A keeper brings back a daemon that died, and may be quicker than a person: then that one is waited for. Nobody else: why
/// ours did not start is the answer.
fn overtaken(context: &Context, error: CommandError) -> Result<ExitCode, CommandError> {
    let dir = context.paths.prepare_instance(context.instance_name())?;
    let deadline = Instant::now() + start::READY_WITHIN;
    while Instant::now() < deadline && matches!(claim(&dir, Claim::IfFree), Ok(Claimed::Held(_))) {
        if let Ok(Some(code)) = already(context, false) {
            return Ok(code);
        }
        std::thread::sleep(start::POLL);
    }
    Err(error)
}

/// A daemon that answers while its record has just been replaced: what it said of itself is enough.
fn record_of(hello: &ostler_api::Hello) -> InstanceRecord {
    InstanceRecord {
        version: crate::instances::RECORD_VERSION,
        name: hello.instance.clone(),
        door: "up".to_owned(),
        pid: hello.pid,
        start_ticks: 0,
        started: hello.started,
        program: hello.program.clone(),
        native: None,
        doors: Vec::new(),
    }
}

/// The line that says how it stands, then one line per door.
pub(super) fn report(context: &Context, record: &InstanceRecord, headline: &str) -> Result<ExitCode, CommandError> {
    if context.json() {
        context.screen.value(record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let other = match record.name.as_str() {
        crate::paths::DEFAULT_INSTANCE => String::new(),
        name => format!(", instance {name}"),
    };
    context.screen.line(&context.screen.paint(Paint::Head, &format!("{headline}{other}")))?;
    let doors = record.doors.iter();
    super::status::doors(
        context,
        doors.map(|door| (door.name.as_str(), door.address.as_str(), door.connect.as_str())),
    )?;
    Ok(ExitCode::SUCCESS)
}
