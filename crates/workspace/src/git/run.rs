//! One git command: put together here, run to its end or to its deadline by whoever is given for that.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{DEADLINE, Git, set};

/// Most bytes taken from one command: a million changed files and more.
const MAX_OUTPUT: usize = 64 << 20;

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

/// A git command, whole.
#[derive(Debug)]
pub struct GitCommand {
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
    /// What it says on stderr counts too.
    pub with_stderr: bool,
    /// How long it may take.
    pub within: Duration,
    /// How long it may take to end when asked to.
    pub grace: Duration,
    /// Most bytes that it may say.
    pub output_max: usize,
}

/// A git command that ran to its end.
#[derive(Debug)]
pub struct GitRan {
    /// It exited with status 0.
    pub success: bool,
    /// What it printed.
    pub output: Vec<u8>,
}

/// Runs git: with no input but what it is given and no terminal, in a group of its own, ended with all that it started when it is over its bounds.
pub trait RunGit: std::fmt::Debug + Send + Sync {
    /// Runs a command to its end; what it leaves in the background is not waited for.
    fn run_git(&self, command: GitCommand) -> Result<GitRan, RunError>;
}

impl GitRan {
    pub(super) fn into_success(self, what: &'static str) -> Result<Vec<u8>, RunError> {
        if self.success { Ok(self.output) } else { Err(RunError::Failed { what, said: self.output }) }
    }
}

impl Git {
    /// A command that only looks, with its standard output. It takes no lock that a person's own git
    /// could stumble over.
    pub(super) fn query<I, S>(&self, args: I) -> Result<GitRan, RunError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command(args)?;
        set(&mut command.env, "GIT_OPTIONAL_LOCKS", "0");
        self.runner.run_git(command)
    }

    /// A command that changes something: all that it prints, in the order printed.
    pub(super) fn change<I, S>(&self, args: I) -> Result<GitRan, RunError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let command = self.command(args)?;
        self.runner.run_git(GitCommand { with_stderr: true, ..command })
    }

    pub(super) fn command<I, S>(&self, args: I) -> Result<GitCommand, RunError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let here = ["-C".into(), self.dir.clone().into_os_string()];
        // Not where the daemon happens to be, unless that is what is asked about.
        let cwd = if self.dir.is_absolute() { "/".into() } else { std::env::current_dir()? };
        Ok(GitCommand {
            program: self.program.clone().ok_or(RunError::NotFound)?,
            args: here.into_iter().chain(args.into_iter().map(|arg| arg.as_ref().to_owned())).collect(),
            env: self.env.clone(),
            cwd,
            stdin: Vec::new(),
            with_stderr: false,
            within: DEADLINE,
            grace: GRACE,
            output_max: MAX_OUTPUT,
        })
    }
}
