//! One instance: the right to it, its engine, its record for the command line, and its end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_api::Timestamp;
use ostler_door_native::Identity;
use ostler_engine::{
    Claim, Claimed, Ending, Engine, EngineConfig, Environment, GuardSpec, Lease, LoginPath, MayWait, Retention,
    SessionConfig, StartError, approval,
};
use ostler_workspace::read_small;

use super::Asked;
use crate::config::Config;
use crate::instances::{DoorRecord, InstanceRecord, RECORD_VERSION, start_ticks};
use crate::paths::{Paths, PathsError};

/// What a power cut may take of what a stand-in hosts, at most.
const SYNC_EVERY: Duration = Duration::from_millis(200);
/// How long a process of a stand-in may take to end when the command line ends it.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// How soon a register that could not be written is tried again.
const REGISTER_EVERY: Duration = Duration::from_secs(2);
/// A note holds a time.
const NOTE_MAX: u64 = 256;
/// In the folder of an instance: since when the names of its clients count.
const EPOCH: &str = "epoch";
/// How often ended processes are looked at for pruning.
const PRUNE_EVERY: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("`{name}` is already running{}", pid.map_or(String::new(), |pid| format!(" (pid {pid})")))]
    Held { name: String, pid: Option<u32> },
    #[error("`{name}` is running, and {host} runs in it and cannot replace it: use a terminal of your own")]
    Hosted { name: String, host: String },
    #[error(transparent)]
    Engine(#[from] StartError),
    #[error("{0}")]
    Lost(String),
}

/// What the engine of an instance is started with.
pub(crate) struct Plan {
    /// `up`, or the drop-in name that runs this engine.
    pub(crate) door: &'static str,
    pub(crate) environment: Environment,
    pub(crate) guard: Option<GuardSpec>,
    pub(crate) retention: Retention,
    pub(crate) sync_every: Duration,
    /// How long a process may take to end when nobody says otherwise.
    pub(crate) kill_grace: Duration,
    /// How the inbox behaves.
    pub(crate) approvals: approval::Settings,
    pub(crate) sessions: SessionConfig,
}

impl Plan {
    /// What holds for a stand-in where it has no wishes of its own.
    pub(crate) fn of_stand_in(door: &'static str, environment: Environment) -> Self {
        Self {
            door,
            environment,
            guard: None,
            retention: Retention::default(),
            sync_every: SYNC_EVERY,
            kill_grace: KILL_GRACE,
            approvals: approval::Settings::default(),
            sessions: SessionConfig::default(),
        }
    }
}

impl Plan {
    /// The same for one that hosts agents, with the user's settings.
    pub(crate) fn of_agents(door: &'static str, settings: &Config) -> Self {
        let journal = &settings.journal;
        Self {
            retention: journal.retention(),
            sessions: settings.sessions.clone(),
            ..Self::of_stand_in(door, Environment::of_this_process(&["OSTLER_PROCESS"]))
        }
    }
}

/// An instance that is ours, not started yet.
pub(crate) struct Ours {
    /// The daemon that left for us.
    pub(crate) replaced: Option<u32>,
    lease: Lease,
    paths: Paths,
    name: String,
    dir: PathBuf,
}

/// A running instance.
pub(crate) struct Host {
    engine: Engine,
    paths: Paths,
    name: String,
    dir: PathBuf,
    door: &'static str,
    kill_grace: Duration,
    started: Timestamp,
    _lease: Lease,
}

impl Host {
    /// Claims an instance. Blocks while another daemon leaves.
    pub(crate) fn claim(paths: &Paths, name: &str, how: Claim) -> Result<Ours, HostError> {
        // Also where the daemon itself is hosted, by another instance: then nothing has done it yet.
        ostler_keeper::shield::raise();
        let dir = paths.prepare_instance(name)?;
        // The keeper would send us away, and then nobody would be there: better to leave the living daemon alone.
        let host = ostler_engine::access::own_host().filter(|_| how == Claim::TakeOver);
        let how = if host.is_some() { Claim::IfFree } else { how };
        let claimed = ostler_engine::claim(&dir, how).map_err(|source| HostError::Io { path: dir.clone(), source })?;
        let (lease, replaced) = match claimed {
            Claimed::Free(lease) => (lease, None),
            Claimed::TakenFrom(lease, pid) => (lease, Some(pid)),
            Claimed::Held(pid) => {
                let name = name.to_owned();
                return Err(match host {
                    Some(host) => HostError::Hosted { name, host },
                    None => HostError::Held { name, pid },
                });
            }
        };
        Ok(Ours { replaced, lease, paths: paths.clone(), name: name.to_owned(), dir })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Who answers at the native door.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            state_dir: self.dir.display().to_string(),
            kill_grace: self.kill_grace,
        }
    }

    /// The name space of a door's client ids. It outlives a crash, but not a stop that was asked for: whoever starts anew
    /// after that starts with nothing.
    pub(crate) fn endpoint(&self, door: &str) -> Result<String, HostError> {
        endpoint(&self.dir, door)
    }

    /// A name space with nothing in it.
    pub(crate) fn fresh_endpoint(&self, door: &str) -> Result<String, HostError> {
        fresh_endpoint(&self.dir, door)
    }

    /// Tells the command line where everything is.
    pub(crate) fn register(&self, native: PathBuf, doors: Vec<DoorRecord>) -> Result<InstanceRecord, HostError> {
        let pid = std::process::id();
        let record = InstanceRecord {
            version: RECORD_VERSION,
            name: self.name.clone(),
            door: self.door.to_owned(),
            pid,
            start_ticks: start_ticks(pid).unwrap_or_default(),
            started: self.started,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            native: Some(native),
            doors,
        };
        match record.write(&self.dir) {
            Err(error) if is_trouble(&error) => {
                tracing::error!(
                    "{}: not entered in the register: {error}; the command line finds the socket all the same",
                    self.dir.display()
                );
                tokio::spawn(enter_later(record.clone(), self.dir.clone()));
            }
            written => written.map_err(|source| HostError::Io { path: self.dir.clone(), source })?,
        }
        Ok(record)
    }

    /// Ends the instance; gives back how many children were running.
    pub(crate) async fn stop(self, ending: Ending) -> usize {
        let running = self.engine.stop(ending).await;
        forget_endpoint(&self.dir, ending);
        if let Err(error) = InstanceRecord::remove_own(&self.dir) {
            tracing::warn!("{}: record not removed: {error}", self.dir.display());
        }
        running
    }
}

/// Asks a login shell for its PATH, beside everything else; what is to be started from now on waits for it.
pub(crate) fn extract_login_path(engine: &Engine) {
    let (environment, forker) = (Arc::clone(engine.environment()), engine.forker());
    let asking = environment.asking();
    MayWait::pool(move |_| {
        let shell = environment.get("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
        match ostler_engine::login_path(&forker, &shell, &environment.snapshot()) {
            LoginPath::Found(path) => {
                tracing::info!("[shellenv] Extracted shell PATH ({} chars)", path.len());
                environment.set_path(path);
            }
            LoginPath::Missing => tracing::warn!("[shellenv] PATH sentinel not found in shell output"),
            LoginPath::Failed(why) => {
                tracing::warn!("[shellenv] Shell command exited with error (may still have PATH): {why}");
            }
        }
        drop(asking);
    });
}

fn endpoint(dir: &Path, door: &str) -> Result<String, HostError> {
    let path = dir.join(EPOCH);
    match read_small(&path, NOTE_MAX) {
        Ok(epoch) if !epoch.is_empty() => Ok(format!("{door}@{epoch}")),
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(HostError::Io { path, source }),
        _ => fresh_endpoint(dir, door),
    }
}

fn fresh_endpoint(dir: &Path, door: &str) -> Result<String, HostError> {
    let (path, epoch) = (dir.join(EPOCH), Timestamp::now().to_string());
    super::write_private(&path, &epoch).map_err(|source| HostError::Io { path, source })?;
    Ok(format!("{door}@{epoch}"))
}

/// The next start begins with an empty name space, unless everything goes on.
fn forget_endpoint(dir: &Path, ending: Ending) {
    if !matches!(ending, Ending::Leave | Ending::Keep) {
        let _ = fs::remove_file(dir.join(EPOCH));
    }
}

impl Ours {
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name space of its door's client ids, in whichever engine.
    pub(crate) fn endpoint(&self) -> Result<String, HostError> {
        endpoint(&self.dir, &self.name)
    }

    /// It ends, and had its door in another engine.
    pub(crate) fn left(self, asked: Asked) {
        forget_endpoint(&self.dir, asked.ending());
    }

    /// Starts the engine and takes up whatever the keeper holds.
    pub(crate) async fn open(self, plan: Plan) -> Result<Host, HostError> {
        let config = EngineConfig {
            dir: self.dir.clone(),
            own: self.paths.own(),
            environment: Arc::new(plan.environment),
            retention: plan.retention,
            sync_every: plan.sync_every,
            guard: plan.guard,
            child_nofile: super::limits::raise_descriptors(),
            // Of the keeper's child that opens it, before that becomes another program: so it is the keeper's file, which is
            // ours, whatever was put in its place; and nobody has to look into this process.
            runner: "/proc/self/exe".into(),
            approvals: plan.approvals,
            sessions: plan.sessions,
        };
        let engine = MayWait::pool(move |wait| Engine::start(wait, config))
            .await
            .map_err(|lost| HostError::Lost(lost.to_string()))??;
        prune_regularly(engine.clone());
        let Self { lease, paths, name, dir, .. } = self;
        let (door, kill_grace, started) = (plan.door, plan.kill_grace, Timestamp::now());
        Ok(Host { engine, paths, name, dir, door, kill_grace, started, _lease: lease })
    }
}

/// The disk's trouble, which may pass, and not a mistake of ours.
fn is_trouble(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let known = [Errno::NOSPC, Errno::DQUOT, Errno::IO].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| known.contains(&code))
}

/// Enters the instance in the register when the disk takes it.
async fn enter_later(record: InstanceRecord, dir: PathBuf) {
    loop {
        tokio::time::sleep(REGISTER_EVERY).await;
        let (record, to) = (record.clone(), dir.clone());
        if MayWait::pool(move |_| record.write(&to)).await.is_ok_and(|written| written.is_ok()) {
            tracing::info!("{}: entered in the register", dir.display());
            return;
        }
    }
}

fn prune_regularly(engine: Engine) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(PRUNE_EVERY).await;
            let engine = engine.clone();
            // A pass that dies is tried again with the next.
            let _ = MayWait::pool(move |wait| {
                engine.prune(wait, false);
                engine.sessions().tidy(wait);
                engine.history(wait).tidy();
            })
            .await;
        }
    });
}
