//! Paths that are handed to git: beneath the root by their text, literal, and never an option.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{GitError, WorkTree};

/// How git reads paths from its input, where they cannot be too many or be taken for options.
pub(super) const FROM_INPUT: [&str; 2] = ["--pathspec-from-file=-", "--pathspec-file-nul"];

/// A path beneath the root, or why it is none. What leads through a link is git's to refuse, which never looks behind one.
pub(super) fn checked(path: &Path) -> Result<&Path, GitError> {
    let bytes = path.as_os_str().as_bytes();
    let odd = bytes.is_empty() || bytes.contains(&0) || bytes.starts_with(b"/");
    let climbs = bytes.split(|byte| *byte == b'/').any(|part| part == b"..");
    if odd || climbs { Err(GitError::Path(path.to_owned())) } else { Ok(path) }
}

/// All of them checked, each behind the other with a NUL.
pub(super) fn input<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<Vec<u8>, GitError> {
    let mut text = Vec::new();
    for path in paths {
        text.extend_from_slice(checked(path)?.as_os_str().as_bytes());
        text.push(0);
    }
    if text.is_empty() { Err(GitError::Asked("no paths were given")) } else { Ok(text) }
}

impl WorkTree {
    /// The pathspec that keeps a command within the root, where the repository is larger.
    pub(super) fn here(&self) -> &'static [&'static str] {
        if self.prefix.is_empty() { &[] } else { &["."] }
    }
}
