//! `ostler service`: the daemon as a service of the user's own manager, so that it is there after a login or a reboot.

mod systemd;
mod unit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::Context;
use crate::output::{CommandError, Kind};
use unit::Unit;

/// Start ostler with the machine (systemd user service)
#[derive(Debug, Args)]
#[command(after_help = "\
A systemd user service; no root needed. Processes keep running when it stops or restarts. After a reboot nothing starts by itself: what was there is listed, and `ostler start` runs it again.
Without systemd: `ostler service install` says what to do instead.

Examples:
  ostler service install
  ostler service status
  systemctl --user restart ostler      processes keep running
  ostler service uninstall")]
pub(crate) struct Service {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Create the service and start it
    #[command(after_help = "Run again after moving the program.\n\nExample:\n  ostler service install")]
    Install {
        /// Same as for `ostler up`
        #[arg(long)]
        drop_in: bool,
    },
    /// Show whether it is installed and running
    #[command(after_help = "Example:\n  ostler service status")]
    Status,
    /// Remove the service; processes keep running
    #[command(after_help = "Example:\n  ostler service uninstall")]
    Uninstall,
}

impl Service {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        match self.act {
            Act::Install { drop_in } => install(context, drop_in),
            Act::Status => status(context),
            Act::Uninstall => uninstall(context),
        }
    }
}

fn install(context: &Context, drop_in: bool) -> Result<ExitCode, CommandError> {
    let program = program()?;
    if !systemd::is_there() {
        return Err(no_manager(&program));
    }
    let instance = context.instance_name();
    let (name, path) = (unit::name(instance), unit::path(instance)?);
    let unit = Unit { instance, program: &program, drop_in, places: unit::places(&context.paths) };
    let text = unit.text()?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    systemd::systemctl(&["daemon-reload"])?;
    systemd::systemctl(&["enable", &name])?;
    // Takes over from a daemon that runs already, with everything that it hosts.
    systemd::systemctl(&["restart", &name])
        .map_err(|error| error.hint(format!("see why: ostler logs --daemon, or systemctl --user status {name}")))?;
    if context.json() {
        context.screen.value(&facts(context)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.screen.line(&format!("installed {}", path.display()))?;
    let pid = systemd::main_pid(&name).map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    context.screen.line(&format!("{name} is running{pid}; processes keep running when it restarts"))?;
    context.screen.line(&linger_told())?;
    Ok(ExitCode::SUCCESS)
}

fn status(context: &Context) -> Result<ExitCode, CommandError> {
    let facts = facts(context)?;
    if context.json() {
        context.screen.value(&facts)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !facts.installed {
        context.screen.line("not installed; install it with: ostler service install")?;
        return Ok(ExitCode::SUCCESS);
    }
    context.screen.line(&format!("installed {}", facts.path.display()))?;
    let Some(state) = &facts.state else {
        context.screen.line("no systemd user manager here; start ostler with: ostler up")?;
        return Ok(ExitCode::SUCCESS);
    };
    let pid = facts.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let at = if facts.enabled { "starts with your login or the machine" } else { "does not start by itself" };
    context.screen.line(&format!("{} is {state}{pid}, and {at}", facts.unit))?;
    if let Some(other) = facts.other_pid {
        context.screen.line(&format!(
            "another ostler is running (pid {other}); to replace it: systemctl --user restart {}",
            facts.unit
        ))?;
    }
    context.screen.line(&linger_told())?;
    Ok(ExitCode::SUCCESS)
}

fn uninstall(context: &Context) -> Result<ExitCode, CommandError> {
    let instance = context.instance_name();
    let (name, path) = (unit::name(instance), unit::path(instance)?);
    if path.symlink_metadata().is_err() {
        return Err(CommandError::new(Kind::NotFound, format!("no service: {} does not exist", path.display())));
    }
    if systemd::is_there() {
        systemd::systemctl(&["disable", "--now", &name])?;
    }
    std::fs::remove_file(&path).map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    if systemd::is_there() {
        systemd::systemctl(&["daemon-reload"])?;
    }
    if context.json() {
        context.screen.value(&serde_json::json!({ "removed": path }))?;
        return Ok(ExitCode::SUCCESS);
    }
    context.screen.line(&format!("removed {}", path.display()))?;
    if let Some(kept) = context.kept(instance) {
        context.screen.line(&format!("{}; {}", kept.message, kept.hint))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How a service stands.
#[derive(Debug, serde::Serialize)]
struct Facts {
    unit: String,
    path: PathBuf,
    installed: bool,
    /// In the manager's own words; none where nobody answers.
    state: Option<String>,
    enabled: bool,
    pid: Option<u32>,
    /// A daemon of this instance that the service did not start.
    other_pid: Option<u32>,
    linger: Option<bool>,
}

fn facts(context: &Context) -> Result<Facts, CommandError> {
    let instance = context.instance_name();
    let (unit, path) = (unit::name(instance), unit::path(instance)?);
    let there = systemd::is_there();
    let pid = systemd::main_pid(&unit).filter(|_| there);
    let living = context.living()?.into_iter().find(|found| found.name == instance);
    let other_pid = living.and_then(|found| Some(found.record?.pid)).filter(|other| Some(*other) != pid);
    Ok(Facts {
        installed: path.exists(),
        state: there.then(|| systemd::property(&unit, "ActiveState")),
        enabled: there && systemd::property(&unit, "UnitFileState") == "enabled",
        pid,
        other_pid,
        linger: systemd::lingers(),
        unit,
        path,
    })
}

/// The unit file of an instance that is started with the machine.
pub(super) fn installed(instance: &str) -> Option<PathBuf> {
    unit::path(instance).ok().filter(|path| path.exists())
}

/// One line for a report about this machine: whether anything starts ostler. `None` where it cannot be told.
pub(in crate::verbs) fn told(instance: &str) -> Option<Result<String, String>> {
    let (name, path) = (unit::name(instance), unit::path(instance).ok()?);
    if !path.exists() {
        return Some(Err("not installed: start ostler yourself after a reboot, or: ostler service install".to_owned()));
    }
    systemd::is_there().then(|| match systemd::property(&name, "UnitFileState").as_str() {
        "enabled" => Ok(format!("{name} is enabled, {}", systemd::property(&name, "ActiveState"))),
        other => Err(format!("{name} is {other}: turn it on with: ostler service install")),
    })
}

/// Has the service, if this very program is one, start or change over. Its process; `None` where there is no such service.
pub(super) fn start(context: &Context, take_over: bool, drop_in: bool) -> Result<Option<u32>, CommandError> {
    let instance = context.instance_name();
    let Ok(text) = unit::path(instance).and_then(|path| Ok(std::fs::read_to_string(path)?)) else { return Ok(None) };
    let program = program()?;
    let unit = |drop_in| Unit { instance, program: &program, drop_in, places: Vec::new() }.exec_start();
    let (plain, with_places) = (unit(false)?, unit(true)?);
    let has = |line: &String| text.lines().any(|found| found == line);
    if !(has(&plain) || has(&with_places)) || !systemd::is_there() {
        return Ok(None);
    }
    // What the settings say, the service does by itself.
    if drop_in && !has(&with_places) && !context.settings().doors.drop_in {
        return Err(CommandError::new(Kind::Refused, "the service was installed without --drop-in")
            .hint("install it again: ostler service install --drop-in"));
    }
    let name = unit::name(instance);
    systemd::systemctl(&[if take_over { "restart" } else { "start" }, &name])?;
    Ok(systemd::main_pid(&name))
}

/// The file that is run now; after an upgrade the new one has its name.
fn program() -> Result<PathBuf, CommandError> {
    let program = std::env::current_exe()?;
    let text = program.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(text.map_or(program.clone(), PathBuf::from))
}

fn linger_told() -> String {
    match systemd::lingers() {
        Some(true) => "it starts with the machine and keeps running after logout (linger is on)".to_owned(),
        Some(false) => {
            "it starts at login and ends at your last logout; to change that: loginctl enable-linger".to_owned()
        }
        None => "loginctl does not answer; it may end at your last logout".to_owned(),
    }
}

fn no_manager(program: &Path) -> CommandError {
    CommandError::failed("no systemd user manager here").hint(format!(
        "came by su? log in, or set XDG_RUNTIME_DIR=/run/user/$(id -u). No systemd here? Start it with the machine by cron \
         (crontab -e): @reboot {program} up\nor at login, in ~/.profile: {program} up >/dev/null",
        program = program.display()
    ))
}
