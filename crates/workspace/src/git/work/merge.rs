//! The end of a merge that nobody wants any more. Its beginning runs hooks, and is hosted.

use super::{GitError, Operation, WorkTree};

impl WorkTree {
    /// Goes back to before a merge that is not over.
    pub fn abort_merge(&self) -> Result<(), GitError> {
        self.whole()?;
        match self.operation() {
            Some(Operation::Merge) => self.act_on_all("merge", &["merge", "--abort"]).map(drop),
            _ => Err(GitError::Asked("no merge is going on")),
        }
    }
}
