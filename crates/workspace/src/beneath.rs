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

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
        let failed = |errno| BeneathError::of(path, errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let resolver = Resolver::of(dir.as_fd()).map_err(failed)?;
        let path = real_path(dir.as_fd(), path)?;
        Ok(Self { dir, path, resolver })
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

    /// Whether it is still where it was found.
    pub(crate) fn is_there(&self) -> bool {
        let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let here = rustix::fs::stat(&self.path).map(identity);
        here.is_ok() && here == rustix::fs::fstat(&self.dir).map(identity)
    }

    fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Opens what a path leads to, with these flags.
    pub(crate) fn at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, BeneathError> {
        self.resolver.open(self.dir(), path, flags | OFlags::CLOEXEC).map_err(|errno| BeneathError::of(path, errno))
    }

    /// What a path leads to: links that stay beneath the root are followed.
    pub fn stat(&self, path: &Path) -> Result<Stated, BeneathError> {
        let file = self.at(path, OFlags::PATH)?;
        let stat = statat(&file, "", AtFlags::EMPTY_PATH).map_err(|errno| BeneathError::of(path, errno))?;
        Ok(Stated::from(&stat))
    }
}

/// Where an open directory is: what is judged by its path must be the one that was opened, whatever leads there by now.
fn real_path(dir: BorrowedFd<'_>, named: &Path) -> Result<PathBuf, BeneathError> {
    let own = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let real = std::fs::read_link(own).or_else(|_| named.canonicalize());
    let real = real.map_err(|error| BeneathError::of(named, error))?;
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let same = rustix::fs::stat(&real).and_then(|there| Ok(identity(there) == identity(rustix::fs::fstat(dir)?)));
    match same {
        Ok(true) => Ok(real),
        // Deleted or moved meanwhile.
        _ => Err(BeneathError::Missing(named.to_owned())),
    }
}

#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod tests;
