//! One file, whole or a range of it. What is too large says how large it is; nothing but a regular file is read.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::kind::is_text;
use super::{BeneathError, FileKind, Root, Stated, content_hash, media_type};

/// 4 MiB: as base64, or as text in which half of the characters are escaped, still a message that a client can take.
pub const READ_MAX: u64 = 4 << 20;

/// Which bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// All of them, if they are not more than this.
    Whole {
        /// Most bytes that are wanted.
        limit: u64,
    },
    /// Those from an offset on.
    Part {
        /// The first.
        offset: u64,
        /// How many at most.
        length: u64,
    },
}

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The bytes.
    pub content: Content,
    /// Where they begin.
    pub offset: u64,
    /// What the file is.
    pub stat: Stated,
    /// By how it begins; absent for a range that does not begin there.
    pub media_type: Option<&'static str>,
    /// What it is known by; only where all of it was read.
    pub hash: Option<String>,
}

/// The bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// UTF-8 without a NUL.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Content {
    fn of(bytes: Vec<u8>) -> Self {
        match is_text(&bytes) {
            true => String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text),
            false => Self::Bytes(bytes),
        }
    }

    /// The bytes as they are.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl Root {
    /// Reads a file. A part that begins behind its end is empty.
    pub fn read(&self, path: &Path, range: Range) -> Result<Shown, BeneathError> {
        let (file, stat) = self.regular(path)?;
        let failed = |error| BeneathError::of(path, error);
        let too_large = |size, limit| BeneathError::TooLarge { path: path.to_owned(), size, limit };
        match range {
            Range::Part { length, .. } if length > READ_MAX => Err(too_large(length, READ_MAX)),
            Range::Part { offset, length } => {
                let bytes = take(&file, offset, length).map_err(failed)?;
                let media_type = (offset == 0).then(|| media_type(&bytes));
                Ok(Shown { content: Content::of(bytes), offset, stat, media_type, hash: None })
            }
            Range::Whole { limit } => {
                let limit = limit.min(READ_MAX);
                if stat.size > limit {
                    return Err(too_large(stat.size, limit));
                }
                // Files of the kernel state size 0 and hold more; others may have grown.
                let bytes = take(&file, 0, limit + 1).map_err(failed)?;
                if bytes.len() as u64 > limit {
                    let size = file.metadata().map_or(0, |now| now.len()).max(limit + 1);
                    return Err(too_large(size, limit));
                }
                let (media_type, hash) = (Some(media_type(&bytes)), Some(content_hash(&bytes)));
                Ok(Shown { content: Content::of(bytes), offset: 0, stat, media_type, hash })
            }
        }
    }

    /// A regular file, open for reading, and nothing else.
    pub(crate) fn regular(&self, path: &Path) -> Result<(File, Stated), BeneathError> {
        // Opening a device may do something: it is looked at before.
        regular(&self.stat(path)?, path)?;
        let file = self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let stat = looked_at(&file, path)?;
        // The path may lead elsewhere by now.
        regular(&stat, path)?;
        Ok((File::from(file), stat))
    }
}

fn looked_at(file: &OwnedFd, path: &Path) -> Result<Stated, BeneathError> {
    fstat(file).map(|stat| Stated::from(&stat)).map_err(|errno| BeneathError::of(path, errno))
}

fn regular(stat: &Stated, path: &Path) -> Result<(), BeneathError> {
    match stat.kind {
        FileKind::File => Ok(()),
        FileKind::Folder => Err(BeneathError::Folder(path.to_owned())),
        FileKind::Link | FileKind::Special => Err(BeneathError::Special(path.to_owned())),
    }
}

/// At most so many bytes from there on.
fn take(file: &File, offset: u64, most: u64) -> std::io::Result<Vec<u8>> {
    let room = usize::try_from(most).map_err(|_| Errno::FBIG)?;
    let mut bytes = Vec::new();
    let mut chunk = vec![0; room.min(64 << 10)];
    while bytes.len() < room {
        let want = chunk.len().min(room - bytes.len());
        let Some(into) = chunk.get_mut(..want) else { break };
        match file.read_at(into, offset.saturating_add(bytes.len() as u64)) {
            Ok(0) => break,
            Ok(count) => bytes.extend(into.iter().take(count)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Beyond what an offset can be: nothing is there.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

impl From<&rustix::fs::Stat> for Stated {
    fn from(stat: &rustix::fs::Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
            mode: stat.st_mode & 0o7777,
        }
    }
}
