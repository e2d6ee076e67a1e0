//! What happens in a workspace that nobody's journal tells: files that are different, git that stands elsewhere, what was done with
//! it. Nothing else keeps these, so the feed's entry says all of it; the files and git themselves are the truth.

use ostler_story::FilePath;
use serde::{Deserialize, Serialize};

use super::Kind;

/// One thing that happened in a workspace. Paths are from its folder on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    /// A file is not what it was.
    File(FileChange),
    /// The differences of a file that git knows are not what they were.
    Diff {
        /// The file.
        path: FilePath,
    },
    /// Git stands elsewhere: a branch, an index, a remote.
    Git(GitStands),
    /// Something was done with git, or could not be.
    Done(GitDone),
    /// More happened than could be told: whoever watches looks anew.
    Missed {},
    /// It is watched from here on, or not any more: what happened before, or happens then, nobody saw.
    Watch {
        /// It is.
        on: bool,
        /// Why it ended; or why it is only looked every few seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

/// How a file is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileIs {
    /// It is new.
    Created,
    /// It says something else.
    Modified,
    /// It is gone.
    Deleted,
    /// It is called something else.
    Renamed,
}

/// A file that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file.
    pub path: FilePath,
    /// How.
    pub is: FileIs,
    /// Its bytes, while it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<FilePath>,
}

/// Where git stands, in a few figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitStands {
    /// The branch; the commit where there is none.
    pub branch: FilePath,
    /// The commit that is checked out; nothing before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Commits that its upstream does not have.
    pub ahead: u64,
    /// Commits that only its upstream has.
    pub behind: u64,
    /// Files whose changes are staged.
    pub staged: u64,
    /// Files whose changes are not.
    pub unstaged: u64,
    /// Files that git does not know.
    pub untracked: u64,
    /// Two sides changed the same.
    pub conflicts: bool,
    /// The files that are different, as many as are told.
    pub files: Vec<FilePath>,
}

/// What was done with git.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitDone {
    /// Git's own word for it.
    pub operation: String,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For people.
    pub message: String,
    /// The commit that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files that it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Commits that others have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed: Option<u64>,
    /// Commits of others that are here now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulled: Option<u64>,
    /// Files that two sides changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicted: Vec<String>,
    /// The branch that is checked out now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

impl Happened {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::File(_) | Self::Missed {} => Kind::FileChanged,
            Self::Diff { .. } => Kind::DiffChanged,
            Self::Git(_) => Kind::GitChanged,
            Self::Done(_) => Kind::GitDone,
            Self::Watch { .. } => Kind::WatchChanged,
        }
    }
}
