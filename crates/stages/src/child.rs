//! A child of the runner. Its status is looked at but not collected until the end: as long as it is not, its process
//! group's number belongs to nobody else, and a signal to the group can hit no stranger.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid,
};

use crate::failure::Failure;

/// How often a child on a terminal is looked at for having been stopped: the kernel tells that only to who asks.
pub(crate) const STOPPED_TICK: std::time::Duration = std::time::Duration::from_millis(50);

/// A started process.
pub(crate) struct Child {
    pid: Pid,
    group: Pid,
    exited: OwnedFd,
    /// -1 if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Child {
    /// Starts `command` in the group `group`, or in one of its own.
    pub(crate) fn start(command: &mut Command, group: Option<Pid>) -> std::io::Result<Self> {
        let child = command.process_group(group.map_or(0, |group| group.as_raw_nonzero().get())).spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        Self::watch(pid, group.unwrap_or(pid), || pidfd_open(pid, PidfdFlags::empty()))
    }

    /// What can not be watched must not go on: it would be reported as never started.
    fn watch(pid: Pid, group: Pid, open: impl FnOnce() -> Result<OwnedFd, Errno>) -> std::io::Result<Self> {
        let exited = open().inspect_err(|_| {
            // One that already runs as somebody else is not reached, and then there is no end to wait for.
            if kill_process_group(group, Signal::KILL).is_ok() {
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            }
        })?;
        Ok(Self { pid, group, exited, code: None })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Readable when the process has ended.
    pub(crate) fn exited(&self) -> &OwnedFd {
        &self.exited
    }

    /// Looks whether it has ended, or has stopped, which nothing here may: it is told to go on. (A person can stop
    /// sudo with a key.)
    pub(crate) fn look(&mut self) {
        if self.code.is_some() {
            return;
        }
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        if let Ok(Some(_)) = waitid(WaitId::Pid(self.pid), stopped) {
            self.signal_group(Signal::CONT);
        }
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(status)) = waitid(WaitId::Pid(self.pid), ended) {
            self.code = Some(status.exit_status().unwrap_or(-1));
        }
    }

    /// Signals the process; one that runs as somebody else is not reached.
    pub(crate) fn signal(&self, signal: Signal) {
        // One that ended by itself is as good as one that was reached.
        let _ = kill_process(self.pid, signal);
    }

    /// Signals the whole group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Waits for its end; `None` if `deadline` comes first.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Result<Option<i32>, Failure> {
        loop {
            self.look();
            let left = deadline.saturating_duration_since(Instant::now());
            if self.code.is_some() || left.is_zero() {
                return Ok(self.code);
            }
            let mut fds = [PollFd::new(&self.exited, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left.min(STOPPED_TICK)))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::system("waiting for a process", error)),
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// For `poll`, rounded up, so that a wait is never a little too short and then spins.
pub(crate) fn timespec(wait: std::time::Duration) -> Timespec {
    let wait = wait.saturating_add(std::time::Duration::from_micros(500));
    Timespec { tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: wait.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_can_not_be_watched_does_not_go_on() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
        let outcome = Child::watch(pid, pid, || Err(Errno::MFILE));
        assert_eq!(outcome.err().and_then(|error| error.raw_os_error()), Some(Errno::MFILE.raw_os_error()));
        assert!(child.wait().is_err(), "it was ended, and is collected already");
    }
}
