//! Who is killed, and how the keeper of a child is found: it has no name of its own, but it holds the child's pipe.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::rng::Rng;

/// Longer than a daemon takes to start another keeper and hand everything over, on a busy machine.
const REPLACED_WITHIN: Duration = Duration::from_secs(20);

/// `--victims`: whom the battery kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victims {
    Daemon,
    /// The keeper, and the daemon once another keeper holds everything: one of them always lives.
    Keeper,
    /// Both at once.
    Both,
    /// All of these.
    Mixed,
}

impl FromStr for Victims {
    type Err = std::io::Error;

    fn from_str(word: &str) -> std::io::Result<Self> {
        match word {
            "daemon" => Ok(Self::Daemon),
            "keeper" => Ok(Self::Keeper),
            "both" => Ok(Self::Both),
            "mixed" => Ok(Self::Mixed),
            _ => Err(std::io::Error::other("it is daemon, keeper, both or mixed")),
        }
    }
}

impl Victims {
    /// Whether this kill begins with the keeper.
    pub(crate) fn keeper_first(self, rng: &mut Rng) -> bool {
        match self {
            Self::Daemon | Self::Both => false,
            Self::Keeper => true,
            Self::Mixed => rng.percent(50),
        }
    }

    /// Of so many kills, those that take one at a time, and those that take both at once.
    pub(crate) fn share(self, kills: u64) -> (u64, u64) {
        match self {
            Self::Daemon | Self::Keeper => (kills, 0),
            Self::Both => (0, kills),
            Self::Mixed => (kills - kills / 4, kills / 4),
        }
    }
}

/// Kills the keeper of this child and waits until another one holds its pipe.
pub(crate) fn replace_keeper(child: i32) -> Result<()> {
    let Some(keeper) = keeper_of(child)? else { bail!("pid {child} has no keeper") };
    kill_process(keeper, Signal::KILL).context("kill the keeper")?;
    let deadline = Instant::now() + REPLACED_WITHIN;
    while Instant::now() < deadline {
        if keeper_of(child)?.is_some_and(|next| next != keeper) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("no keeper took over from {keeper:?} within {REPLACED_WITHIN:?}")
}

/// The keeper that holds the stdout of this child, which must live.
pub(crate) fn keeper_of(child: i32) -> Result<Option<Pid>> {
    let pipe = std::fs::read_link(format!("/proc/{child}/fd/1")).with_context(|| format!("stdout of pid {child}"))?;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == "ostler-keeper" && holds(&entry.path(), &pipe) {
            let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok());
            return Ok(pid.and_then(Pid::from_raw));
        }
    }
    Ok(None)
}

/// Whether a process has this pipe open; one that ends meanwhile has not.
fn holds(process: &Path, pipe: &Path) -> bool {
    let fds = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|link| link == pipe)
}
