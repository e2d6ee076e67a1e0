//! Commits of branches that are gone, under names of ours: nobody loses them before their time. Names are changed guarded, so
//! that no hook of the repository hears of it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{Git, RunError};

/// Where they are named. Git shows it to nobody who does not ask for all references.
const KEPT: &str = "refs/ostler/discarded/";

impl Git {
    /// Keeps a commit, by its hash, under a name of ours; gives the name.
    pub fn keep_commit(&self, id: &str, commit: &str) -> Result<String, RunError> {
        let name = format!("{KEPT}{id}");
        self.guarded()?.change(["update-ref", "--", &name, commit])?.into_success("update-ref")?;
        Ok(name)
    }

    /// What is kept under a name.
    pub fn kept_commit(&self, id: &str) -> Option<String> {
        let name = format!("{KEPT}{id}");
        let said = self.line(["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
        String::from_utf8(said).ok()
    }

    /// Keeps it no longer.
    pub fn forget_commit(&self, id: &str) -> Result<(), RunError> {
        let name = format!("{KEPT}{id}");
        self.guarded()?.change(["update-ref", "-d", "--", &name])?.into_success("update-ref").map(drop)
    }

    /// Deletes a branch if it is still at this commit; whether it is gone.
    pub fn remove_branch(&self, branch: &OsStr, commit: &str) -> Result<bool, RunError> {
        let mut whole = OsString::from("refs/heads/");
        whole.push(branch);
        let look = ["rev-parse", "--verify", "--quiet", "--end-of-options"].map(OsStr::new);
        let at = self.query(look.into_iter().chain([whole.as_os_str()]))?;
        if !at.success {
            return Ok(true);
        }
        if at.output.trim_ascii() != commit.as_bytes() || branch.as_bytes().starts_with(b"-") {
            return Ok(false);
        }
        let args = ["branch", "-D", "--"].map(OsStr::new);
        Ok(self.guarded()?.change(args.into_iter().chain([branch]))?.success)
    }
}
