//! Finds the file that a command means, once, and tells whether the asking user could put another in its place.

use std::path::PathBuf;

use thiserror::Error;

use crate::spec::Seal;

/// The file that a command means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What is executed: absolute, without symbolic links.
    pub path: PathBuf,
    /// Where it was found, before symbolic links were followed.
    pub found: PathBuf,
    /// Its identity; `None` where this process may not look at it.
    pub seal: Option<Seal>,
    /// The first of the file, its parent directories and the links on the way that the asking user could write or
    /// replace.
    pub writable_by_asker: Option<PathBuf>,
}

/// Why a command means no file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResolveError {
    /// Nothing of that name can be executed.
    #[error("{name}: command not found")]
    NotFound {
        /// As it was asked for.
        name: String,
    },
    /// A path that depends on where one stands.
    #[error("{name}: a relative path means nothing here; give the whole path")]
    Relative {
        /// As it was asked for.
        name: String,
    },
    /// It is there, but not something to execute.
    #[error("{name}: {why}")]
    Unusable {
        /// As it was asked for.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The file that `argv0` means: looked up in [`crate::PATH`], or the absolute path that it is.
pub fn resolve(argv0: &str, asker_uid: u32) -> Result<Resolved, ResolveError> {
    let _ = asker_uid;
    Err(ResolveError::NotFound { name: argv0.to_owned() })
}
