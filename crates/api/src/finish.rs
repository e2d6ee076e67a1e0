//! `session.finish`: the end of a session's work tree, step by step.

use crate::path::FilePath;
use crate::process::ProcessInfo;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// What is to become of a session's work.
    pub enum FinishHow {
        /// Its branch is merged.
        Merge = "merge",
        /// Its branch is sent and proposed by `gh` or `glab`.
        PullRequest = "pull_request",
        /// It is thrown away, and kept for a day.
        Discard = "discard",
    }
}

wire! {
    pub struct SessionFinishParams {
        pub id: String,
        /// Left out: nothing is done, and `standing` says what there is.
        pub how: Option<FinishHow>,
        /// The branch that takes it in; that of the repository's own folder when left out.
        pub into: Option<FilePath>,
        /// Commit what is not committed first, with these words. Without them that is refused.
        pub message: Option<String>,
    }

    /// One step: exactly one of the three is there.
    pub struct SessionFinishing {
        /// Nothing was asked for: this is how it stands.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub standing: Option<FinishStanding>,
        /// This process does the next step (commit, merge, or push and propose). Watch it with `process.attach`, and call again
        /// when it has ended well.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub process: Option<ProcessInfo>,
        /// Everything is done: the session is closed, work tree and branch are gone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub done: Option<SessionFinished>,
    }

    /// How a session's work tree stands.
    pub struct FinishStanding {
        pub worktree: String,
        /// Absent where a commit is checked out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<FilePath>,
        /// The branch that would take it in, and where it is checked out.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub into: Option<FilePath>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub into_worktree: Option<String>,
        /// Commits that `into` does not have.
        pub ahead: u64,
        /// Files that are not committed.
        pub uncommitted: u64,
    }

    /// A work tree that is gone.
    pub struct SessionFinished {
        pub worktree: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub branch: Option<String>,
        /// Its last commit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub commit: Option<String>,
        /// Where that commit is kept, if it was thrown away: `session.unfinish` puts everything back.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reference: Option<String>,
        /// It has commits that the branch it would have gone to does not have.
        #[serde(default)]
        pub commits_kept: bool,
        /// What was not committed is kept too.
        #[serde(default)]
        pub uncommitted_kept: bool,
        /// Until when, if it was thrown away.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub until: Option<Timestamp>,
    }
}
