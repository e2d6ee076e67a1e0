//! `ostler down`: ends the daemon; the children go on with the keeper, or end too. Never by accident.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::client::ClientError;
use ostler_api::{Empty, KeyParams, Stopped, methods};

use super::Context;
use super::background::{self, Start};
use super::connect::Reached;
use crate::config::Config;
use crate::instances;
use crate::output::{CommandError, Kind};

/// A daemon that was asked to leave has answered everybody by then.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
/// A daemon looks every two seconds whether its socket is where it was.
const REOPENED_WITHIN: Duration = Duration::from_secs(6);

/// Stop ostler
#[derive(Debug, Args)]
#[command(after_help = "\
With --keep everything keeps running and its output is kept until the next `ostler up`. Without a flag you are asked \
if something is running; without a terminal the command fails.

Examples:
  ostler down --keep
  ostler down --kill")]
pub(crate) struct Down {
    /// Leave everything running
    #[arg(long, conflicts_with = "kill")]
    keep: bool,

    /// End everything that runs
    #[arg(long)]
    kill: bool,
}

impl Down {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let mut reached = match context.reach_one().or_else(|error| reopened(context).ok_or(error)) {
            Err(error) if self.kill && error.kind == Kind::NoInstance => come_back(context, error)?,
            reached => reached.map_err(|error| nothing_to_stop(context, error))?,
        };
        let status = reached.client.call::<methods::InstanceStatus>(&Empty {})?;
        let kill = match (self.kill, self.keep, status.running) {
            (true, ..) => true,
            (_, true, _) | (_, _, 0) => false,
            (_, _, running) => ask(context, running)?,
        };
        let stopped = if kill || status.running == 0 { stop(&mut reached)? } else { leave(&mut reached)? };
        wait_until_gone(&reached, status.pid)?;
        if !stopped.survivors.is_empty() {
            return Err(CommandError::failed(format!("could not end: {}", stopped.survivors.join(", ")))
                .hint("they may need root, or wait for a device; all others have ended"));
        }
        let (pid, ended, kept) = (status.pid, stopped.ended, if kill { 0 } else { status.running });
        if context.json() {
            let unrecorded = stopped.unrecorded;
            let told = serde_json::json!({"pid": pid, "ended": ended, "kept": kept, "unrecorded": unrecorded});
            context.screen.value(&told)?;
            return Ok(ExitCode::SUCCESS);
        }
        let flag = instances::flag(context.instance_name());
        let children = match (kept, ended) {
            (0, 0) => String::new(),
            (0, 1) => "; 1 process ended".to_owned(),
            (0, ended) => format!("; {ended} processes ended"),
            (1, _) => format!("; 1 process keeps running, go back to it with: ostler up{flag}"),
            (kept, _) => format!("; {kept} processes keep running, go back to them with: ostler up{flag}"),
        };
        context.screen.line(&format!("ostler stopped (pid {pid}){children}"))?;
        if stopped.unrecorded > 0 {
            let of = match stopped.unrecorded {
                1 => "the exit code of 1 process is".to_owned(),
                many => format!("the exit codes of {many} processes are"),
            };
            context.screen.note(&format!("the disk failed: {of} not recorded"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Who stops it does not want to be told how to start it.
fn nothing_to_stop(context: &Context, error: CommandError) -> CommandError {
    if error.kind != Kind::NoInstance || error.hint.is_some() {
        return error;
    }
    let name = instances::called(context.instance_name());
    CommandError::new(Kind::NoInstance, format!("{name} is not running; there is nothing to stop"))
}

/// A daemon for what lives without one, with its keeper or alone: only a daemon ends it with everything that it still says
/// on record.
fn come_back(context: &Context, nobody: CommandError) -> Result<Reached, CommandError> {
    let dir = context.paths.instance_dir(context.instance_name());
    if !instances::keeper_holds(&dir) && instances::kept(&dir) == 0 {
        return Err(nobody);
    }
    Config::load(context.paths.config_file())?;
    context.screen.note("starting ostler to end what still runs");
    background::launch(context, &Start { drop_in: false, take_over: false })?;
    context.reach_one()
}

/// The instance's folder was deleted, and the socket with it: a daemon opens its socket again, which is waited for where there
/// is one that could be meant.
fn reopened(context: &Context) -> Option<Reached> {
    let name = context.instance_name();
    if context.paths.instance_dir(name).join("lock").exists() || !runs_somewhere(name) {
        return None;
    }
    let deadline = Instant::now() + REOPENED_WITHIN;
    while Instant::now() < deadline {
        if let Ok(reached) = context.reach_one() {
            return Some(reached);
        }
        std::thread::sleep(POLL);
    }
    None
}

/// Whether a daemon of this user runs an instance of this name, wherever its folder was.
fn runs_somewhere(name: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::getuid().as_raw();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == own)).any(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        let has = |word: &str| words.contains(&word.as_bytes());
        has("up") && has("--foreground") && has(name)
    })
}

/// What is known of the children of a daemon that went before it answered.
fn nothing() -> Stopped {
    Stopped { ended: 0, survivors: Vec::new(), unrecorded: 0 }
}

fn leave(reached: &mut Reached) -> Result<Stopped, CommandError> {
    match reached.client.call::<methods::InstanceLeave>(&KeyParams { key: None }) {
        // It may be gone before its answer is.
        Ok(_) | Err(ClientError::Closed) => Ok(nothing()),
        Err(error) => Err(error.into()),
    }
}

fn stop(reached: &mut Reached) -> Result<Stopped, CommandError> {
    // Ending the children takes as long as their grace.
    reached.client.answer_within(None)?;
    match reached.client.call::<methods::InstanceStop>(&KeyParams { key: None }) {
        Ok(stopped) => Ok(stopped),
        Err(ClientError::Closed) => Ok(nothing()),
        Err(error) => Err(error.into()),
    }
}

fn wait_until_gone(reached: &Reached, pid: u32) -> Result<(), CommandError> {
    let started = reached.found.record.as_ref().map(|record| record.start_ticks);
    let deadline = Instant::now() + GONE_WITHIN;
    while instances::start_ticks(pid).is_some_and(|ticks| started.is_none_or(|started| started == ticks)) {
        if Instant::now() > deadline {
            return Err(CommandError::failed(format!("ostler (pid {pid}) did not stop within {GONE_WITHIN:?}"))
                .hint("see `ostler logs --daemon`; `kill -9` is safe, nothing is lost"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// `true` to end the children, `false` to keep them.
fn ask(context: &Context, running: u64) -> Result<bool, CommandError> {
    let flag = instances::flag(context.instance_name());
    let refusal = |message: String| {
        CommandError::new(Kind::Refused, message)
            .hint(format!("leave them running: ostler down --keep{flag}; end them: ostler down --kill{flag}"))
    };
    let noun = if running == 1 { "process is" } else { "processes are" };
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) || context.json() {
        return Err(refusal(format!("{running} {noun} running")));
    }
    let mut err = io::stderr();
    write!(err, "{running} {noun} running. [k]eep running, [e]nd, or cancel? ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "k" | "keep" => Ok(false),
        "e" | "end" | "kill" => Ok(true),
        _ => Err(refusal("canceled; ostler is still running".to_owned())),
    }
}
