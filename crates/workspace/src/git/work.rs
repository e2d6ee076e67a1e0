//! A work tree as its people work in it: what has changed, staged, committed, where it came from and goes to.
//!
//! All paths, in and out, are from the workspace's own root on, and nothing outside of it is shown or touched, also where the
//! repository is larger. Looking runs nothing that the repository names; changing runs git as its user would, filters and hooks
//! included, and is for those who have that right. What takes its time or runs hooks is not run here: [`HostedGit`] says how.

mod branches;
mod diff;
mod discard;
mod error;
mod finish;
mod hosted;
mod kept;
mod log;
mod merge;
mod patch;
mod path;
mod porcelain;
mod refs;
mod remotes;
mod stage;
mod stash;
mod status;
mod tracked;
mod trees;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use branches::BranchInfo;
pub use diff::{DIFF_FILE_MAX, DIFF_MAX, DiffOf, Diffs, FileDiff, Patch};
pub use discard::{Discard, Discarded};
pub use error::GitError;
pub use finish::{Forge, Proposal};
pub use hosted::{Commit, Fetch, HostedGit, Merge, Pull, PullHow, Push, SwitchTo};
pub use kept::{KEEP_FOR, KEEP_MAX, KeptChanges};
pub use log::{LOG_MAX, LogEntry};
pub use porcelain::{Branch, Change, Porcelain};
pub use remotes::Remote;
pub use stash::{StashEntry, StashTake};
pub use status::{LineCounts, Operation, Status, Untracked};
pub use trees::Tree;

use super::guarded::LeftOut;
use super::{Git, GitCommand, GitRan, RunError, set};
use crate::beneath::Root;

/// Every path is that path, whatever it looks like.
const LITERAL: &str = "GIT_LITERAL_PATHSPECS";
/// Looking at a large repository on a cold disk.
const LOOK: Duration = Duration::from_secs(30);
/// Changing the index of one, with filters.
const CHANGE: Duration = Duration::from_secs(120);
/// How long another program's lock is waited for, and how often it is tried.
const LOCKED: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(50));

/// A work tree, or the part of it beneath a root.
#[derive(Debug)]
pub struct WorkTree {
    /// For looking: nothing that the repository names runs.
    looks: Git,
    /// For changing, as its user would.
    acts: Git,
    root: Root,
    top: PathBuf,
    prefix: Vec<u8>,
    git_dir: PathBuf,
    common_dir: PathBuf,
    left_out: LeftOut,
}

impl WorkTree {
    /// The work tree around a root. `git` is asked about that root.
    pub fn open(git: &Git, root: Root) -> Result<Self, GitError> {
        let mut looks = Git { dir: root.path().to_owned(), ..git.clone() };
        for (name, value) in [("LC_ALL", "C"), (LITERAL, "1"), ("GIT_EDITOR", ":"), ("GIT_PAGER", "cat")] {
            set(&mut looks.env, name, value);
        }
        let acts = looks.clone();
        let (folders, named) = at_once(|| Folders::find(&looks, root.path()), &|| looks.named_programs());
        let Folders { top, git_dir, common_dir, prefix } = folders?;
        let named = named?;
        let left_out = LeftOut::of(&named);
        let looks = looks.guarded_against(&named);
        Ok(Self { looks, acts, root, top, prefix, git_dir, common_dir, left_out })
    }

    /// The root that it was opened for.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The top of the whole work tree.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// What all work trees of the repository share: two with the same must not be changed at once.
    pub fn repository(&self) -> &Path {
        &self.common_dir
    }

    /// A path from the top of the work tree on, as one from the root on; nothing outside of it.
    fn beneath_root(&self, path: &[u8]) -> Option<PathBuf> {
        path.strip_prefix(self.prefix.as_slice()).map(|path| PathBuf::from(OsStr::from_bytes(path)))
    }

    /// Looks; what git printed.
    fn look<S: AsRef<OsStr>>(&self, what: &'static str, args: &[S]) -> Result<Vec<u8>, GitError> {
        tell(&self.looks, what, args)
    }

    /// A question that git answers with yes or no; what it printed, for a yes.
    fn asks<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Option<Vec<u8>>, GitError> {
        let ran = run(&self.looks, args, |command| GitCommand { within: LOOK, ..command })?;
        Ok(ran.success.then_some(ran.output))
    }

    /// Changes the whole work tree. Git itself has patterns in what it runs for that, which must not be literal.
    fn act_on_all<S: AsRef<OsStr>>(&self, what: &'static str, args: &[S]) -> Result<Vec<u8>, GitError> {
        let mut git = self.acts.clone();
        git.env.retain(|(name, _)| name != LITERAL);
        act(&git, what, args, Vec::new())
    }

    /// Changes something, with what git may read.
    fn act<S: AsRef<OsStr>>(&self, what: &'static str, args: &[S], stdin: Vec<u8>) -> Result<Vec<u8>, GitError> {
        act(&self.acts, what, args, stdin)
    }
}

/// Where git finds the work tree around a folder.
struct Folders {
    top: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    prefix: Vec<u8>,
}

impl Folders {
    fn find(git: &Git, root: &Path) -> Result<Self, GitError> {
        const WHAT: [&str; 4] = ["--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix"];
        const IS: [&str; 4] = ["rev-parse", "--path-format=absolute", "--is-inside-work-tree", "--is-bare-repository"];
        let ran = run(git, &[IS, WHAT].concat(), |command| GitCommand { within: LOOK, ..command })?;
        let lines: Vec<&[u8]> = ran.output.split(|byte| *byte == b'\n').collect();
        let told = match lines.as_slice() {
            &[b"true", b"false", top, git_dir, common_dir, prefix, b""] if ran.success => {
                [top, git_dir, common_dir, prefix].map(<[u8]>::to_vec)
            }
            _ => Self::one_by_one(git, root, WHAT)?,
        };
        let [top, git_dir, common_dir, prefix] = told;
        let path = |bytes| PathBuf::from(OsString::from_vec(bytes));
        Ok(Self { top: path(top), git_dir: path(git_dir), common_dir: path(common_dir), prefix })
    }

    /// There is none, or one of its paths holds a line end.
    fn one_by_one(git: &Git, root: &Path, what: [&str; 4]) -> Result<[Vec<u8>; 4], GitError> {
        let is = ["rev-parse", "--is-inside-work-tree", "--is-bare-repository"];
        let said = tell(git, "rev-parse", &is).map_err(|error| error.not_a_repository(root))?;
        match said.as_slice() {
            b"true\nfalse\n" => {}
            b"false\ntrue\n" => return Err(GitError::Bare(root.to_owned())),
            _ => return Err(GitError::NotARepository(root.to_owned())),
        }
        let line = |what: &str| -> Result<Vec<u8>, GitError> {
            let said = tell(git, "rev-parse", &["rev-parse", "--path-format=absolute", what])?;
            Ok(said.strip_suffix(b"\n").unwrap_or(&said).to_vec())
        };
        let [top, git_dir, common_dir, prefix] = what.map(line);
        Ok([top?, git_dir?, common_dir?, prefix?])
    }
}

/// Two questions to git, asked at the same time: each takes a process, and every look at a work tree begins with these.
fn at_once<A, B: Send>(one: impl FnOnce() -> A, other: &(impl Fn() -> B + Sync)) -> (A, B) {
    std::thread::scope(|scope| {
        let beside = std::thread::Builder::new().name("git".into()).spawn_scoped(scope, other);
        let one = one();
        let asked = beside.ok().and_then(|thread| thread.join().ok());
        (one, asked.unwrap_or_else(other))
    })
}

/// A look with its output; if git says no, with what it said.
fn tell<S: AsRef<OsStr>>(git: &Git, what: &'static str, args: &[S]) -> Result<Vec<u8>, GitError> {
    let ran = run(git, args, |command| GitCommand { within: LOOK, ..command })?;
    if ran.success {
        return Ok(ran.output);
    }
    // Looked at once more, for the reason.
    let again = run(git, args, |command| GitCommand { within: LOOK, with_stderr: true, ..command })?;
    Err(GitError::said(what, &again.output))
}

/// A change. A lock of another program is waited for a moment, and named if it stays.
fn act<S: AsRef<OsStr>>(git: &Git, what: &'static str, args: &[S], stdin: Vec<u8>) -> Result<Vec<u8>, GitError> {
    let until = Instant::now() + LOCKED.0;
    loop {
        let command = git.command(args.iter().map(AsRef::as_ref))?;
        let command = GitCommand { within: CHANGE, with_stderr: true, stdin: stdin.clone(), ..command };
        let ran = git.runner.run_git(command)?;
        if ran.success {
            return Ok(ran.output);
        }
        let error = GitError::said(what, &ran.output);
        if !matches!(error, GitError::Locked(_)) || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(LOCKED.1);
    }
}

fn run<S: AsRef<OsStr>>(git: &Git, args: &[S], with: impl Fn(GitCommand) -> GitCommand) -> Result<GitRan, RunError> {
    let mut command = with(git.command(args.iter().map(AsRef::as_ref))?);
    set(&mut command.env, "GIT_OPTIONAL_LOCKS", "0");
    git.runner.run_git(command)
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod battery_tests;
#[cfg(test)]
mod discard_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
