//! `session.changes`: what a session changed, turn by turn, from what its agent's tools did and from git.

use crate::git::{GitCommit, GitDiff};
use crate::path::FilePath;
use crate::schema::wire;
use crate::time::Timestamp;

wire! {
    pub struct SessionChangesParams {
        pub id: String,
        /// Only this turn: the number of its prompt.
        pub turn: Option<u64>,
        /// Also what git knows: commits of each turn, and the difference since the session began.
        #[serde(default)]
        pub git: bool,
    }

    pub struct SessionChanges {
        /// Turns in which something was changed, oldest first.
        pub turns: Vec<TurnChanges>,
        /// With `git`: everything since the session began, committed or not; of one turn, what was committed in it. Absent
        /// outside a repository.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub diff: Option<GitDiff>,
        /// With `git`: where the work tree stood when it began is known. Else the difference is what is not committed.
        #[serde(default)]
        pub since_known: bool,
        /// Older records were let go, or there is more than fits: something may be missing.
        #[serde(default)]
        pub cut: bool,
    }

    /// What happened to files in one turn.
    pub struct TurnChanges {
        /// The number of its prompt.
        pub turn: u64,
        pub began: Timestamp,
        /// Absent while it runs.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ended: Option<Timestamp>,
        pub files: Vec<ChangedFile>,
        /// Commits that were made meanwhile in its work tree, newest first; by whom git says.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub commits: Vec<GitCommit>,
    }

    /// A file that a tool changed.
    pub struct ChangedFile {
        /// As the agent named it; from the workspace on where it is beneath it.
        pub path: FilePath,
        /// The tool, by the agent's name.
        pub tool: String,
        /// What was changed, where the tool tells.
        pub edits: Vec<FileEdit>,
        /// The tool has not said that it is done.
        #[serde(default)]
        pub unfinished: bool,
    }

    /// A part of a file that was replaced.
    pub struct FileEdit {
        /// Absent: the file is new, or only its new content is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub old: Option<String>,
        /// Absent: the file is removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub new: Option<String>,
        /// Where it begins, from 1, where the agent tells it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub line: Option<u64>,
    }
}
