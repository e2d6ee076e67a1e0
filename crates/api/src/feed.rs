//! `feed.*`: every change of an instance in one order, and where to go on.

pub use ostler_story::FeedKind;

use crate::path::FilePath;
use crate::process::Missing;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// What became of a file.
    pub enum FileBecame {
        Created = "created",
        Modified = "modified",
        Deleted = "deleted",
        /// A folder too, with all that is in it.
        Renamed = "renamed",
    }
}

wire! {
    /// A page of the feed.
    pub struct FeedReadParams {
        /// The position of the last change that is known; left out, the oldest that is kept comes first.
        pub after: Option<String>,
        /// At most so many changes; 0 for as many as fit.
        #[serde(default)]
        pub limit: u32,
        /// Only these; all when empty.
        #[serde(default)]
        pub kinds: Vec<FeedKind>,
        /// Only what is about this session: its records, its agent's processes, its requests.
        pub session: Option<String>,
        /// Only what is in this folder or beneath it.
        pub workspace: Option<FilePath>,
    }

    /// Changes in their order.
    pub struct FeedPage {
        pub changes: Vec<FeedChange>,
        /// Go on from here; also when no change was wanted.
        pub position: String,
        /// There is more already.
        pub more: bool,
        /// Something before the first of these is missing.
        pub gap: Option<FeedMissing>,
    }

    /// From where on to be told.
    pub struct FeedFollowParams {
        /// The position of the last change that is known; left out, only what is new comes.
        pub after: Option<String>,
        /// Only these; all when empty.
        #[serde(default)]
        pub kinds: Vec<FeedKind>,
        /// Only what is about this session.
        pub session: Option<String>,
        /// Only what is in this folder or beneath it.
        pub workspace: Option<FilePath>,
    }

    /// Changes follow as `feed.changes`, and `feed.gap` where some are missing, until `feed.unfollow`.
    pub struct FeedFollowing {
        /// Names this watch on this connection.
        pub watch: u64,
        /// Where it begins.
        pub position: String,
        /// The position that was asked for cannot be gone on from.
        pub gap: Option<FeedMissing>,
    }

    pub struct FeedUnfollowParams {
        pub watch: u64,
    }

    /// One change. It refers to where it is told in full.
    pub struct FeedChange {
        /// Go on after it with this, whoever reads, now or after a restart. The text itself means nothing.
        pub position: String,
        pub kind: FeedKind,
        /// When the feed took it.
        pub time: Timestamp,
        /// The session it is about, or whose process or request it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub process: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub approval: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub device: Option<String>,
        /// The record of the session, the entry of the audit, or the number of the notice.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub record: Option<u64>,
        /// The last of several records.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last: Option<u64>,
        /// The workspace, of changes there; where it was, if it is deleted.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workspace: Option<FilePath>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub file: Option<FeedFile>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub git: Option<FeedGit>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub watch: Option<FeedWatch>,
    }

    /// What became of a file of a workspace.
    pub struct FeedFile {
        /// From the workspace's root on.
        pub path: FilePath,
        /// Absent where only its differences are others.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub change: Option<FileBecame>,
        /// Where it was before it was renamed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub old_path: Option<FilePath>,
        /// Absent for what is gone, and for folders.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub size: Option<u64>,
    }

    /// Where git stands in a workspace.
    pub struct FeedGit {
        pub branch: FilePath,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub commit: Option<String>,
        pub ahead: u64,
        pub behind: u64,
        pub staged: u64,
        pub unstaged: u64,
        pub untracked: u64,
        pub conflicts: bool,
    }

    /// Whether a workspace is watched.
    pub struct FeedWatch {
        pub on: bool,
        /// Why it ended; or why it is only looked every few seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
    }

    /// What cannot be told any more; reading goes on with the oldest that is kept.
    pub struct FeedMissing {
        /// The position before the oldest change that is kept.
        pub oldest: String,
        pub missing: Missing,
    }

    pub struct FeedChanges {
        pub watch: u64,
        pub changes: Vec<FeedChange>,
    }

    pub struct FeedGap {
        pub watch: u64,
        /// The position before the oldest change that is kept.
        pub oldest: String,
        pub missing: Missing,
    }

    /// The feed cannot be read any further: the last notification of a watch.
    pub struct FeedLost {
        pub watch: u64,
        pub message: String,
    }
}
