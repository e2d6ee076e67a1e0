//! Short helpers: a program that runs for a moment, to see whether it works or what it says. One runner for all of them:
//! bounded in time and output, its input given beforehand, ended as a tree when it is over its bounds.
//!
//! A daemon has its keeper fork them: what they run may be foreign (a filter of git, a profile, an agent's program), and
//! whatever comes from it is hosted. They are in no list and no journal. These block: not for the threads that doors live on.

mod git;
mod here;
mod kept;

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, Instant};

use ostler_story::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

pub(crate) use kept::Kept;

use crate::lookup::executable;
use crate::process::Registry;

/// One read from the pipe; as much as a pipe holds.
const CHUNK: usize = 64 << 10;
/// How long one that was killed may take to be gone: its answer is not waited for any longer.
const KILLED_WITHIN: Duration = Duration::from_secs(2);
/// What is asked of a helper that only says something fits many times over.
const SAID_MAX: usize = 64 << 10;

/// Who forks a helper: the keeper of an engine, or this process. The latter is for a command line, whose helpers are its
/// user's, never for a daemon.
#[derive(Debug, Clone, Default)]
pub struct Forker(Option<Weak<Registry>>);

/// A helper to be run.
#[derive(Debug)]
pub struct Brief {
    /// The file that is executed.
    pub program: PathBuf,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What it can read.
    pub stdin: Vec<u8>,
    /// What it says on stderr counts, in the order in which it is said; else that is lost.
    pub with_stderr: bool,
    /// How long it may take.
    pub within: Duration,
    /// How long it may take to end when asked to, before it is killed; zero: it is not asked.
    pub grace: Duration,
    /// Most bytes of output that are kept.
    pub max: usize,
    /// What happens when it says more.
    pub beyond: Beyond,
    /// What it leaves running ends with it.
    pub leaves_nothing: bool,
}

/// What happens to a helper that says more than anybody wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// The rest is thrown away.
    IsDropped,
    /// It is ended.
    Ends,
}

/// How a helper ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited(Exit),
    /// Killed, because its time was over.
    TimedOut,
    /// Killed, because it said too much.
    TooMuch,
}

impl Ended {
    /// It did what it was asked for.
    pub fn well(self) -> bool {
        self == Ended::Exited(Exit::Code(0))
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Exited(Exit::Code(code)) => write!(f, "exit status: {code}"),
            Ended::Exited(Exit::Signal(signal)) => write!(f, "signal: {signal}"),
            Ended::Exited(Exit::Unknown) => f.write_str("an end that nobody saw"),
            Ended::TimedOut => f.write_str("no end in time"),
            Ended::TooMuch => f.write_str("too much output"),
        }
    }
}

/// A helper that ran.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// What it said.
    pub said: Vec<u8>,
}

impl Brief {
    /// This program of the daemon's environment, which says something on both outputs.
    pub fn new(program: impl Into<PathBuf>, args: &[&str], within: Duration) -> Self {
        Brief {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            stdin: Vec::new(),
            with_stderr: true,
            within,
            grace: Duration::ZERO,
            max: SAID_MAX,
            beyond: Beyond::IsDropped,
            leaves_nothing: false,
        }
    }

    /// Sets a variable of its environment.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.env.retain(|(other, _)| other != name);
        self.env.push((name.into(), value.into()));
    }

    /// A file that holds what it can read; nothing where that is nothing.
    fn input(&self) -> io::Result<Option<OwnedFd>> {
        if self.stdin.is_empty() {
            return Ok(None);
        }
        let mut file = std::fs::File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
        io::Write::write_all(&mut file, &self.stdin)?;
        io::Seek::rewind(&mut file)?;
        Ok(Some(file.into()))
    }
}

impl Forker {
    /// This process.
    pub fn here() -> Self {
        Self(None)
    }

    /// The keeper of this engine.
    pub(crate) fn keeper(registry: Weak<Registry>) -> Self {
        Self(Some(registry))
    }

    /// Runs a helper to its end, or to the end of its time. An error: it never ran, or nobody knows what became of it.
    pub fn run(&self, brief: &Brief) -> io::Result<Ran> {
        match &self.0 {
            None => here::run(brief),
            Some(registry) => match registry.upgrade() {
                Some(registry) => registry.run(brief),
                None => Err(io::Error::other("ostler is stopping")),
            },
        }
    }

    /// Whether the program exits with status 0, in time, when given one argument.
    pub fn runs(&self, program: &Path, argument: &str, within: Duration) -> bool {
        self.run(&Brief::new(program, &[argument], within)).is_ok_and(|ran| ran.ended.well())
    }

    /// What a program of our PATH prints in time, on both outputs, whatever its status.
    pub fn says(&self, program: &str, args: &[&str], within: Duration) -> Option<Vec<u8>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = executable(OsStr::new(program), &path).ok()?;
        let ran = self.run(&Brief::new(program, args, within)).ok()?;
        (ran.ended != Ended::TimedOut).then_some(ran.said)
    }
}

/// A helper that was started.
trait Running {
    /// Readable once it has ended.
    fn over(&self) -> BorrowedFd<'_>;
    /// Asks it and its group to end.
    fn ask(&self);
    /// Kills it and all that it started.
    fn kill(&self);
}

/// Reads until the helper itself has ended: what it left running may keep the pipe open for as long as it likes. One that is
/// over its bounds is ended.
fn see_through(brief: &Brief, running: &impl Running, mut pipe: PipeReader) -> io::Result<(Option<Ended>, Vec<u8>)> {
    let mut said = Vec::new();
    let over = collect(brief, running, &mut pipe, &mut said);
    match &over {
        Ok(None) if brief.leaves_nothing => running.kill(),
        Ok(None) => {}
        Ok(Some(_)) | Err(_) => {
            if !brief.grace.is_zero() {
                running.ask();
                let _ = poll_until(&mut [PollFd::from_borrowed_fd(running.over(), PollFlags::IN)], brief.grace);
            }
            running.kill();
            let _ = poll_until(&mut [PollFd::from_borrowed_fd(running.over(), PollFlags::IN)], KILLED_WITHIN);
        }
    }
    Ok((over?, said))
}

/// Takes what a helper says; gives why it has to be ended, if it did not end by itself.
fn collect(
    brief: &Brief,
    running: &impl Running,
    pipe: &mut PipeReader,
    said: &mut Vec<u8>,
) -> io::Result<Option<Ended>> {
    rustix::io::ioctl_fionbio(&*pipe, true)?;
    let deadline = Instant::now() + brief.within;
    let mut chunk = vec![0; CHUNK];
    let mut open = true;
    loop {
        let mut watched = vec![PollFd::from_borrowed_fd(running.over(), PollFlags::IN)];
        if open {
            watched.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !poll_until(&mut watched, left)? {
            return Ok(Some(Ended::TimedOut));
        }
        // Looked at before the pipe: what it wrote before its end is still read.
        let ended = watched.first().is_some_and(|over| !over.revents().is_empty());
        while open {
            let room = brief.max.saturating_sub(said.len());
            match pipe.read(&mut chunk) {
                Ok(0) => open = false,
                Ok(count) if count > room && brief.beyond == Beyond::Ends => return Ok(Some(Ended::TooMuch)),
                Ok(count) => said.extend(chunk.iter().take(count.min(room))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            // Somebody else may go on for ever.
            if said.len() >= brief.max {
                break;
            }
        }
        if ended {
            return Ok(None);
        }
    }
}

/// Waits until a descriptor is ready; false when it takes too long.
fn poll_until(watched: &mut [PollFd<'_>], within: Duration) -> Result<bool, Errno> {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(watched, Some(&Timespec::try_from(left).unwrap_or_default())) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests;
