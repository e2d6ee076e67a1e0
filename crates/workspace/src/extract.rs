//! Unpacks a gzip-compressed tar archive into a directory of its own, which is wiped first.
//!
//! The archive is hostile until proven otherwise: nothing is created outside the directory, no link
//! is followed inside it, no link or device is made, and both data and headers are bounded. The home
//! directory, its parents and the root are never wiped, however they are spelled.

mod dest;
mod root;
mod stream;
mod tar;
mod wipe;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::{Op, PathError, lexical};
use dest::Dest;
pub use dest::DestError;
use root::Root;
pub use stream::StreamError;
use stream::Unzip;
use tar::Tar;

/// Most bytes of file content that one archive may unpack to.
pub const MAX_CONTENT: u64 = 512 << 20;

/// One read from the archive.
const CHUNK: usize = 64 << 10;

/// Why an archive was not unpacked, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The destination may not be wiped; nothing was touched.
    #[error(transparent)]
    Dest(#[from] DestError),
    /// The archive cannot be opened; nothing was touched.
    #[error(transparent)]
    Archive(PathError),
    /// The archive is a directory, pipe or device; nothing was touched.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// The file is not gzip; the destination was not touched.
    #[error("gzip: {0}")]
    Gzip(StreamError),
    /// The old content of the destination could not be removed.
    #[error("clean: {0}")]
    Clean(PathError),
    /// The destination could not be created.
    #[error(transparent)]
    Create(PathError),
    /// The archive is damaged where an entry should begin.
    #[error("entry header: {0}")]
    Header(StreamError),
    /// The archive is damaged inside an entry.
    #[error("entry content: {0}")]
    Content(StreamError),
    /// An entry leads out of the destination.
    #[error("an entry leads outside: {}", String::from_utf8_lossy(.0))]
    Unsafe(Vec<u8>),
    /// An entry is neither a file nor a directory.
    #[error("unsupported entry type {kind}: {}", String::from_utf8_lossy(name))]
    Unsupported {
        /// The type letter in the archive.
        kind: char,
        /// The entry.
        name: Vec<u8>,
    },
    /// A file or directory could not be written.
    #[error(transparent)]
    Entry(PathError),
    /// The content is larger than [`MAX_CONTENT`], or the archive is made of headers only.
    #[error("the archive unpacks to too much")]
    TooLarge,
    /// The marker of success could not be written.
    #[error(transparent)]
    Marker(PathError),
}

/// An extraction that did not succeed, and how many files it had written.
#[derive(Debug, thiserror::Error)]
#[error("{error} (after {files} files)")]
pub struct Failure {
    /// Files written completely before the error.
    pub files: u64,
    /// What went wrong.
    pub error: ExtractError,
}

/// What to unpack, and where.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The archive; removed as soon as it is open.
    pub archive: &'a Path,
    /// The directory that shall hold exactly the archive's content.
    pub dest: &'a Path,
    /// An empty file to leave in it when all went well.
    pub marker: &'a OsStr,
    /// The home directory, which must survive.
    pub home: Option<&'a Path>,
}

/// Unpacks the archive and counts its files. Files get mode 0600, directories 0700.
pub fn extract(request: &Request<'_>) -> Result<u64, Failure> {
    extract_at_most(request, MAX_CONTENT)
}

fn extract_at_most(request: &Request<'_>, limit: u64) -> Result<u64, Failure> {
    let mut files = 0;
    match run(request, limit, &mut files) {
        Ok(()) => Ok(files),
        Err(error) => Err(Failure { files, error }),
    }
}

fn run(request: &Request<'_>, limit: u64, files: &mut u64) -> Result<(), ExtractError> {
    let dest = Dest::check(request.dest, request.home)?;
    let archive = take_archive(request.archive)?;
    let unzip = Unzip::new(archive, limit).map_err(ExtractError::Gzip)?;
    wipe::wipe(&dest).map_err(ExtractError::Clean)?;
    let root = Root::create(&dest).map_err(ExtractError::Create)?;
    unpack(&mut Tar::new(unzip), &root, limit, files)?;
    root.create_file(&[request.marker.as_bytes()]).map_err(ExtractError::Marker)?;
    Ok(())
}

/// Opens the archive and removes its name: from here on it counts as consumed.
fn take_archive(path: &Path) -> Result<File, ExtractError> {
    let failed = |error: io::Error| ExtractError::Archive(PathError::new(Op::Open, path, error));
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed())
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(ExtractError::NotRegular(path.to_owned()));
    }
    // An archive that cannot be removed can still be unpacked.
    let _ = fs::remove_file(path);
    Ok(file)
}

fn unpack(tar: &mut Tar, root: &Root, limit: u64, files: &mut u64) -> Result<(), ExtractError> {
    let mut left = limit;
    while let Some(entry) = tar.next_entry().map_err(|error| damaged(error, ExtractError::Header))? {
        let Some(parts) = lexical::below(root.path(), &entry.name) else {
            return Err(ExtractError::Unsafe(entry.name));
        };
        match entry.kind {
            tar::DIRECTORY => root.create_dir(&parts).map_err(ExtractError::Entry)?,
            tar::REGULAR => {
                left = left.checked_sub(entry.size).ok_or(ExtractError::TooLarge)?;
                let file = root.create_file(&parts).map_err(ExtractError::Entry)?;
                copy(tar, file, &root.join(&parts))?;
                *files += 1;
            }
            other => {
                return Err(ExtractError::Unsupported { kind: char::from(other), name: entry.name });
            }
        }
    }
    Ok(())
}

fn damaged(error: StreamError, place: fn(StreamError) -> ExtractError) -> ExtractError {
    match error {
        StreamError::TooLarge => ExtractError::TooLarge,
        other => place(other),
    }
}

fn copy(tar: &mut Tar, mut file: File, path: &Path) -> Result<(), ExtractError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = tar.read(&mut chunk).map_err(|error| damaged(error, ExtractError::Content))?;
        if count == 0 {
            return Ok(());
        }
        file.write_all(chunk.get(..count).unwrap_or_default())
            .map_err(|error| ExtractError::Entry(PathError::new(Op::Write, path, error)))?;
    }
}

#[cfg(test)]
mod tests;
