//! Runs this program once more as a child, and ends whatever that has started when it is interrupted: daemons, keepers, children
//! of theirs, folders. Being the subreaper of all of them, it finds them by descent, whatever they have done to leave.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, set_child_subreaper, wait,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::procfs;

/// Tells the child that it is the one which works.
const WORKER: &str = "OSTLER_BENCH_WORKER";
/// What SIGKILL needs to end a few thousand processes on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// Whether this process does the work itself.
pub(crate) fn is_worker() -> bool {
    std::env::var_os(WORKER).is_some()
}

/// Has the work done by a child, and clears up after it if it did not come to its end.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Result<u8> {
    set_child_subreaper(Some(getpid())).context("become the parent of what is left behind")?;
    let (mut told, tell) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
    }
    let mut worker = Command::new(std::env::current_exe()?).args(arguments).env(WORKER, "1").spawn()?;
    let pid = Pid::from_child(&worker);
    let life = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut ready = [PollFd::new(&life, PollFlags::IN), PollFd::new(&told, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => drop(other?),
        }
        let [ended, interrupted] = ready.map(|fd| !fd.revents().is_empty());
        if interrupted {
            let _ = told.read(&mut [0])?;
            return interrupted_by(worker, pid);
        }
        if ended {
            let status = worker.wait()?;
            return match status.code() {
                Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
                None => {
                    clear(pid)?;
                    Ok(128_u8.saturating_add(u8::try_from(status.signal().unwrap_or(0)).unwrap_or(0)))
                }
            };
        }
    }
}

fn interrupted_by(mut worker: Child, pid: Pid) -> Result<u8> {
    // It may have gone by itself: a terminal tells the whole group.
    let _ = worker.kill();
    let _ = worker.wait();
    clear(pid)?;
    eprintln!("bench: interrupted; what was started has been ended");
    Ok(130)
}

/// Ends every descendant, then removes the folders that the worker made.
fn clear(worker: Pid) -> Result<()> {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        let left = descendants(getpid());
        for pid in &left {
            // Gone meanwhile is as good.
            let _ = kill_process(*pid, Signal::KILL);
        }
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        if left.is_empty() {
            break;
        }
        anyhow::ensure!(Instant::now() < deadline, "{} processes do not end", left.len());
        std::thread::sleep(POLL);
    }
    for place in [std::env::temp_dir().as_path(), Path::new("/dev/shm")] {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("ostler-bench-") && name.contains(&format!("-{worker}-")) {
                std::fs::remove_dir_all(entry.path()).with_context(|| name)?;
            }
        }
    }
    Ok(())
}

fn descendants(of: Pid) -> Vec<Pid> {
    let mut found = procfs::children(of).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(procfs::children(pid).unwrap_or_default());
        next += 1;
    }
    found
}
