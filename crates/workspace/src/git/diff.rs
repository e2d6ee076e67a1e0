//! What a work tree holds that its last commit does not, as a difference to read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Git, RunError};

/// The empty tree: what a repository without a commit is compared with.
const NOTHING: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// New files that are shown whole; of the rest, nobody reads more than the name.
const NEW_FILES: usize = 50;
/// No program that anybody named draws it, nothing runs in another repository, and no colours are in it.
const PLAIN: [&str; 5] = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=dirty"];

impl Git {
    /// Everything that is not committed, new files included, in git's own form; `None` outside a repository. The paths are
    /// from the directory on.
    pub fn diff(&self) -> Result<Option<Vec<u8>>, RunError> {
        if !self.is_repo() {
            return Ok(None);
        }
        let head = self.line(["rev-parse", "--verify", "--quiet", "HEAD"]).is_some();
        let since = if head { "HEAD" } else { NOTHING };
        let args = ["diff"].into_iter().chain(PLAIN).chain(["--relative", since]);
        let mut whole = self.query(args)?.into_success("diff")?;
        let listed = self.query(["ls-files", "--others", "--exclude-standard", "-z"])?.into_success("ls-files")?;
        let mut new = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        for name in new.by_ref().take(NEW_FILES) {
            let args = ["diff", "--no-index"].into_iter().chain(PLAIN).chain(["--", "/dev/null"]);
            // A file can be called `-`, which means another thing.
            let path = if name == b"-" { b"./-".as_slice() } else { name };
            // Two files that differ are no success for git.
            let ran = self.query(args.map(OsStr::new).chain([OsStr::from_bytes(path)]))?;
            whole.extend_from_slice(&ran.output);
        }
        for name in new {
            whole.extend_from_slice(b"new file ");
            whole.extend_from_slice(name);
            whole.push(b'\n');
        }
        Ok(Some(whole))
    }
}
