//! Looking at files: what a path is, what a directory holds, what a file says. Symbolic links are
//! followed. Never changes anything, and never blocks on a pipe or device.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::{Op, PathError};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// A directory.
    pub is_dir: bool,
    /// A regular file.
    pub is_file: bool,
    /// Size in bytes, as the system states it.
    pub size: u64,
    /// File type and permission bits (`st_mode`).
    pub mode: u32,
}

impl From<&fs::Metadata> for Stat {
    fn from(meta: &fs::Metadata) -> Self {
        Stat { is_dir: meta.is_dir(), is_file: meta.is_file(), size: meta.len(), mode: meta.mode() }
    }
}

/// What `path` leads to, links followed.
pub fn stat(path: &Path) -> io::Result<Stat> {
    fs::metadata(path).map(|meta| Stat::from(&meta))
}

/// Whether names that begin with a dot are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// List them.
    Show,
    /// Leave them out.
    Skip,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name alone.
    pub name: OsString,
    /// Leads to a directory; false for a link that leads nowhere.
    pub is_dir: bool,
}

/// The names in `dir`, in byte order.
pub fn list(dir: &Path, hidden: Hidden) -> Result<Vec<Entry>, PathError> {
    let reader = fs::read_dir(dir).map_err(|error| PathError::new(Op::Open, dir, error))?;
    let mut entries = Vec::new();
    for entry in reader {
        let entry = entry.map_err(|error| PathError::new(Op::ReadDir, dir, error))?;
        let name = entry.file_name();
        if hidden == Hidden::Skip && name.as_bytes().starts_with(b".") {
            continue;
        }
        let is_dir = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => fs::metadata(entry.path()).is_ok_and(|meta| meta.is_dir()),
        };
        entries.push(Entry { name, is_dir });
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing is there, or it cannot be looked at.
    #[error("no such file")]
    Missing,
    /// The path is a directory.
    #[error("it is a directory")]
    Directory,
    /// A pipe, socket or device.
    #[error("it is not a regular file")]
    Special,
    /// The file holds more bytes than allowed.
    #[error("it is larger than allowed")]
    TooLarge,
    /// The system refused.
    #[error(transparent)]
    Path(#[from] PathError),
}

fn readable(stat: Stat, limit: u64) -> Result<(), ReadError> {
    if stat.is_dir {
        Err(ReadError::Directory)
    } else if !stat.is_file {
        Err(ReadError::Special)
    } else if stat.size > limit {
        Err(ReadError::TooLarge)
    } else {
        Ok(())
    }
}

/// The content of the regular file at `path`, if it is at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    readable(stat(path).map_err(|_| ReadError::Missing)?, limit)?;
    let failed = |op| move |error| PathError::new(op, path, error);
    // The path may lead elsewhere by now: no wait for a pipe's writer, and a second look.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed())
        .open(path)
        .map_err(failed(Op::Open))?;
    let meta = file.metadata().map_err(failed(Op::Read))?;
    readable(Stat::from(&meta), limit)?;
    let mut content = Vec::new();
    let room = usize::try_from(meta.len()).unwrap_or(0);
    content.try_reserve(room.saturating_add(1)).map_err(|_| ReadError::TooLarge)?;
    // Files of the kernel state size 0 and hold more; others may have grown.
    file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(failed(Op::Read))?;
    if content.len() as u64 > limit {
        return Err(ReadError::TooLarge);
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
