//! The files below an agent's folder, found and opened one component at a time without following links: what a link leads to
//! is not a transcript, and neither is a pipe or a device.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::{Recorder, is_word};

/// Entries of one folder that are looked at: whoever has more of them put them there to be looked at.
const ENTRIES_MAX: usize = 200_000;

/// A file that may be a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    /// Below the recorder's folder.
    pub(super) path: String,
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mtime_ns: u64,
}

impl TranscriptFile {
    /// The file that is open.
    pub(super) fn of(path: String, file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        let mtime_ns = nanos(meta.mtime(), meta.mtime_nsec());
        Ok(Self { path, ino: meta.ino(), size: meta.len(), mtime_ns })
    }
}

fn nanos(seconds: i64, nanos: i64) -> u64 {
    let (seconds, nanos) = (u64::try_from(seconds).unwrap_or(0), u64::try_from(nanos).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// How the files of a recorder lie: the folders above each.
fn depth(recorder: Recorder) -> usize {
    match recorder {
        Recorder::Claude => 1,
        Recorder::Codex => 3,
        Recorder::Gemini => 2,
        Recorder::Opencode => 0,
    }
}

/// Whether a folder at this depth may hold transcripts.
fn is_way(recorder: Recorder, depth: usize, name: &str) -> bool {
    match recorder {
        Recorder::Codex => name.bytes().all(|byte| byte.is_ascii_digit()),
        Recorder::Gemini if depth == 1 => name == "chats",
        _ => !name.starts_with('.') && name.len() <= 255,
    }
}

/// The id that a file's name tells; of gemini's the beginning.
pub(super) fn id_of(recorder: Recorder, name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".jsonl")?;
    match recorder {
        Recorder::Claude => Some(stem).filter(|id| is_uuid(id)),
        Recorder::Codex => stem.strip_prefix("rollout-")?.get(stem.len().checked_sub(44)?..).filter(|id| is_uuid(id)),
        Recorder::Gemini => stem.strip_prefix("session-")?.rsplit('-').next().filter(|id| is_word(id)),
        Recorder::Opencode => None,
    }
}

fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| if dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// Every file of a recorder, and how many there are beyond `max`.
pub(super) fn files(recorder: Recorder, root: &Path, max: usize) -> io::Result<(Vec<TranscriptFile>, u64)> {
    let (mut found, mut more) = (Vec::new(), 0);
    each(recorder, root, &mut |folder, path, name| {
        if id_of(recorder, name).is_none() {
            return;
        }
        if found.len() >= max {
            more += 1;
        } else if let Some(file) = stat(folder, path, name) {
            found.push(file);
        }
    })?;
    Ok((found, more))
}

/// The files whose name tells this id, or its beginning.
pub(super) fn named(recorder: Recorder, root: &Path, id: &str) -> Vec<TranscriptFile> {
    let mut found = Vec::new();
    if recorder == Recorder::Claude {
        // The whole name is known: nobody looks through a folder for it.
        let name = format!("{id}.jsonl");
        let folders = openat(CWD, root, folder_flags() - OFlags::NOFOLLOW, Mode::empty());
        let entries = folders.as_ref().ok().and_then(|folders| Dir::read_from(folders).ok()).into_iter().flatten();
        for entry in entries.take(ENTRIES_MAX).flatten().filter(|_| id_of(recorder, &name).is_some()) {
            let Ok(path) = entry.file_name().to_str() else { continue };
            let folder = folders.as_ref().ok().filter(|_| is_way(recorder, 0, path));
            let folder = folder.and_then(|folders| openat(folders, path, folder_flags(), Mode::empty()).ok());
            found.extend(folder.and_then(|folder| stat(&folder, path, &name)));
        }
        return found;
    }
    // Who has no such folder has no such file.
    let _ = each(recorder, root, &mut |folder, path, name| {
        let fits = |told: &str| told == id || recorder == Recorder::Gemini && id.starts_with(told);
        if id_of(recorder, name).is_some_and(fits) {
            found.extend(stat(folder, path, name));
        }
    });
    found
}

fn stat(folder: &OwnedFd, path: &str, name: &str) -> Option<TranscriptFile> {
    let meta = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(meta.st_mode) != FileType::RegularFile {
        return None;
    }
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    let mtime_ns = nanos(meta.st_mtime as i64, meta.st_mtime_nsec as i64);
    Some(TranscriptFile { path, ino: meta.st_ino, size: u64::try_from(meta.st_size).unwrap_or(0), mtime_ns })
}

type Each<'a> = &'a mut dyn FnMut(&OwnedFd, &str, &str);

fn each(recorder: Recorder, root: &Path, take: Each<'_>) -> io::Result<()> {
    // The folder itself may be a link of the user's own; nothing below it is followed.
    let folder = openat(CWD, root, folder_flags() - OFlags::NOFOLLOW, Mode::empty())?;
    down(recorder, folder, "", 0, take);
    Ok(())
}

fn down(recorder: Recorder, folder: OwnedFd, path: &str, at: usize, take: Each<'_>) {
    let Ok(entries) = Dir::read_from(&folder) else { return };
    for entry in entries.take(ENTRIES_MAX).flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        if at == depth(recorder) {
            take(&folder, path, name);
        } else if name != "." && name != ".." && is_way(recorder, at, name) {
            let Ok(below) = openat(folder.as_fd(), name, folder_flags(), Mode::empty()) else { continue };
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            down(recorder, below, &path, at + 1, take);
        }
    }
}

/// Opens a regular file below `root`. Never waits for a pipe's writer, and never leaves the folder.
pub(super) fn open(root: &Path, path: &str) -> io::Result<File> {
    let mut at = openat(CWD, root, folder_flags() - OFlags::NOFOLLOW, Mode::empty())?;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() || part == "." || part == ".." {
            return Err(Errno::INVAL.into());
        }
        if parts.peek().is_some() {
            at = openat(&at, part, folder_flags(), Mode::empty())?;
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&at, part, flags, Mode::empty())?);
        return match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        };
    }
    Err(Errno::INVAL.into())
}
