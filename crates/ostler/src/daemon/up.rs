//! `ostler up`: the instance with all doors open.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ostler_engine::{Claim, Ending, Environment, GuardSpec, approval};

use super::doors::{self, Doors};
use super::host::{Host, HostError, Plan};
use super::joining::Leases;
use super::{Asked, LogWriter, Native, Signals};
use crate::config::Config;
use crate::paths::Paths;

/// What `up --foreground` hands over.
pub(crate) struct Options {
    pub(crate) paths: Paths,
    pub(crate) config: Config,
    /// The instance's name; `main` unless told otherwise.
    pub(crate) instance: String,
    /// Other products' own places may be taken.
    pub(crate) drop_in: bool,
    /// Started by `up` without `--foreground`: leave the caller's session; stdout and stderr are daemon.log already.
    pub(crate) detached: bool,
    /// Started by the keeper after a daemon died.
    pub(crate) guarded: bool,
    /// Take over from a living daemon of this instance instead of refusing (`ostler restart`).
    pub(crate) take_over: bool,
    /// A service manager started it, brings it back, and waits to be told that it is ready.
    pub(crate) service: bool,
}

/// Runs until told to leave.
pub(crate) fn run(options: Options) -> ExitCode {
    if options.detached {
        // Fails only for a group leader, which has a session of its own already.
        let _ = rustix::process::setsid();
    }
    if options.service
        && let Ok(dir) = options.paths.prepare_instance(&options.instance)
        && let Err(error) = super::service::log_to(&dir)
    {
        // The manager keeps what comes this way.
        let _ = writeln!(io::stderr(), "ostler: daemon.log: {error}");
    }
    let writer = LogWriter::to_stderr();
    writer.take_events(options.config.log.level.clone());
    let state = options.paths.state_dir().to_owned();
    let outcome = super::run_to_end(serve(options)).unwrap_or_else(|source| Err(HostError::Io { path: state, source }));
    writer.flush();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The log may be on the disk that is full.
            let _ = writeln!(io::stderr(), "ostler: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(mut options: Options) -> Result<(), HostError> {
    let signals = Signals::catch().map_err(|source| HostError::Io { path: "signals".into(), source })?;
    let how = if options.take_over { Claim::TakeOver } else { Claim::IfFree };
    let ours = Host::claim(&options.paths, &options.instance, how)?;
    if let Some(pid) = ours.replaced {
        tracing::info!("taking over from pid {pid}");
    }
    let journal = &options.config.journal;
    let host = ours
        .open(Plan {
            door: "up",
            environment: Environment::of_this_process(&["OSTLER_PROCESS", super::service::NOTIFY]),
            guard: (options.config.daemon.restart && !options.service).then(|| guard(&options)).flatten(),
            retention: journal.retention(),
            sync_every: journal.sync_every,
            kill_grace: options.config.process.kill_grace,
            approvals: approval::Settings {
                fatigue: options.config.clone().strict().approvals.fatigue,
                ..approval::Settings::default()
            },
            sessions: options.config.sessions.clone(),
        })
        .await?;
    let asked = options.config.loosening().into_iter().chain(doors::loosening(&options)).collect();
    options.config = super::confirmed(host.engine(), options.config, asked).await;
    super::be_patient(host.engine(), &options.config).await;
    host.engine().allow_core_dumps(options.config.daemon.core_dumps);
    let (native, mut doors, mut leases) = match open(&options, &host) {
        Ok(doors) => doors,
        Err(error) => {
            // Who started this hears why it failed and decides; only the keeper itself may try again.
            host.stop(if options.guarded { Ending::Leave } else { Ending::Keep }).await;
            return Err(error);
        }
    };
    super::service::tell_ready();
    super::host::extract_login_path(host.engine());
    super::forward(host.engine(), host.dir(), &options.config.audit.forward);
    super::notices::begin(host.engine(), host.dir(), &options.config.notify, doors.page());
    let door = native.door();
    let asked = tokio::select! {
        asked = native.serve() => asked,
        () = doors.serve(&host, &door) => Asked::Stop,
        () = leases.serve() => Asked::Stop,
        // A service manager that stops or restarts the daemon means the daemon, not what it hosts.
        asked = signals.next() => if asked == Asked::Stop { Asked::Keep } else { asked },
    };
    host.engine().notices().stop();
    leases.close(asked).await;
    doors.close().await;
    host.stop(asked.ending()).await;
    Ok(())
}

fn open(options: &Options, host: &Host) -> Result<(Native, Doors, Leases), HostError> {
    let doors = Doors::open(options, host)?;
    let native = Native::open(host, doors.describe())?;
    let leases = Leases::open(host, &options.config.sessions, Arc::clone(native.doors()))?;
    Ok((native, doors, leases))
}

/// How the keeper brings this daemon back when it dies unasked.
fn guard(options: &Options) -> Option<GuardSpec> {
    let program = std::env::current_exe().ok()?;
    // After an upgrade the old file is gone; the new one has its name.
    let program = match program.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => program,
    };
    let mut argv: Vec<OsString> = ["ostler", "up", "--foreground", "--instance"].map(Into::into).to_vec();
    argv.push(options.instance.clone().into());
    argv.push(ostler_keeper::client::GUARDED.into());
    if options.detached {
        argv.push("--detached".into());
    }
    if options.drop_in {
        argv.push("--drop-in".into());
    }
    let dir = options.paths.instance_dir(&options.instance);
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    Some(GuardSpec { program, argv, env: std::env::vars_os().collect(), cwd, log: dir.join("daemon.log") })
}
