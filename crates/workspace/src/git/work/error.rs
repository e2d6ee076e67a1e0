//! Why git was not asked, or what it said.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::RunError;
use crate::beneath::BeneathError;

/// What went wrong, in words for people.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no work tree around the folder.
    #[error("{} is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    /// A repository without files.
    #[error("{} is a bare repository: it has no files to change", .0.display())]
    Bare(PathBuf),
    /// It belongs to somebody else, and git does not trust it.
    #[error("{} belongs to another user, and git does not trust it", .0.display())]
    Owner(PathBuf),
    /// It cannot be a path beneath the workspace.
    #[error("{}: not a path in the workspace", .0.display())]
    Path(PathBuf),
    /// It cannot be the name of a branch, a remote or a commit.
    #[error("`{}` cannot be the name of a {what}", name.escape_debug())]
    Name {
        /// Of what.
        what: &'static str,
        /// Which name.
        name: String,
    },
    /// There is none of that name.
    #[error("there is no {what} `{}`", name.escape_debug())]
    Missing {
        /// What.
        what: &'static str,
        /// Which name.
        name: String,
    },
    /// Another program works on the index.
    #[error("another program holds {}", .0.display())]
    Locked(PathBuf),
    /// What would be discarded is more than is kept.
    #[error("{size} bytes would be discarded, and at most {limit} are kept")]
    TooMuchToKeep {
        /// How much it is.
        size: u64,
        /// How much is kept.
        limit: u64,
    },
    /// Nobody said what to commit.
    #[error("{0}")]
    Asked(&'static str),
    /// Git ran and said no.
    #[error("git {what}: {said}")]
    Failed {
        /// The git command.
        what: &'static str,
        /// What it said.
        said: String,
    },
    /// Git could not be run to its end.
    #[error("git: {0}")]
    Run(#[from] RunError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] BeneathError),
    /// What is discarded could not be kept, so nothing was discarded.
    #[error("{}: {source}", path.display())]
    Keeping {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// What git says of a repository that belongs to somebody else.
const DUBIOUS: &str = "detected dubious ownership in repository";
/// What it says of a lock, before and after its path.
const LOCK: (&str, &str) = ("Unable to create '", "': File exists");

impl GitError {
    /// What git's own words mean.
    pub(super) fn said(what: &'static str, output: &[u8]) -> Self {
        let said = String::from_utf8_lossy(output).trim().to_owned();
        if let Some((_, rest)) = said.split_once(LOCK.0)
            && let Some((path, _)) = rest.split_once(LOCK.1)
        {
            return Self::Locked(PathBuf::from(path));
        }
        Self::Failed { what, said }
    }

    pub(super) fn not_a_repository(self, root: &Path) -> Self {
        match self {
            Self::Failed { said, .. } if said.contains(DUBIOUS) => Self::Owner(root.to_owned()),
            Self::Failed { .. } => Self::NotARepository(root.to_owned()),
            other => other,
        }
    }

    pub(super) fn name(what: &'static str, name: &OsStr) -> Self {
        Self::Name { what, name: String::from_utf8_lossy(name.as_bytes()).into_owned() }
    }

    pub(super) fn missing(what: &'static str, name: &OsStr) -> Self {
        Self::Missing { what, name: String::from_utf8_lossy(name.as_bytes()).into_owned() }
    }
}
