//! What differs in a work tree from its last commit.

use super::{Git, RunError};

impl Git {
    /// One line of git's short format for every change, without surrounding blanks; `None` outside
    /// a repository.
    pub fn status(&self) -> Result<Option<Vec<Vec<u8>>>, RunError> {
        if !self.is_repo() {
            return Ok(None);
        }
        let printed = self.guarded()?.query(["status", "--porcelain"])?.into_success("status")?;
        let changes = printed
            .split(|&byte| byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        Ok(Some(changes))
    }
}
