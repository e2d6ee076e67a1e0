//! What runs hooks, asks other machines, or changes many files: a command line for a hosted process, which has a journal, can be
//! watched and stopped, and holds nobody up. Every name in it was looked up first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::{GitError, WorkTree};

/// Nobody is there to be asked: no prompt, no pager, no editor.
const ALONE: [(&str, &str); 6] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GIT_EDITOR", ":"),
    ("GIT_SEQUENCE_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
];
/// A message is an argument, and one argument has 128 KiB.
const MESSAGE_MAX: usize = 64 << 10;

/// A git command for a hosted process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedGit {
    /// The file that is executed.
    pub program: PathBuf,
    /// Its arguments, without the program.
    pub args: Vec<OsString>,
    /// Variables on top of its user's.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that would lead it to another repository.
    pub without: &'static [&'static str],
    /// Where it runs.
    pub cwd: PathBuf,
}

/// A commit of what is staged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commit<'a> {
    /// What it says; the last commit's words where that is changed and nothing is given.
    pub message: Option<&'a str>,
    /// Instead of the last commit, whose author it keeps.
    pub amend: bool,
    /// Signed off by its committer.
    pub sign_off: bool,
}

/// Commits to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Push<'a> {
    /// Where; as the branch is set up when nothing is given.
    pub remote: Option<&'a OsStr>,
    /// Which branch; the one that is checked out when nothing is given.
    pub branch: Option<&'a OsStr>,
    /// The branch follows that one from now on.
    pub set_upstream: bool,
    /// Also where that drops commits there, if they are those that we know.
    pub force: bool,
}

/// How commits of others and ours come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullHow {
    /// As the user has set it up.
    AsSetUp,
    /// Ours on top of theirs.
    Rebase,
    /// By a merge.
    Merge,
    /// Only where ours are none.
    FastForward,
}

/// Commits to be fetched and taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull<'a> {
    /// From where; as the branch is set up when nothing is given.
    pub remote: Option<&'a OsStr>,
    /// Which branch of it.
    pub branch: Option<&'a OsStr>,
    /// How.
    pub how: PullHow,
}

/// Commits to be fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// From where; from everywhere when nothing is given.
    pub remote: Option<&'a OsStr>,
    /// Branches that are gone there are forgotten here.
    pub prune: bool,
}

/// What to check out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchTo<'a> {
    /// A branch that there is; one that only a remote has is made, and follows it.
    Branch(&'a OsStr),
    /// A new one, at a commit or at what is checked out.
    New {
        /// Its name.
        name: &'a OsStr,
        /// Where it begins.
        start: Option<&'a OsStr>,
    },
    /// A commit, without a branch.
    Commit(&'a OsStr),
}

/// Another branch or commit to be taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge<'a> {
    /// Which.
    pub name: &'a OsStr,
    /// A commit also where none is needed (`true`), or never one (`false`).
    pub fast_forward: Option<bool>,
    /// What the commit says.
    pub message: Option<&'a str>,
}

impl WorkTree {
    /// Commits what is staged.
    pub fn commit_command(&self, commit: &Commit<'_>) -> Result<HostedGit, GitError> {
        self.whole()?;
        let mut args: Vec<OsString> = vec!["commit".into()];
        args.extend(commit.amend.then(|| "--amend".into()));
        args.extend(commit.sign_off.then(|| "--signoff".into()));
        match commit.message {
            Some(message) => args.push(message_of(message)?),
            None if commit.amend => args.push("--no-edit".into()),
            None => return Err(GitError::Asked("a commit needs a message")),
        }
        let status = self.status(super::Untracked::No)?;
        if !status.conflicted.is_empty() {
            return Err(GitError::Asked("files are in conflict: resolve and stage them first"));
        }
        let staged = status.changed.iter().any(|change| change.index != b'.');
        if !staged && !commit.amend && status.operation != Some(super::Operation::Merge) {
            return Err(GitError::Asked("nothing is staged"));
        }
        self.hosted(args)
    }

    /// Sends commits.
    pub fn push_command(&self, push: &Push<'_>) -> Result<HostedGit, GitError> {
        let mut args: Vec<OsString> = vec!["push".into(), "--porcelain".into()];
        args.extend(push.force.then(|| "--force-with-lease".into()));
        args.extend(push.set_upstream.then(|| "--set-upstream".into()));
        args.push("--".into());
        let branch = match push.branch {
            Some(name) => Some(self.branch_ref(name)?),
            None if push.remote.is_some() || push.set_upstream => Some(self.current()?),
            None => None,
        };
        match (push.remote, &branch) {
            (Some(remote), _) => args.push(self.remote(remote)?),
            (None, Some(_)) => args.push(self.usual_remote()?),
            (None, None) => {}
        }
        args.extend(branch.map(|whole| {
            let mut both = whole.clone();
            both.push(":");
            both.push(whole);
            both
        }));
        self.hosted(args)
    }

    /// Fetches and takes in.
    pub fn pull_command(&self, pull: &Pull<'_>) -> Result<HostedGit, GitError> {
        self.whole()?;
        let mut args: Vec<OsString> = vec!["pull".into(), "--no-edit".into()];
        args.extend(match pull.how {
            PullHow::AsSetUp => None,
            PullHow::Rebase => Some("--rebase".into()),
            PullHow::Merge => Some("--no-rebase".into()),
            PullHow::FastForward => Some("--ff-only".into()),
        });
        args.push("--".into());
        match (pull.remote, pull.branch) {
            (None, None) => {}
            (None, Some(_)) => return Err(GitError::Asked("a remote's branch needs its remote")),
            (Some(remote), branch) => {
                args.push(self.remote(remote)?);
                // It is the other's branch: only its form can be looked at here.
                args.extend(branch.map(|name| self.free_branch(name)).transpose()?);
            }
        }
        self.hosted(args)
    }

    /// Fetches.
    pub fn fetch_command(&self, fetch: &Fetch<'_>) -> Result<HostedGit, GitError> {
        let mut args: Vec<OsString> = vec!["fetch".into()];
        args.extend(fetch.prune.then(|| "--prune".into()));
        match fetch.remote {
            Some(remote) => args.extend(["--".into(), self.remote(remote)?]),
            None => args.push("--all".into()),
        }
        self.hosted(args)
    }

    /// Checks something else out.
    pub fn switch_command(&self, to: SwitchTo<'_>) -> Result<HostedGit, GitError> {
        self.whole()?;
        let args: Vec<OsString> = match to {
            SwitchTo::Branch(name) => match self.branch_ref(name) {
                Ok(_) => {
                    ["switch", "--no-guess", "--"].map(OsString::from).into_iter().chain([name.to_owned()]).collect()
                }
                Err(missing) => {
                    let theirs = self.remote_branch(name)?.ok_or(missing)?;
                    let create = ["switch".into(), "--create".into(), theirs.local];
                    create.into_iter().chain(["--track".into(), theirs.whole]).collect()
                }
            },
            SwitchTo::New { name, start } => {
                self.free_branch(name)?;
                let start = start.map(|start| self.commit(start)).transpose()?;
                let create = ["switch", "--no-track", "--create"].map(OsString::from);
                create.into_iter().chain([name.to_owned()]).chain(start.map(OsString::from)).collect()
            }
            SwitchTo::Commit(name) => ["switch", "--detach", &self.commit(name)?].map(OsString::from).to_vec(),
        };
        self.hosted(args)
    }

    /// Takes another branch or commit in.
    pub fn merge_command(&self, merge: &Merge<'_>) -> Result<HostedGit, GitError> {
        self.whole()?;
        let commit = self.commit(merge.name)?;
        let mut args: Vec<OsString> = vec!["merge".into(), "--no-edit".into()];
        args.extend(merge.fast_forward.map(|only| if only { "--ff-only".into() } else { "--no-ff".into() }));
        args.extend(merge.message.map(message_of).transpose()?);
        // By its name, which is in the commit's own words; looked up a moment ago.
        let name = self.branch_ref(merge.name).unwrap_or_else(|_| commit.into());
        args.extend(["--".into(), name]);
        self.hosted(args)
    }

    pub(super) fn hosted(&self, args: Vec<OsString>) -> Result<HostedGit, GitError> {
        let program = self.acts.program.clone().ok_or(super::RunError::NotFound)?;
        let env = ALONE.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let args = [OsString::from("--no-pager")].into_iter().chain(args).collect();
        Ok(HostedGit { program, args, env, without: &super::super::LOCATION, cwd: self.root().path().to_owned() })
    }

    /// The whole name of the branch that is checked out.
    pub(super) fn current(&self) -> Result<OsString, GitError> {
        let said = self.asks(&["symbolic-ref", "--quiet", "HEAD"])?;
        let name = said.as_deref().and_then(|said| said.strip_suffix(b"\n"));
        let name = name.filter(|name| name.starts_with(b"refs/heads/"));
        name.map(|name| OsStr::from_bytes(name).to_owned()).ok_or(GitError::Asked("no branch is checked out"))
    }

    /// Where commits go when nobody says where: the only remote, or `origin`.
    pub(super) fn usual_remote(&self) -> Result<OsString, GitError> {
        let remotes = self.remotes()?;
        let named = |name: &str| remotes.iter().find(|remote| remote.name == name);
        let found = if let [only] = remotes.as_slice() { Some(only) } else { named("origin") };
        found.map(|remote| remote.name.clone()).ok_or(GitError::Asked("say which remote to push to"))
    }
}

pub(super) fn message_of(message: &str) -> Result<OsString, GitError> {
    if message.trim().is_empty() {
        return Err(GitError::Asked("a commit needs a message"));
    }
    if message.len() > MESSAGE_MAX || message.contains('\0') {
        return Err(GitError::Asked("a message has at most 64 KiB, and no NUL"));
    }
    Ok(format!("--message={message}").into())
}
