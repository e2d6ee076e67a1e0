//! What the daemon lends to a method that runs a program or guards a directory.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler_engine::Forker;

/// The surroundings of one call, taken when it starts: they may change while the daemon lives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Env {
    /// Where programs are looked up: the login shell's PATH once it is known.
    pub(crate) path: OsString,
    /// The home directory, which no method may wipe.
    pub(crate) home: Option<PathBuf>,
    /// The environment that programs get, its PATH entry replaced by `path`.
    pub(crate) vars: Vec<(OsString, OsString)>,
    /// Who forks programs.
    pub(crate) forker: Forker,
    /// Where relative paths begin, if not in the daemon's own folder.
    pub(crate) folder: Option<PathBuf>,
}

impl Env {
    /// Where a client's path leads. An empty one leads nowhere.
    pub(crate) fn place<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        match &self.folder {
            Some(folder) if path.is_relative() && !path.as_os_str().is_empty() => folder.join(path).into(),
            _ => path.into(),
        }
    }
}
