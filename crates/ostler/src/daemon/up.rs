//! `ostler up`: the instance with all doors open.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ostler_door_claustrum as claustrum;
use ostler_engine::{Claim, Ending, Environment, GuardSpec, approval};

use super::codecast::Codecast;
use super::door_socket::{DoorSocket, Folder};
use super::host::{Host, HostError, Plan};
use super::sudo_proxy::SudoProxy;
use super::zeroclaw::Zeroclaw;
use super::{Asked, LogWriter, Native, Signals};
use crate::config::Config;
use crate::instances::DoorRecord;
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
                fatigue: options.config.approvals.fatigue,
                ..approval::Settings::default()
            },
            sessions: options.config.sessions.clone(),
        })
        .await?;
    let of_doors = Codecast::loosening(&options);
    options.config = super::confirmed(host.engine(), options.config, of_doors);
    host.engine().allow_core_dumps(options.config.daemon.core_dumps);
    let (native, claustrum, codecast, sudo_proxy, zeroclaw) = match open_doors(&options, &host) {
        Ok(doors) => doors,
        Err(error) => {
            // Who started this hears why it failed and decides; only the keeper itself may try again.
            host.stop(if options.guarded { Ending::Leave } else { Ending::Keep }).await;
            return Err(error);
        }
    };
    super::service::tell_ready();
    host.extract_login_path();
    super::forward(host.engine(), host.dir(), &options.config.audit.forward);
    let streams = codecast.as_ref().map(Codecast::door);
    let asked = tokio::select! {
        asked = native.serve() => asked,
        () = serve_claustrum(claustrum, &host) => Asked::Stop,
        () = serve_codecast(codecast) => Asked::Stop,
        () = serve_sudo_proxy(sudo_proxy) => Asked::Stop,
        () = Zeroclaw::serve(zeroclaw) => Asked::Stop,
        // A service manager that stops or restarts the daemon means the daemon, not what it hosts.
        asked = signals.next() => if asked == Asked::Stop { Asked::Keep } else { asked },
    };
    let ending = match asked {
        Asked::Leave => Ending::Leave,
        Asked::Keep => Ending::Keep,
        Asked::Stop => Ending::Kill,
    };
    if let Some(streams) = streams {
        streams.close().await;
    }
    host.stop(ending).await;
    Ok(())
}

type Doors = (Native, Option<Claustrum>, Option<Codecast>, Option<SudoProxy>, Option<Zeroclaw>);

fn open_doors(options: &Options, host: &Host) -> Result<Doors, HostError> {
    let mut open = Vec::new();
    let claustrum = match options.config.doors.claustrum {
        true => Some(Claustrum::open(options, host, &mut open)?),
        false => None,
    };
    let codecast = options.config.doors.codecast.then(|| Codecast::open(options, host, &mut open)).flatten();
    let sudo_proxy = match options.config.doors.sudo_proxy {
        true => Some(SudoProxy::open(options, host, &mut open)?),
        false => None,
    };
    let zeroclaw = match options.config.doors.zeroclaw {
        true => Some(Zeroclaw::open(options, host, &mut open)?),
        false => None,
    };
    Ok((Native::open(host, open)?, claustrum, codecast, sudo_proxy, zeroclaw))
}

async fn serve_claustrum(door: Option<Claustrum>, host: &Host) {
    match door {
        Some(door) => door.serve(host).await,
        None => std::future::pending().await,
    }
}

async fn serve_codecast(door: Option<Codecast>) {
    match door {
        Some(door) => door.serve().await,
        None => std::future::pending().await,
    }
}

async fn serve_sudo_proxy(door: Option<SudoProxy>) {
    match door {
        Some(door) => door.serve().await,
        None => std::future::pending().await,
    }
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

/// The claustrum door of a shared instance.
struct Claustrum {
    place: DoorSocket,
    config: claustrum::Config,
}

impl Claustrum {
    fn open(options: &Options, host: &Host, open: &mut Vec<DoorRecord>) -> Result<Self, HostError> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let (socket, folder) = match home.as_ref().filter(|_| options.drop_in) {
            Some(home) => (home.join(".claude/remote/rpc.sock"), Folder::Anybodys { guests: Vec::new() }),
            None => (options.paths.door_socket(host.name(), "claustrum"), Folder::Ours),
        };
        let place = DoorSocket::open(&socket, folder)?;
        let token_file = host.dir().join("claustrum.token");
        let config = claustrum::Config {
            token: token(&token_file).map_err(|source| HostError::Io { path: token_file.clone(), source })?,
            version: crate::names::claustrum_version(),
            endpoint: host.endpoint("claustrum")?,
            home,
        };
        open.push(DoorRecord {
            name: "claustrum".into(),
            address: socket.display().to_string(),
            connect: format!(
                "ssh HOST ostler as claustrum -bridge -socket {}   (token: {})",
                socket.display(),
                token_file.display()
            ),
        });
        Ok(Self { place, config })
    }

    /// A client that asks this door to shut down ends what came through this door; the daemon belongs to the others too.
    async fn serve(self, host: &Host) {
        let Self { mut place, mut config } = self;
        let mut door = claustrum::Door::new(host.engine().clone(), config.clone());
        loop {
            let swept = tokio::select! {
                () = door.serve(place.listener()) => return,
                () = place.swept() => true,
                () = door.shutdown_requested() => false,
            };
            if swept {
                place.reopen().await;
                continue;
            }
            door.close().await;
            host.engine().end_all_at(&config.endpoint).await;
            door.ended();
            match host.fresh_endpoint("claustrum") {
                Ok(endpoint) => config.endpoint = endpoint,
                Err(error) => tracing::error!("{error}"),
            }
            door = claustrum::Door::new(host.engine().clone(), config.clone());
        }
    }
}

/// The door's token: made at the first start, readable by its owner only.
fn token(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut random = [0u8; 32];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    super::write_private(path, &format!("{token}\n"))?;
    Ok(token)
}
