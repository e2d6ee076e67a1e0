//! `git.*`: the repository around a workspace. Paths are from the workspace's root on, and nothing outside of it is shown or
//! touched. What runs hooks is answered with the hosted process that does it: watch it with `process.attach`.

use crate::path::FilePath;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// How files that git does not know are listed.
    pub enum GitUntracked {
        No = "no",
        /// A folder of them as one.
        Folders = "folders",
        /// Each file.
        All = "all",
    }

    /// What git is in the middle of.
    pub enum GitOperation {
        Merge = "merge",
        Rebase = "rebase",
        CherryPick = "cherry_pick",
        Revert = "revert",
        Bisect = "bisect",
    }

    /// What is compared with what.
    pub enum GitDiffOf {
        /// The work tree with the index, new files too.
        Unstaged = "unstaged",
        /// The index with the last commit.
        Staged = "staged",
        /// `commit` with the one before it.
        Commit = "commit",
        /// The work tree with `commit`, new files too.
        Since = "since",
    }

    /// How commits of others and ours come together.
    pub enum GitPullHow {
        Rebase = "rebase",
        Merge = "merge",
        FastForward = "fast_forward",
    }

    /// What to do with changes that were put aside.
    pub enum GitStashTake {
        /// Put them back and forget them.
        Pop = "pop",
        /// Put them back and keep them.
        Apply = "apply",
        /// Forget them.
        Drop = "drop",
    }
}

wire! {
    /// Which workspace: its absolute path, or the session that works in it.
    pub struct GitParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
    }

    pub struct GitStatusParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// `folders` when left out.
        pub untracked: Option<GitUntracked>,
        /// Also count lines.
        #[serde(default)]
        pub lines: bool,
    }

    /// How a work tree stands.
    pub struct GitStatus {
        /// The top of the work tree.
        pub top: String,
        /// The branch; absent where a commit is checked out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<FilePath>,
        /// What is checked out; absent before the first commit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub commit: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub upstream: Option<FilePath>,
        /// Commits that the upstream does not have; absent where it is gone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ahead: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub behind: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub operation: Option<GitOperation>,
        /// Its history is cut off.
        #[serde(default)]
        pub shallow: bool,
        pub staged: Vec<GitChange>,
        pub unstaged: Vec<GitChange>,
        /// A folder of them ends with a slash.
        pub untracked: Vec<FilePath>,
        pub conflicted: Vec<GitChange>,
        /// A list is longer than 10,000 entries, and cut there.
        #[serde(default)]
        pub cut: bool,
        /// Filters that only the repository names. They were not run: a file that they would change may look changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub filters_left_out: Vec<String>,
    }

    /// One path that differs.
    pub struct GitChange {
        pub path: FilePath,
        /// Where it was, if it was renamed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub from: Option<FilePath>,
        /// Git's letter; for a conflict both.
        pub status: String,
        #[serde(default)]
        pub submodule: bool,
        /// Lines that came; absent where nobody asked, and for what is no text.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub added: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub removed: Option<u64>,
    }

    pub struct GitDiffParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// `unstaged` when left out.
        pub of: Option<GitDiffOf>,
        /// A branch, a tag, `HEAD`, or a hash.
        pub commit: Option<String>,
        /// Only this file, or what is beneath this folder.
        pub path: Option<FilePath>,
        /// Only what the files hold, without the user's `textconv`: as hunks are staged.
        #[serde(default)]
        pub plain: bool,
    }

    pub struct GitDiff {
        pub files: Vec<GitFileDiff>,
        /// There are more files than are listed.
        pub cut: bool,
        /// Filters and drivers of differences that were not run: those that only the repository names, and all that draw in
        /// a form of their own. A file that they are for may look different.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub filters_left_out: Vec<String>,
    }

    /// The difference of one file.
    pub struct GitFileDiff {
        pub path: FilePath,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub from: Option<FilePath>,
        /// Git's letter; `?` for a file that git does not know.
        pub status: String,
        #[serde(default)]
        pub submodule: bool,
        #[serde(default)]
        pub binary: bool,
        /// Git's own form; absent for what is no text or too much.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub patch: Option<String>,
        /// The same in base64, where it is not UTF-8.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub patch_data: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub added: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub removed: Option<u64>,
        /// It is too much and left out.
        #[serde(default)]
        pub cut: bool,
        /// How much it is, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bytes: Option<u64>,
    }

    pub struct GitPathsParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub paths: Vec<FilePath>,
    }

    /// Hunks for the index.
    pub struct GitPatchParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// Git's own form, as `git.diff` gives it when `plain`; or else `patch_data`.
        pub patch: Option<String>,
        /// In base64.
        pub patch_data: Option<String>,
        /// Take them back out of the index.
        #[serde(default)]
        pub reverse: bool,
        /// Two requests with the same key are one.
        pub key: Option<String>,
    }

    /// Changes to be thrown away.
    pub struct GitDiscardParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub paths: Vec<FilePath>,
        /// Also what is staged of them.
        #[serde(default)]
        pub staged: bool,
        /// Nothing need be kept. Left out, everything is kept for a day, and more than 64 MiB is refused.
        #[serde(default)]
        pub without_keeping: bool,
    }

    pub struct GitDiscarded {
        pub paths: Vec<FilePath>,
        /// `git.restore` with this id puts it back.
        pub kept: Option<GitKept>,
    }

    /// Changes that were thrown away and can be put back.
    pub struct GitKept {
        pub id: String,
        pub root: String,
        pub paths: Vec<FilePath>,
        pub bytes: u64,
        pub discarded: Timestamp,
        pub until: Timestamp,
    }

    pub struct GitKeptList {
        pub kept: Vec<GitKept>,
    }

    pub struct GitRestoreParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub id: String,
    }

    pub struct GitPaths {
        pub paths: Vec<FilePath>,
    }

    pub struct GitCommitParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// Left out with `amend`: the last commit's words stay.
        pub message: Option<String>,
        #[serde(default)]
        pub amend: bool,
        #[serde(default)]
        pub sign_off: bool,
        /// Two requests with the same key start one process.
        pub key: Option<String>,
    }

    pub struct GitPushParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// As the branch is set up when left out.
        pub remote: Option<String>,
        pub branch: Option<String>,
        #[serde(default)]
        pub set_upstream: bool,
        /// Also where that drops commits there, if they are those that are known here.
        #[serde(default)]
        pub force: bool,
        pub key: Option<String>,
    }

    pub struct GitPullParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub remote: Option<String>,
        pub branch: Option<String>,
        /// As the user has set it up when left out.
        pub how: Option<GitPullHow>,
        pub key: Option<String>,
    }

    pub struct GitFetchParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// From every remote when left out.
        pub remote: Option<String>,
        #[serde(default)]
        pub prune: bool,
        pub key: Option<String>,
    }

    /// What to check out: a branch, a new one (`create`), or a commit (`detach`).
    pub struct GitSwitchParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub name: FilePath,
        #[serde(default)]
        pub create: bool,
        /// With `create`: where it begins.
        pub start: Option<String>,
        #[serde(default)]
        pub detach: bool,
        pub key: Option<String>,
    }

    pub struct GitMergeParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// A branch, a tag or a hash.
        pub name: FilePath,
        /// Only without a commit of its own (true), or always with one (false).
        pub fast_forward: Option<bool>,
        pub message: Option<String>,
        pub key: Option<String>,
    }

    pub struct GitBranchList {
        /// Those of remotes behind ours.
        pub branches: Vec<GitBranch>,
    }

    pub struct GitBranch {
        pub name: FilePath,
        /// It is a remote's.
        pub remote: bool,
        /// It is checked out here.
        pub current: bool,
        pub commit: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub upstream: Option<FilePath>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ahead: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub behind: Option<u64>,
        /// When its newest commit was made.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub time: Option<Timestamp>,
        /// The work tree that has it checked out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub worktree: Option<FilePath>,
    }

    pub struct GitBranchCreateParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub name: FilePath,
        /// What is checked out when left out.
        pub start: Option<String>,
    }

    pub struct GitBranchDeleteParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub name: FilePath,
        /// Also with commits of its own.
        #[serde(default)]
        pub force: bool,
    }

    pub struct GitLogParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// Commits that led to this; to what is checked out when left out.
        pub from: Option<String>,
        /// Only those that changed it.
        pub path: Option<FilePath>,
        #[serde(default)]
        pub skip: u64,
        /// At most so many, up to 500; 0 for 50.
        #[serde(default)]
        pub limit: u32,
    }

    pub struct GitLog {
        /// Newest first.
        pub commits: Vec<GitCommit>,
    }

    pub struct GitCommit {
        pub commit: String,
        pub parents: Vec<String>,
        pub author: String,
        pub email: String,
        /// When it was written.
        pub time: Timestamp,
        /// When it became a commit.
        pub committed: Timestamp,
        pub subject: String,
        /// The rest of its message, up to 16 KiB.
        #[serde(default)]
        pub body: String,
    }

    pub struct GitStashList {
        /// Newest first.
        pub stashes: Vec<GitStashed>,
    }

    /// Changes that were put aside.
    pub struct GitStashed {
        /// Names them.
        pub commit: String,
        pub time: Timestamp,
        pub message: String,
    }

    pub struct GitStashParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub message: Option<String>,
        /// Also files that git does not know.
        #[serde(default)]
        pub untracked: bool,
        pub key: Option<String>,
    }

    pub struct GitStashTakeParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub commit: String,
        pub how: GitStashTake,
        pub key: Option<String>,
    }

    pub struct GitRemoteList {
        pub remotes: Vec<GitRemote>,
    }

    pub struct GitRemote {
        pub name: FilePath,
        /// Without a password.
        pub url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub push_url: Option<String>,
    }

    pub struct GitRemoteAddParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub name: String,
        pub url: String,
    }

    pub struct GitRemoteRemoveParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub name: FilePath,
    }

    pub struct GitWorktreeList {
        /// The main one first.
        pub worktrees: Vec<GitWorktree>,
    }

    pub struct GitWorktree {
        pub path: FilePath,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub commit: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<FilePath>,
        #[serde(default)]
        pub bare: bool,
        #[serde(default)]
        pub locked: bool,
        /// Its folder is gone.
        #[serde(default)]
        pub gone: bool,
        /// Sessions that work in it and are not closed.
        #[serde(default)]
        pub sessions: Vec<String>,
    }
}
