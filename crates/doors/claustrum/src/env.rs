//! What the daemon lends to a method that runs a program or guards a directory.

use std::ffi::OsString;
use std::path::PathBuf;

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
}
