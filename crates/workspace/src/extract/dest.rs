//! Which directories may be wiped. A path is judged by what it says and by what it leads to, so that
//! neither `/home/../home/me` nor a link in the middle of a path reaches a protected directory.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use crate::lexical::clean;

/// A destination that must not be wiped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestError {
    /// It is relative, or the root directory.
    #[error("{} is not an absolute path below the root", .0.display())]
    NotBelowRoot(PathBuf),
    /// It is the home directory or holds it.
    #[error("{} is the home directory or holds it", .0.display())]
    HoldsHome(PathBuf),
}

/// What tells two directories apart whatever they are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Identity { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// A destination that passed the check.
#[derive(Debug)]
pub(super) struct Dest {
    /// Absolute and clean.
    pub(super) path: PathBuf,
    pub(super) parent: PathBuf,
    pub(super) name: OsString,
    protected: Vec<Identity>,
}

impl Dest {
    pub(super) fn check(path: &Path, home: Option<&Path>) -> Result<Self, DestError> {
        let not_below_root = || DestError::NotBelowRoot(path.to_owned());
        if !path.is_absolute() {
            return Err(not_below_root());
        }
        let cleaned = clean(path);
        let (Some(parent), Some(name)) = (cleaned.parent(), cleaned.file_name()) else {
            return Err(not_below_root());
        };
        let homes: Vec<PathBuf> = home
            .filter(|home| home.is_absolute())
            .into_iter()
            .flat_map(|home| [Some(clean(home)), home.canonicalize().ok()])
            .flatten()
            .collect();
        let dest = Dest {
            parent: parent.to_owned(),
            name: OsStr::to_owned(name),
            protected: std::iter::once(Path::new("/"))
                .chain(homes.iter().flat_map(|home| home.ancestors()))
                .filter_map(|dir| rustix::fs::stat(dir).ok())
                .map(|stat| Identity::from(&stat))
                .collect(),
            path: cleaned,
        };
        let named = homes.iter().any(|home| home.starts_with(&dest.path));
        let reached = rustix::fs::lstat(&dest.path).is_ok_and(|stat| dest.protects(Identity::from(&stat)));
        if named || reached {
            return Err(DestError::HoldsHome(path.to_owned()));
        }
        Ok(dest)
    }

    /// Whether a directory must survive.
    pub(super) fn protects(&self, identity: Identity) -> bool {
        self.protected.contains(&identity)
    }
}
