//! Files beneath a root: every path is resolved there by the kernel, and nothing else is ever opened.
//!
//! A root is an open directory. No path leads out of it: not `..`, not an absolute one, not a link, not a mount, not a
//! neighbour that swaps folders while we look. Nothing here waits for a pipe or a device, or holds more than its bounds.

mod error;
mod git_folder;
mod hash;
mod kind;
mod list;
mod read;
mod resolve;
mod tree;
mod walk;
mod write;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, statat};

pub use error::BeneathError;
pub use hash::content_hash;
pub(crate) use hash::hash_of;
pub use kind::{FileKind, media_type};
pub use list::{Count, LIST_MAX, Listed, ListedPage, Stated};
pub use read::{Content, READ_MAX, Range, Shown};
pub use tree::{TREE_DEPTH_MAX, TREE_MAX, Tree, TreeEntry};
pub use write::{Expected, WRITE_MAX, Written};

use resolve::Resolver;

/// A directory that is held open; whatever it is called by now.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    path: PathBuf,
    resolver: Resolver,
}

impl Root {
    /// The directory at this absolute path, links followed.
    pub fn open(path: &Path) -> Result<Self, BeneathError> {
        if !path.is_absolute() {
            return Err(BeneathError::NotAbsolute(path.to_owned()));
        }
        let real = path.canonicalize().map_err(|error| BeneathError::of(path, error))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(&real, flags, Mode::empty()).map_err(|errno| BeneathError::of(path, errno))?;
        let resolver = Resolver::of(dir.as_fd()).map_err(|errno| BeneathError::of(path, errno))?;
        Ok(Self { dir, path: real, resolver })
    }

    /// The same root on a kernel that cannot resolve beneath a directory, or is not let.
    #[cfg(test)]
    fn on(kernel: resolve::Kernel, path: &Path) -> Self {
        let mut root = Self::open(path).unwrap();
        root.resolver.kernel = kernel;
        root
    }

    /// Where it is, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Opens what a path leads to, with these flags.
    fn at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, BeneathError> {
        self.resolver.open(self.dir(), path, flags | OFlags::CLOEXEC).map_err(|errno| BeneathError::of(path, errno))
    }

    /// What a path leads to: links that stay beneath the root are followed.
    pub fn stat(&self, path: &Path) -> Result<Stated, BeneathError> {
        let file = self.at(path, OFlags::PATH)?;
        let stat = statat(&file, "", AtFlags::EMPTY_PATH).map_err(|errno| BeneathError::of(path, errno))?;
        Ok(Stated::from(&stat))
    }
}

#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod tests;
