//! `session.review`: what a person says about lines of a difference, sent together as the next prompt.

use crate::path::FilePath;
use crate::schema::wire;

wire! {
    /// Comments for the agent. They are one prompt, in the order given, and wait for their turn if one is running.
    pub struct ReviewParams {
        pub id: String,
        /// At least one comment, or `text`; at most 500.
        #[serde(default)]
        pub comments: Vec<ReviewComment>,
        /// About all of it; the agent reads it first.
        pub text: Option<String>,
        /// Refuse instead of waiting for a running turn.
        #[serde(default)]
        pub refuse_if_busy: bool,
        /// Two requests with the same key are one prompt.
        pub key: Option<String>,
    }

    /// What is said about one place.
    pub struct ReviewComment {
        /// As `session.changes` and `git.diff` name it.
        pub path: FilePath,
        /// From 1; absent for the file as a whole.
        pub line: Option<u64>,
        /// Where it is about several lines: the last of them.
        pub last_line: Option<u64>,
        /// The line is one that was removed: its number is that in the old file.
        #[serde(default)]
        pub removed: bool,
        /// The line itself, or several, without the sign before it. The agent is shown it, at most 20 lines of 400 characters.
        pub quote: Option<String>,
        /// What is said about it, up to 16 KiB.
        pub text: String,
    }
}
