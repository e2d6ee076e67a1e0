//! What differs in a work tree from its last commit.

use super::{Git, RunError};

impl Git {
    /// One line of git's short format for every change, without surrounding blanks; `None` outside
    /// a repository.
    pub fn status(&self) -> Result<Option<Vec<Vec<u8>>>, RunError> {
        if !self.is_repo() {
            return Ok(None);
        }
        let git = self.guarded()?;
        let ran = git.query(["status", "--porcelain"])?;
        if !ran.success {
            // Why is said on stderr, which is no list of changes.
            return Err(RunError::Failed { what: "status", said: git.change(["status", "--porcelain"])?.output });
        }
        let printed = ran.output;
        let changes = printed
            .split(|&byte| byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        Ok(Some(changes))
    }
}
