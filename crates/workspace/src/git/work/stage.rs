//! The index: whole paths into it and out of it, and single hunks by their patch.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::path::{FROM_INPUT, checked, input};
use super::{GitError, WorkTree};

impl WorkTree {
    /// Takes paths into the index as they are now: changed, new or deleted. What is ignored is refused.
    pub fn stage(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let args: Vec<&str> = ["add", "--all"].into_iter().chain(FROM_INPUT).collect();
        self.act("add", &args, input(paths)?).map(drop)
    }

    /// Takes paths back out of the index; the files are not touched.
    pub fn unstage(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let args: Vec<&str> = ["reset", "--quiet"].into_iter().chain(FROM_INPUT).collect();
        self.act("reset", &args, input(paths)?).map(drop)
    }

    /// Takes the hunks of a patch into the index, or back out of it; the files are not touched.
    pub fn stage_patch(&self, patch: &[u8], reverse: bool) -> Result<(), GitError> {
        let mut form: Vec<OsString> =
            ["apply", "--cached", "--whitespace=nowarn", "--recount"].map(OsString::from).to_vec();
        form.extend(reverse.then(|| "--reverse".into()));
        if !self.prefix.is_empty() {
            let folder = [b"--directory=", self.prefix.as_slice()].concat();
            form.push(OsString::from_vec(folder));
        }
        // From the top, where a patch means what it says; its names are looked at before anything is done.
        let top = super::Git { dir: self.top.clone(), ..self.acts.clone() };
        let look = form.iter().cloned().chain(["--numstat".into(), "-z".into(), "-".into()]).collect::<Vec<_>>();
        let named = super::act(&top, "apply", &look, patch.to_vec())?;
        for name in named.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let path = name.rsplitn(2, |byte| *byte == b'\t').next().unwrap_or(name);
            let inside = path.strip_prefix(self.prefix.as_slice()).map(super::path_of);
            checked(&inside.ok_or_else(|| GitError::Path(super::path_of(path)))?)?;
        }
        form.push("-".into());
        super::act(&top, "apply", &form, patch.to_vec()).map(drop)
    }

    /// The index's own lines for paths, as git takes them back: first that there is nothing, then what there is.
    pub(super) fn index_lines(&self, paths: &[PathBuf]) -> Result<Vec<u8>, GitError> {
        let nothing = "0".repeat(self.nothing()?.len());
        let mut lines = Vec::new();
        for path in paths {
            let whole = [self.prefix.as_slice(), path.as_os_str().as_bytes()].concat();
            lines.extend([b"0 ", nothing.as_bytes(), b"\t", &whole, b"\0"].concat());
            let args = ["ls-files", "--stage", "-z", "--full-name", "--"].map(OsString::from);
            let args: Vec<OsString> = args.into_iter().chain([path.as_os_str().to_owned()]).collect();
            lines.extend(self.look("ls-files", &args)?);
        }
        Ok(lines)
    }

    /// Puts such lines back. Nothing that the repository names hears of it: it is no change of its user's, but one taken back.
    pub(super) fn take_index_lines(&self, lines: Vec<u8>) -> Result<(), GitError> {
        super::act(&self.looks, "update-index", &["update-index", "-z", "--index-info"], lines).map(drop)
    }

    /// The tree without anything in it, which stands for what was before the first commit.
    pub(super) fn nothing(&self) -> Result<String, GitError> {
        let said = self.look("hash-object", &["hash-object", "-t", "tree", "/dev/null"])?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    }
}
