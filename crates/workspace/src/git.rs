//! The git repository around a directory, seen and changed through the `git` executable; only what is checked out is
//! also read without it.
//!
//! What could run a program that the repository names runs guarded (`guarded`), whoever asks. Values from outside reach a command line only where git cannot take them for options. Nothing
//! waits for a terminal, and every command has a deadline after which its whole group is killed.

mod changes;
mod checked_out;
mod guarded;
mod info;
mod kept_commits;
mod run;
mod slug;
mod status;
pub mod work;
mod worktree;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use changes::Changes;
pub use checked_out::checked_out;
pub use guarded::Left;
pub use info::{Head, Info};
pub use run::{GitCommand, GitRan, RunError, RunGit};
pub use worktree::{Created, NewWorktree, WorktreeError};

/// Longest that one git command may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Variables that point git at another repository than the one it is asked about.
const LOCATION: [&str; 9] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// The git executable, and the directory it is asked about.
#[derive(Debug, Clone)]
pub struct Git {
    program: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    dir: PathBuf,
    runner: Arc<dyn RunGit>,
    /// Nothing that the repository names is run.
    guarded: bool,
}

impl Git {
    /// Git as found in `path`, run with the variables `env`, for the repository around `dir` (the
    /// current directory when empty), by `runner`.
    pub fn new(dir: &Path, path: &OsStr, env: &[(OsString, OsString)], runner: Arc<dyn RunGit>) -> Self {
        let mut env: Vec<_> =
            env.iter().filter(|(name, _)| name != "PATH" && !LOCATION.iter().any(|own| name == own)).cloned().collect();
        env.push(("PATH".into(), path.into()));
        set(&mut env, "GIT_TERMINAL_PROMPT", "0");
        Git { program: find(path), env, dir: dir.to_owned(), runner, guarded: false }.quiet()
    }

    /// Whether the directory lies in a work tree; a bare repository and a `.git` directory do not.
    pub fn is_repo(&self) -> bool {
        self.line(["rev-parse", "--is-inside-work-tree"]).is_some_and(|answer| answer == b"true")
    }

    /// Local branches in byte order; `None` outside a repository.
    pub fn branches(&self) -> Result<Option<Vec<OsString>>, RunError> {
        if !self.is_repo() {
            return Ok(None);
        }
        let listed =
            self.query(["for-each-ref", "--format=%(refname)", "refs/heads/"])?.into_success("for-each-ref")?;
        let mut names: Vec<OsString> = listed
            .split(|&byte| byte == b'\n')
            .filter_map(|line| line.strip_prefix(b"refs/heads/"))
            .map(|name| OsStr::from_bytes(name).to_owned())
            .collect();
        names.sort_unstable();
        Ok(Some(names))
    }

    /// The output of a query without its line end, if git could answer it.
    fn line<const N: usize>(&self, args: [&str; N]) -> Option<Vec<u8>> {
        let ran = self.query(args).ok()?;
        let mut text = ran.success.then_some(ran.output)?;
        while text.last() == Some(&b'\n') {
            text.pop();
        }
        Some(text)
    }
}

/// Sets a variable, which is there once.
fn set(env: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    env.retain(|(known, _)| known != name);
    env.push((name.into(), value.into()));
}

/// The first `git` that can be run in a list of directories. Relative ones are not searched: they
/// would mean whatever directory the daemon happens to be in.
fn find(path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("git"))
        .find(|file| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests;
