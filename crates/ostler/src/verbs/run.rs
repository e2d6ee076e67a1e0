//! `ostler run`: hosts a command, and stays with it unless told otherwise.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler_api::client::ClientError;
use ostler_api::{Empty, ProcessInfo, SessionIdParams, SpawnParams, WinSize, methods};
use ostler_keeper::procfs;

use super::Context;
use super::attach::{hold, takes_keyboard};
use super::connect::Reached;
use super::set::{Access, open_access};
use super::stream::{Format, Input, Mode, Sink, View, size};
use crate::config::parse_size;
use crate::output::{Called, CommandError, Kind, Screen, visible};

/// A terminal that nobody looks at yet; the first attach sets the true size.
const UNSEEN: WinSize = WinSize { rows: 24, cols: 80 };

/// The keeper restarts a crashed daemon within seconds.
const COME_BACK_WITHIN: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);
/// A folder or program on a slow disk takes its time.
const STARTED_WITHIN: Duration = Duration::from_secs(60);
/// After this long a person wonders.
const PATIENCE: Duration = Duration::from_secs(3);

/// Run a command that keeps running when you leave
#[derive(Debug, Args)]
#[command(after_help = "\
The command gets your environment and folder. It keeps running when you leave, close the window, lose the connection, \
and when ostler is killed. ostler inside it only reaches its own session. Ctrl-C leaves it (exit code 130); with -t it gets every key, and Ctrl-] leaves. Without -d, run \
exits with its exit code; 127 if there is no such command, 126 if it cannot be executed.

Examples:
  ostler run -- make -j8
  ostler run -t --name claude -- claude
  ostler run -d --name web --cwd ~/site -- python3 -m http.server
  ostler run --private -- ./rotate-keys      what it says stays in memory
  ostler run --of fix                        what .ostler.toml says, in its worktree
  ostler run -t --access all -- bash         ostler in that shell reaches everything")]
pub(crate) struct Run {
    /// Give it a terminal, for an agent's own screen
    #[arg(short, long)]
    tty: bool,

    /// Run in the background and print the id
    #[arg(short, long)]
    detach: bool,

    /// Give it a name
    #[arg(long)]
    name: Option<String>,

    /// Start it in this folder
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// Set a variable; KEY alone takes yours
    #[arg(short, long, value_name = "KEY=VALUE")]
    env: Vec<String>,

    /// Keep input and output off the disk
    #[arg(long)]
    private: bool,

    /// Keep only this much of its output
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    keep: Option<u64>,

    /// Which processes and sessions ostler reaches from inside it: `own` or `all`
    #[arg(long, value_name = "WHICH", value_enum, hide_possible_values = true)]
    access: Option<Access>,

    /// Start it once, even when called again with this key
    #[arg(long)]
    key: Option<String>,

    /// Run what .ostler.toml says, in the worktree of this session
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["command", "cwd", "env", "tty", "key", "name", "private", "keep"])]
    of: Option<String>,

    /// The command
    #[arg(required_unless_present = "of", trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    /// The command of a process that has ended, once more and without staying.
    pub(super) fn again(process: ProcessInfo) -> Self {
        let command = std::iter::once(process.program).chain(process.args).map(OsString::from).collect();
        Self {
            tty: process.tty,
            detach: true,
            name: process.name,
            cwd: process.cwd.map(PathBuf::from),
            env: Vec::new(),
            private: process.private,
            keep: None,
            access: None,
            key: None,
            of: None,
            command,
        }
    }

    pub(super) fn run(self, context: &Context) -> Result<ExitCode, CommandError> {
        let config = context.settings();
        let (mut reached, process, params) = match &self.of {
            Some(session) => {
                let (mut reached, info) = context.find_session(session)?;
                let process = reached.client.call::<methods::SessionRun>(&SessionIdParams { id: info.id })?;
                (reached, process, None)
            }
            None => {
                let params = self.params(&context.screen)?;
                let (reached, process) = spawn(context, &params)?;
                (reached, process, Some(params))
            }
        };
        if let (Some(key), Some(params)) = (&self.key, &params)
            && (&process.program, &process.args) != (&params.program, &params.args)
        {
            let message = format!("key {key} was already used for another command: {}", process.called());
            return Err(CommandError::new(Kind::Refused, message).hint("use another key"));
        }
        if let Some(access) = self.access {
            open_access(&mut reached.client, &process.id, access)?;
        }
        if self.detach {
            if context.json() {
                context.screen.value(&super::ps::with_instance(&reached.found.name, &process))?;
            } else {
                context.screen.line(&process.id)?;
                if io::stderr().is_terminal() {
                    context.screen.note(&format!("go back to it: ostler attach {}", process.called()));
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        let raw = takes_keyboard(&process);
        let view = View {
            from: Some(1),
            keyboard: raw.then_some((config.attach.detach_key, Mode::Raw)),
            draws: process.tty,
            attached: true,
            sized: raw,
            ..View::default()
        };
        let format = if context.json() { Format::Json } else { Format::Raw };
        // With a key the process may be one that somebody else already talks to.
        let input = if self.key.is_some() || self.tty { Input::shared(self.tty)? } else { Input::alone(false)? };
        hold(context, reached, &process, view, Sink::new(format, false), input)
    }

    fn params(&self, screen: &Screen) -> Result<SpawnParams, CommandError> {
        let here = std::env::current_dir()
            .map_err(|error| CommandError::failed(format!("current folder: {error}")).hint("use --cwd"))?;
        let cwd = match &self.cwd {
            Some(dir) => here.join(dir),
            None => here,
        };
        let (program, args) = self.command.split_first().ok_or_else(|| CommandError::usage("no command"))?;
        let program = resolve(Path::new(program), &cwd)?;
        Ok(SpawnParams {
            program: text(program.as_os_str().to_owned())?,
            args: args.iter().cloned().map(text).collect::<Result<_, _>>()?,
            env: self.environment(screen)?,
            cwd: Some(text(cwd.into_os_string())?),
            name: self.name.clone(),
            tty: self.tty.then(|| size().unwrap_or(UNSEEN)),
            private: self.private,
            live_max: self.keep,
            key: Some(self.key.clone().map_or_else(fresh_key, Ok)?),
        })
    }

    /// All of ours, then what the flags say.
    fn environment(&self, screen: &Screen) -> Result<Vec<(String, String)>, CommandError> {
        // A variable that is not text cannot travel in JSON; nobody has one on purpose.
        let mut all: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            // Ours, when this very command line runs inside a hosted process.
            .filter(|(name, _)| name != "OSTLER_PROCESS")
            .collect();
        for (name, value) in variables(screen, &self.env)? {
            all.retain(|(known, _)| *known != name);
            all.push((name, value));
        }
        Ok(all)
    }
}

/// What `--env` says: KEY=VALUE, or KEY for ours, if it is set.
pub(super) fn variables(screen: &Screen, settings: &[String]) -> Result<Vec<(String, String)>, CommandError> {
    let mut all = Vec::new();
    for setting in settings {
        let (name, value) = match setting.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (setting.as_str(), std::env::var(setting).ok()),
        };
        if name.is_empty() {
            return Err(CommandError::usage(format!("--env {setting}: the name before `=` is missing")));
        }
        match value {
            Some(value) => all.push((name.to_owned(), value)),
            None => screen.note(&format!("ostler: --env {}: not set here, so not passed on", visible(name))),
        }
    }
    Ok(all)
}

/// Starts the process. If the daemon goes away in the middle the next one is asked the same again, and the key sees to it
/// that the command is started once.
fn spawn(context: &Context, params: &SpawnParams) -> Result<(Reached, ProcessInfo), CommandError> {
    let mut reached = context.reach_one()?;
    let deadline = Instant::now() + COME_BACK_WITHIN;
    loop {
        reached.client.answer_within(Some(STARTED_WITHIN))?;
        let lost = match reached.client.call_patiently::<methods::ProcessSpawn>(params, PATIENCE, || slow(context)) {
            Ok(process) => return Ok((reached, process)),
            Err(lost @ (ClientError::Closed | ClientError::Io(_))) => lost,
            Err(error) => return Err(not_started(error)),
        };
        reached = loop {
            match context.reach_one() {
                Ok(next) => break next,
                Err(_) if Instant::now() > deadline => return Err(lost.into()),
                Err(_) => std::thread::sleep(RETRY),
            }
        };
    }
}

/// The only thing that a start looks for is the command.
fn not_started(error: ClientError) -> CommandError {
    let mut error = CommandError::from(error);
    if error.kind == Kind::NotFound {
        error.kind = Kind::NoCommand;
    }
    error
}

/// What a person is told who waits for a command to start.
fn slow(context: &Context) {
    let status =
        context.reach_one().and_then(|mut reached| Ok(reached.client.call::<methods::InstanceStatus>(&Empty {})?));
    let starter = status.ok().and_then(|status| status.keeper_pid);
    let stopped = |pid: &u32| procfs::stat(*pid).is_ok_and(|stat| matches!(stat.state, b'T' | b't'));
    context.screen.note(&match starter.filter(stopped) {
        Some(pid) => format!(
            "not started yet: pid {pid}, which starts every command, is stopped; let it go on: kill -CONT {pid}"
        ),
        None => format!("not started yet; waiting up to {} s", STARTED_WITHIN.as_secs()),
    });
}

fn fresh_key() -> Result<String, CommandError> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| CommandError::failed(format!("no random numbers: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The file to execute, found the way the caller's shell would find it.
fn resolve(program: &Path, cwd: &Path) -> Result<PathBuf, CommandError> {
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Ok(cwd.join(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let runs = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let found = std::env::split_paths(&path).map(|dir| cwd.join(dir).join(program)).find(runs);
    found.ok_or_else(|| CommandError::new(Kind::NoCommand, format!("{}: command not found", program.display())))
}

fn text(value: OsString) -> Result<String, CommandError> {
    value.into_string().map_err(|value| CommandError::usage(format!("{}: not valid UTF-8", value.display())))
}
