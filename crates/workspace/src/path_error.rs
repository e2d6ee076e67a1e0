//! The error of one file operation: which call, on which path, and why.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Opening a file or directory.
    Open,
    /// Reading from an open file.
    Read,
    /// Reading the entries of an open directory.
    ReadDir,
    /// Writing to an open file.
    Write,
    /// Creating a directory.
    Mkdir,
    /// Removing a file or directory.
    Unlink,
}

impl Op {
    /// The name of the system call.
    pub fn name(self) -> &'static str {
        match self {
            Op::Open => "open",
            Op::Read => "read",
            Op::ReadDir => "readdirent",
            Op::Write => "write",
            Op::Mkdir => "mkdir",
            Op::Unlink => "unlinkat",
        }
    }
}

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{op} {path}: {source}", path = path.display())]
pub struct PathError {
    /// The call.
    pub op: Op,
    /// What it was about.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl PathError {
    pub(crate) fn new(op: Op, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        PathError { op, path: path.into(), source: source.into() }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
