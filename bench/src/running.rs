//! An instance whose daemon runs, for as long as the value lives.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Pid;
use serde_json::{Value, json};

use crate::conn::Conn;
use crate::instance::{Daemon, Instance, TOKEN};
use crate::lines::Lines;
use crate::procfs;
use crate::wire::{self, Attached};

/// Replies in these rows come within milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Spawns that are asked for at once when many children are wanted.
const SPAWN_WINDOW: usize = 16;

pub(crate) struct Running {
    pub(crate) instance: Instance,
    pub(crate) daemon: Daemon,
}

impl Running {
    pub(crate) fn start(bin: &Path, label: &str) -> Result<Self> {
        Self::of(Instance::new(bin, label)?)
    }

    /// As an ordinary user with the usual descriptor limit.
    pub(crate) fn unprivileged(bin: &Path, label: &str) -> Result<Self> {
        Self::of(Instance::unprivileged(bin, label)?)
    }

    pub(crate) fn of(instance: Instance) -> Result<Self> {
        let daemon = instance.start()?;
        Ok(Self { instance, daemon })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.daemon.pid()
    }

    pub(crate) fn connect(&self) -> Result<UnixStream> {
        UnixStream::connect(self.instance.socket()).context("connect to the daemon")
    }

    /// A connection whose first request is this one, and a fast reader of what comes.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> Result<Lines> {
        let mut stream = self.connect()?;
        stream.write_all(wire::request(1, method, Some(params), TOKEN).as_bytes())?;
        Lines::new(stream)
    }

    pub(crate) fn flood(&self, id: &str, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = ["flood"].iter().chain(arguments).copied().collect();
        json!({"id": id, "command": self.instance.tool(), "args": arguments})
    }

    /// One request and its reply on a connection of its own.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<String> {
        let mut conn = self.instance.dial()?;
        let line = wire::request(1, method, Some(params), TOKEN);
        conn.call(&line, 1, Instant::now() + PATIENCE, |_| ())
    }

    /// Hosts children that only sleep; their ids are `prefix0`, `prefix1`, and so on.
    pub(crate) fn sleepers(&self, prefix: &str, count: usize) -> Result<Vec<Pid>> {
        let mut conn = self.instance.dial()?;
        let mut pids = Vec::new();
        let ids: Vec<usize> = (0..count).collect();
        for some in ids.chunks(SPAWN_WINDOW) {
            for id in some {
                let params = json!({
                    "id": format!("{prefix}{id}"), "command": "/bin/sleep", "args": ["3600"], "wantPid": true
                });
                conn.send(&wire::request(*id as u64, "process.spawn", Some(&params), TOKEN));
            }
            let wanted = pids.len() + some.len();
            collect(&mut conn, wanted, &mut pids)?;
        }
        Ok(pids)
    }

    /// The keeper: the parent of a hosted child.
    pub(crate) fn keeper_of(&self, child: Pid) -> Result<Pid> {
        Pid::from_raw(procfs::parent(child)?).context("a child without a parent")
    }

    /// Kills the daemon; the next one is for the caller to start.
    pub(crate) fn kill(&self) -> Result<()> {
        self.daemon.kill()
    }
}

fn collect(conn: &mut Conn, wanted: usize, pids: &mut Vec<Pid>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while pids.len() < wanted {
        if Instant::now() > deadline {
            bail!("{} of {wanted} children were spawned within {PATIENCE:?}", pids.len());
        }
        let mut failed = None;
        conn.turn(Duration::from_millis(100), |line| match pid_of(line) {
            Ok(pid) => pids.push(pid),
            Err(error) => failed = Some(error),
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(())
}

fn pid_of(line: &[u8]) -> Result<Pid> {
    let shown = || String::from_utf8_lossy(line).into_owned();
    let wire::Incoming::Reply { result: Ok(result), .. } = wire::parse(line)? else { bail!("spawn: {}", shown()) };
    let attached: Attached = serde_json::from_str(result)?;
    attached.pid.and_then(Pid::from_raw).with_context(shown)
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whatever state the row left it in: nothing of it may run on beside the next row.
        if self.instance.shutdown().is_err() && self.instance.start().is_ok() {
            let _ = self.instance.shutdown();
        }
    }
}
