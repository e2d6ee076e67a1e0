//! Why something beneath a root was not shown or written.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What went wrong, in words for people.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// A root is named by an absolute path.
    #[error("{}: not an absolute path", .0.display())]
    NotAbsolute(PathBuf),
    /// Nothing is there.
    #[error("{}: no such file or folder", .0.display())]
    Missing(PathBuf),
    /// The path leads out of the root, or across a mount.
    #[error("{}: it leads out of the workspace", .0.display())]
    Outside(PathBuf),
    /// Only a folder can be listed.
    #[error("{}: not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A folder has no content.
    #[error("{}: it is a folder", .0.display())]
    Folder(PathBuf),
    /// A pipe, a socket or a device: nothing that can be read to its end.
    #[error("{}: not a regular file", .0.display())]
    Special(PathBuf),
    /// The file, or what is asked of it, is more than is given at once.
    #[error("{}: {size} bytes; at most {limit} are given at once", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// How large it is.
        size: u64,
        /// How much is given.
        limit: u64,
    },
    /// A folder with more names than anybody looks through.
    #[error("{}: more than {limit} names in one folder", path.display())]
    TooMany {
        /// Which folder.
        path: PathBuf,
        /// How many are looked at.
        limit: usize,
    },
    /// The system does not let us.
    #[error("{}: permission denied", .0.display())]
    Denied(PathBuf),
    /// What git keeps is git's to write.
    #[error("{}: it belongs to git", .0.display())]
    Git(PathBuf),
    /// A link is not written through.
    #[error("{}: it is a link; write to the file that it leads to", .0.display())]
    Link(PathBuf),
    /// There is one already.
    #[error("{}: it exists already", .0.display())]
    Exists(PathBuf),
    /// It is not what its writer has seen.
    #[error("{}: it has changed since it was read", .0.display())]
    Changed(PathBuf),
    /// Anything else that the system said.
    #[error("{}: {source}", path.display())]
    Io {
        /// About what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl BeneathError {
    pub(crate) fn of(path: &Path, error: impl Into<io::Error>) -> Self {
        let (source, path) = (error.into(), path.to_owned());
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT) => Self::Missing(path),
            Some(Errno::XDEV) => Self::Outside(path),
            Some(Errno::NOTDIR) => Self::NotAFolder(path),
            Some(Errno::ISDIR) => Self::Folder(path),
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied(path),
            // A socket, or a device without a driver.
            Some(Errno::NXIO | Errno::NODEV) => Self::Special(path),
            Some(Errno::EXIST) => Self::Exists(path),
            _ => Self::Io { path, source },
        }
    }
}
