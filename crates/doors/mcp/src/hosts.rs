//! The list of known hosts, a file that other programs read and write too.
//!
//! It is changed under a lock and replaced whole, so that nobody reads half of it and no change is lost. What we do not
//! know in it stays in it, and a file that cannot be read is never replaced: it may hold somebody's policy.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ostler_workspace::{Durable, replace};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stamp::now_iso8601;

/// Some thousand hosts with their descriptions. The file is part of what a model is told, so it must not grow without end.
const FILE_MAX: u64 = 1 << 20;
/// A change takes milliseconds; whoever holds the lock longer is stuck.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a list of hosts and was left alone: {source}", .path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("{} would be longer than {FILE_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    #[error("{} is locked by another program", .0.display())]
    Locked(PathBuf),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub last_connected: String,
    /// The user there, as `id -u` said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The daemon's release there, as its last answer said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// What the owner of the file allows; no request can change it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    #[serde(default)]
    pub unattended_eligible: bool,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hosts {
    #[serde(default)]
    pub hosts: BTreeMap<String, Host>,
    #[serde(default)]
    pub policy: Policy,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl Hosts {
    pub fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.entry(name.to_owned()).or_default()
    }

    /// Notes that `name` answered just now, and with which release if it said so.
    pub fn touch(&mut self, name: &str, version: &str) {
        let host = self.host(name);
        host.last_connected = now_iso8601();
        if !version.is_empty() {
            version.clone_into(&mut host.version);
        }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|_| "{}".to_owned())
    }
}

/// The file.
#[derive(Clone, Debug)]
pub struct Registry {
    path: PathBuf,
}

impl Registry {
    /// `$XDG_CONFIG_HOME/sudo-proxy/hosts.json`, else below `~/.config`.
    pub fn from_env() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // Never a place where anybody could put a list: it says who may be granted what.
        let home = || std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
        let base = set("XDG_CONFIG_HOME").unwrap_or_else(|| home().join(".config"));
        Self::at(base.join("sudo-proxy/hosts.json"))
    }

    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Everything that is known; nothing when there is no file yet.
    pub fn load(&self) -> Result<Hosts, HostsError> {
        let mut text = Vec::new();
        match File::open(&self.path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Hosts::default()),
            Err(source) => return Err(self.io(source)),
            Ok(_) if text.len() as u64 > FILE_MAX => return Err(HostsError::TooLong(self.path.clone())),
            Ok(_) => {}
        }
        serde_json::from_slice(&text).map_err(|source| HostsError::Damaged { path: self.path.clone(), source })
    }

    /// What is known, or nothing: for places where a damaged list is no reason to stop.
    pub fn load_or_empty(&self) -> Hosts {
        self.load().unwrap_or_else(|error| {
            tracing::debug!("hosts: {error}");
            Hosts::default()
        })
    }

    /// Changes the list as the only one who does so.
    pub fn change(&self, change: impl FnOnce(&mut Hosts)) -> Result<(), HostsError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.make_private(folder).map_err(|source| self.io(source))?;
        let _lock = self.lock(folder)?;
        let mut hosts = self.load()?;
        change(&mut hosts);
        let text = hosts.to_json();
        if text.len() as u64 > FILE_MAX {
            return Err(HostsError::TooLong(self.path.clone()));
        }
        // One name is enough: the lock is held.
        let beside = folder.join(".hosts.json.new");
        replace(&self.path, &beside, text.as_bytes(), Durable::Yes).map_err(|source| self.io(source))
    }

    fn make_private(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))
    }

    fn lock(&self, folder: &Path) -> Result<File, HostsError> {
        let path = folder.join(".hosts.lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(|source| HostsError::Io { path: path.clone(), source })?;
        let end = Instant::now() + LOCK_WAIT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < end => thread::sleep(LOCK_PAUSE),
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(HostsError::Locked(path)),
                Err(error) => return Err(HostsError::Io { path, source: error.into() }),
            }
        }
    }

    fn io(&self, source: io::Error) -> HostsError {
        HostsError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests;
