//! Who is killed, and how the keeper of a child is found: it has no name of its own, but it holds the child's pipe.

use std::path::PathBuf;
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

/// Kills the keeper of these children and waits until another one holds them all. Until then whoever kills the daemon too has
/// killed both.
pub(crate) fn replace_keeper(children: &[i32]) -> Result<()> {
    let Some(child) = children.first() else { return Ok(()) };
    let Some(keeper) = keeper_of(*child)? else { bail!("pid {child} has no keeper") };
    let terminals = |keeper: Pid| open_files(keeper).iter().filter(|link| link.ends_with("ptmx")).count();
    let pipes: Vec<PathBuf> = children.iter().filter_map(|child| stdout_of(*child).ok()).collect();
    let before = terminals(keeper);
    kill_process(keeper, Signal::KILL).context("kill the keeper")?;
    let deadline = Instant::now() + REPLACED_WITHIN;
    while Instant::now() < deadline {
        if let Some(next) = keeper_of(*child)?.filter(|next| *next != keeper) {
            let held = open_files(next);
            if pipes.iter().all(|pipe| held.contains(pipe)) && terminals(next) >= before {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("no keeper took over all of {keeper:?} within {REPLACED_WITHIN:?}")
}

/// The keeper that holds the stdout of this child, which must live.
pub(crate) fn keeper_of(child: i32) -> Result<Option<Pid>> {
    let pipe = stdout_of(child)?;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let pid = entry.file_name().to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        // Whoever a keeper sends on an errand has its name and its files until it executes another program, but no session.
        let is_keeper = |pid: &Pid| rustix::process::getsid(Some(*pid)) == Ok(*pid) && open_files(*pid).contains(&pipe);
        if comm.trim_end() == "ostler-keeper"
            && let Some(pid) = pid.filter(is_keeper)
        {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

fn stdout_of(child: i32) -> Result<PathBuf> {
    std::fs::read_link(format!("/proc/{child}/fd/1")).with_context(|| format!("stdout of pid {child}"))
}

/// What a process has open; one that ends meanwhile has nothing.
fn open_files(process: Pid) -> Vec<PathBuf> {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).into_iter().flatten().flatten();
    fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect()
}
