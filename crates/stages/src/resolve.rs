//! Finds the file that a command means, once, and tells whether the asking user could put another in its place.
//! Walks the path by itself, link by link, because every directory on the way is somebody who could lie about it.

mod groups;
mod walk;

use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use crate::PATH;
use crate::spec::{Seal, Stage};
use walk::{Lookup, Walk};

/// The file that a command means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What is executed: absolute, and under the name that it was found by (programs look at their name, and so do the
    /// rules of sudo).
    pub path: PathBuf,
    /// The file behind it, all symbolic links followed.
    pub canonical: PathBuf,
    /// Its identity; `None` where this process may not look at it.
    pub seal: Option<Seal>,
    /// The first of the file, its parent directories and the links on the way that the asking user could write or
    /// replace. Always `None` for root, who needs no trick.
    pub writable_by_asker: Option<PathBuf>,
}

impl Resolved {
    /// The stage that executes this file, with the arguments as they were asked for.
    pub fn stage(&self, argv: Vec<String>) -> Stage {
        Stage { program: self.path.clone(), argv, seal: self.seal }
    }
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
    let name = || argv0.to_owned();
    if argv0.starts_with('/') {
        return match look(Path::new(argv0), asker_uid) {
            Found::Program(resolved) => Ok(resolved),
            Found::Nothing => Err(ResolveError::NotFound { name: name() }),
            Found::Unusable(why) => Err(ResolveError::Unusable { name: name(), why }),
        };
    }
    if argv0.contains('/') {
        return Err(ResolveError::Relative { name: name() });
    }
    if argv0.is_empty() || argv0 == "." || argv0 == ".." {
        return Err(ResolveError::NotFound { name: name() });
    }
    for folder in PATH.split(':') {
        if let Found::Program(resolved) = look(&Path::new(folder).join(argv0), asker_uid)
            && resolved.seal.is_some()
        {
            return Ok(resolved);
        }
    }
    Err(ResolveError::NotFound { name: name() })
}

/// The first of a file, its parent directories and the links on the way that a user could write or replace; also of one that
/// is not there, where the user could make it.
pub(crate) fn writable_by(path: &Path, user: u32) -> Option<PathBuf> {
    let mut walk = Walk::new(user);
    match walk.follow(path) {
        Lookup::Nothing => path.parent().and_then(|folder| writable_by(folder, user)),
        // What only looks like a file keeps nothing that is written to it.
        Lookup::File { file, .. } if !file.is_file() && !file.is_dir() => None,
        _ => walk.into_writable(),
    }
}

enum Found {
    Program(Resolved),
    Nothing,
    Unusable(String),
}

fn look(path: &Path, asker: u32) -> Found {
    let mut walk = Walk::new(asker);
    let (canonical, file) = match walk.follow(path) {
        Lookup::File { canonical, file } => (canonical, Some(file)),
        Lookup::Hidden { canonical } => (canonical, None),
        Lookup::Nothing => return Found::Nothing,
        Lookup::Broken(why) => return Found::Unusable(why.to_string()),
    };
    if let Some(file) = &file {
        use std::os::unix::fs::PermissionsExt;
        if !file.is_file() {
            return Found::Unusable("not a file".to_owned());
        }
        if file.permissions().mode() & 0o111 == 0 {
            return Found::Unusable("not executable".to_owned());
        }
    }
    let path = if is_plain(path) { path.to_owned() } else { canonical.clone() };
    let seal = file.as_ref().map(Seal::of);
    Found::Program(Resolved { path, canonical, seal, writable_by_asker: walk.into_writable() })
}

/// Only names between single slashes: what is shown is what every program makes of it.
fn is_plain(path: &Path) -> bool {
    let rebuilt: PathBuf = path.components().collect();
    rebuilt.as_os_str() == path.as_os_str()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests;
