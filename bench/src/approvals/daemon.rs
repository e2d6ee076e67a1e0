//! `ostler up` in the foreground, as a service manager would run it: killed and started again by us alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ostler_api::client::Client;
use ostler_api::{AuditEntry, AuditReadParams, methods};

use crate::instance::{Instance, START_DEADLINE};

/// Short, so that requests nobody answers expire within the run.
const SETTINGS: &str = "[approvals]\nwait = \"1s\"\nfatigue = \"off\"\n\n[daemon]\nrestart = false\n";

pub(crate) struct Daemon<'a> {
    instance: &'a Instance,
    child: Option<Child>,
    /// What its environment has beyond the usual.
    env: Vec<(String, String)>,
}

/// Where requests go.
pub(crate) fn door(instance: &std::path::Path) -> PathBuf {
    instance.join("run/main-sudo-proxy.sock")
}

/// Where decisions go.
pub(crate) fn native(instance: &std::path::Path) -> PathBuf {
    instance.join("run/main.sock")
}

impl<'a> Daemon<'a> {
    pub(crate) fn new(instance: &'a Instance) -> Result<Self> {
        fs::create_dir(instance.dir().join("ran"))?;
        fs::write(instance.dir().join("config.toml"), SETTINGS)?;
        Ok(Self { instance, child: None, env: Vec::new() })
    }

    /// With more in its environment.
    pub(crate) fn with_env(mut self, env: &BTreeMap<String, String>) -> Self {
        self.env.extend(env.iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Starts it and waits for nothing.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let log = fs::File::options().create(true).append(true).open(self.instance.dir().join("daemon.log"))?;
        let mut command = self.instance.command(&["up", "--foreground"]);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env("OSTLER_CONFIG", self.instance.dir().join("config.toml"));
        self.child = Some(command.stdout(log.try_clone()?).stderr(log).spawn().context("start ostler up")?);
        Ok(())
    }

    /// Starts it and waits until both doors answer.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.begin()?;
        let deadline = Instant::now() + START_DEADLINE;
        for socket in [door(self.instance.dir()), native(self.instance.dir())] {
            while UnixStream::connect(&socket).is_err() {
                if Instant::now() > deadline {
                    bail!("{} does not answer; the log ends with:\n{}", socket.display(), self.instance.log_tail());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> Option<rustix::process::Pid> {
        self.child.as_ref().map(rustix::process::Pid::from_child)
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// The whole audit, oldest first.
    pub(crate) fn audit(&self) -> Result<Vec<AuditEntry>> {
        let mut client = Client::connect(&native(self.instance.dir()))?;
        let mut all: Vec<AuditEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |entry| entry.seq);
            let page = client.call::<methods::AuditRead>(&AuditReadParams { after, limit: 0 })?;
            if page.entries.is_empty() {
                return Ok(all);
            }
            all.extend(page.entries);
        }
    }

    /// Ends it with everything it hosts.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let stopped = self.instance.command(&["down", "--kill"]).output()?;
        if !stopped.status.success() {
            bail!("ostler down --kill: {}", String::from_utf8_lossy(&stopped.stderr));
        }
        if let Some(mut child) = self.child.take() {
            child.wait()?;
        }
        Ok(())
    }
}
