//! Which repository a directory belongs to, and on which branch it is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Git;
use super::slug::slug;

/// A repository, as its work tree shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Top of the work tree.
    pub root: PathBuf,
    /// What is checked out.
    pub head: Head,
    /// `owner/repo` of the remote `origin`, where its address has that shape.
    pub slug: Option<OsString>,
    /// The branch that the remote `origin` considers its main one.
    pub default_branch: Option<OsString>,
}

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch, with or without commits.
    Branch(OsString),
    /// A commit, by the short form of its name.
    Detached(OsString),
}

impl Info {
    /// The name of the work tree's directory.
    pub fn name(&self) -> &OsStr {
        self.root.file_name().unwrap_or(self.root.as_os_str())
    }
}

impl Git {
    /// The repository around the directory; `None` where there is none.
    pub fn info(&self) -> Option<Info> {
        let place = self.line(["rev-parse", "--is-inside-work-tree", "--show-toplevel"])?;
        let root = place.strip_prefix(b"true\n")?;
        Some(Info {
            root: Path::new(OsStr::from_bytes(root)).to_owned(),
            head: self.head(),
            slug: self.line(["config", "--get", "remote.origin.url"]).as_deref().and_then(slug).map(OsString::from_vec),
            default_branch: self.points_at("refs/remotes/origin/HEAD", b"refs/remotes/origin/"),
        })
    }

    fn head(&self) -> Head {
        // Names are cut by hand: git's own short names differ where a tag has the same name.
        match self.points_at("HEAD", b"refs/heads/") {
            Some(branch) => Head::Branch(branch),
            None => Head::Detached(OsString::from_vec(self.line(["rev-parse", "--short", "HEAD"]).unwrap_or_default())),
        }
    }

    fn points_at(&self, symbolic: &str, prefix: &[u8]) -> Option<OsString> {
        let target = self.line(["symbolic-ref", "--quiet", symbolic])?;
        let name = target.strip_prefix(prefix).unwrap_or(&target);
        (!name.is_empty()).then(|| OsStr::from_bytes(name).to_owned())
    }
}
