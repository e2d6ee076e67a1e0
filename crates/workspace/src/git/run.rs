//! Runs one git command to its end, or to its deadline.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::Git;

/// Most bytes taken from one command: a million changed files and more.
const MAX_OUTPUT: usize = 64 << 20;

/// One read from the pipe; as much as a pipe holds.
const CHUNK: usize = 64 << 10;

/// Time between the request to end and the kill: git removes half-made work trees when asked to end.
const GRACE: Duration = Duration::from_secs(2);

/// A git command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No git in the search path.
    #[error("git not found in PATH")]
    NotFound,
    /// It could not be started or watched.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It was killed at the deadline.
    #[error("timed out after {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// It printed more than anybody could want.
    #[error("more than {} MiB of output", MAX_OUTPUT >> 20)]
    TooMuchOutput,
    /// It ran and said no.
    #[error("{what} failed: {}", String::from_utf8_lossy(said).trim_end())]
    Failed {
        /// The git command.
        what: &'static str,
        /// What it printed.
        said: Vec<u8>,
    },
}

impl From<Errno> for RunError {
    fn from(errno: Errno) -> Self {
        RunError::Io(errno.into())
    }
}

/// A git command that ran to its end.
#[derive(Debug)]
pub(super) struct Ran {
    /// It exited with status 0.
    pub(super) success: bool,
    /// What it printed.
    pub(super) output: Vec<u8>,
}

impl Ran {
    pub(super) fn into_success(self, what: &'static str) -> Result<Vec<u8>, RunError> {
        if self.success { Ok(self.output) } else { Err(RunError::Failed { what, said: self.output }) }
    }
}

impl Git {
    /// A command that only looks, with its standard output. It takes no lock that a person's own git
    /// could stumble over, and does not run the file monitor that the repository's configuration names.
    pub(super) fn query<I, S>(&self, args: I) -> Result<Ran, RunError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command()?;
        command.env("GIT_OPTIONAL_LOCKS", "0").args(["-c", "core.fsmonitor=false"]).args(args);
        self.run(command, false)
    }

    /// A command that changes something: all that it prints, in the order printed.
    pub(super) fn change<I, S>(&self, args: I) -> Result<Ran, RunError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command()?;
        command.args(args);
        self.run(command, true)
    }

    fn command(&self) -> Result<Command, RunError> {
        let program = self.program.as_ref().ok_or(RunError::NotFound)?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .arg("-C")
            .arg(&self.dir)
            .stdin(Stdio::null())
            .process_group(0);
        Ok(command)
    }

    fn run(&self, mut command: Command, with_stderr: bool) -> Result<Ran, RunError> {
        let (reader, writer) = io::pipe()?;
        if with_stderr {
            command.stderr(writer.try_clone()?);
        } else {
            command.stderr(Stdio::null());
        }
        command.stdout(writer);
        let mut child = command.spawn()?;
        // The command holds the writing end: as long as it lives, the pipe has no end.
        drop(command);
        let output = Running::watch(&child)
            .and_then(|running| running.collect(reader, self.deadline).inspect_err(|_| running.end()));
        let status = child.wait()?;
        Ok(Ran { success: status.success(), output: output? })
    }
}

/// A started command that was not waited for yet, so that its number cannot be another's.
struct Running {
    group: Pid,
    process: OwnedFd,
}

impl Running {
    fn watch(child: &Child) -> Result<Self, RunError> {
        let group = Pid::from_raw(child.id().cast_signed()).ok_or(Errno::SRCH)?;
        let process = pidfd_open(group, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process_group(group, Signal::KILL);
        })?;
        Ok(Running { group, process })
    }

    /// Reads until git itself has ended: what it left running in the background may keep the pipe
    /// open for as long as it likes.
    fn collect(&self, mut pipe: PipeReader, limit: Duration) -> Result<Vec<u8>, RunError> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let deadline = Instant::now() + limit;
        let mut output = Vec::new();
        let mut open = true;
        loop {
            let mut watched = vec![PollFd::new(&self.process, PollFlags::IN)];
            if open {
                watched.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
            }
            if !poll_until(&mut watched, deadline)? {
                return Err(RunError::TimedOut(limit));
            }
            let ended = watched.first().is_some_and(|process| !process.revents().is_empty());
            open = open && drain(&mut pipe, &mut output)?;
            if ended {
                return Ok(output);
            }
        }
    }

    /// Ends git and all that it started: first asked, then made to.
    fn end(&self) {
        let _ = kill_process_group(self.group, Signal::TERM);
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        let _ = poll_until(&mut watched, Instant::now() + GRACE);
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

/// Waits until a descriptor is ready; false at the deadline.
fn poll_until(watched: &mut [PollFd<'_>], deadline: Instant) -> Result<bool, Errno> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(watched, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Takes what is in the pipe now; false once it has ended.
fn drain(pipe: &mut PipeReader, output: &mut Vec<u8>) -> Result<bool, RunError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match pipe.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                output.extend_from_slice(chunk.get(..count).unwrap_or_default());
                if output.len() > MAX_OUTPUT {
                    return Err(RunError::TooMuchOutput);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
