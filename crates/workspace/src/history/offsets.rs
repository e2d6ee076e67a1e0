//! Where the messages of a transcript begin, found once and kept: what grew since is added, what is another file is read anew.
//!
//! A file of ours for each transcript that somebody counted: a line that says what it is of, then the distances between
//! messages, seven bits to a byte.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ostler_agents::transcript::{line, may_be_message};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::Recorder;
use super::identity::{Identity, Position};
use super::lines::{Line, end, forward};
use crate::{Durable, replace};

const VERSION: u32 = 1;
const FOLDER: &str = "offsets";
/// Messages of one transcript that are counted: 32 MB of memory while somebody asks.
const COUNTED_MAX: usize = 4_000_000;

/// The ids that were seen last: who writes a message again does so soon.
#[derive(Default)]
pub(super) struct Recent(VecDeque<String>);

/// As many as lie between a message and its last writing.
const RECENT: usize = 64;

impl Recent {
    /// Whether this id was not seen just now; remembers it.
    pub(super) fn is_new(&mut self, id: Option<&str>) -> bool {
        let Some(id) = id else { return true };
        if self.0.iter().any(|seen| seen == id) {
            return false;
        }
        if self.0.len() >= RECENT {
            self.0.pop_front();
        }
        self.0.push_back(id.chars().take(64).collect());
        true
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    identity: u64,
    /// As far as it was read.
    read: u64,
    size: u64,
    mtime_ns: i64,
    count: u64,
    /// The ids that may be written again.
    recent: Vec<String>,
}

/// Where each message begins.
pub(super) struct Offsets {
    starts: Vec<u64>,
    read: u64,
    recent: Recent,
}

impl Offsets {
    /// Those of this transcript, as it is now.
    pub(super) fn of(dir: &Path, recorder: Recorder, file: &File) -> io::Result<Self> {
        let (identity, meta) = (Identity::of(file)?, file.metadata()?);
        let path = path_of(dir, meta.ino());
        let kept = load(&path).filter(|(head, _)| head.identity == identity.0 && head.read <= meta.len());
        let unchanged = kept.as_ref().is_some_and(|(head, _)| head.size == meta.len() && head.mtime_ns == mtime(&meta));
        let mut offsets = kept.map_or_else(
            || Self { starts: Vec::new(), read: 0, recent: Recent::default() },
            |(head, starts)| Self { starts, read: head.read, recent: Recent(head.recent.into()) },
        );
        if !unchanged {
            offsets.read_on(recorder, file, end(file, meta.len())?)?;
            // One that cannot be kept costs time at the next look, nothing else.
            let _ = offsets.store(&path, identity, &meta);
        }
        Ok(offsets)
    }

    fn read_on(&mut self, recorder: Recorder, file: &File, to: u64) -> io::Result<()> {
        let Self { starts, recent, .. } = self;
        self.read = forward(file, self.read, to, &mut |start, _, text| {
            if let Line::Whole(bytes) = text
                && may_be_message(recorder, bytes)
                && let Some(message) = line(recorder, bytes).and_then(|told| told.message)
                && recent.is_new(message.id.as_deref())
            {
                starts.push(start);
            }
            starts.len() < COUNTED_MAX
        })?;
        Ok(())
    }

    /// How many messages there are.
    pub(super) fn count(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Where the message with this number is; the end for one that is not there yet.
    pub(super) fn position(&self, number: u64, file: &File) -> io::Result<Position> {
        let start = usize::try_from(number).ok().and_then(|number| self.starts.get(number));
        Ok(Position { identity: Identity::of(file)?, offset: start.copied().unwrap_or(self.read) })
    }

    fn store(&self, path: &Path, identity: Identity, meta: &fs::Metadata) -> io::Result<()> {
        let head = Head {
            version: VERSION,
            identity: identity.0,
            read: self.read,
            size: meta.len(),
            mtime_ns: mtime(meta),
            count: self.count(),
            recent: self.recent.0.iter().cloned().collect(),
        };
        let mut bytes = serde_json::to_vec(&head)?;
        bytes.push(b'\n');
        let mut last = 0;
        for start in &self.starts {
            push(start - last, &mut bytes);
            last = *start;
        }
        write(path, &bytes)
    }
}

fn mtime(meta: &fs::Metadata) -> i64 {
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

/// Replaces a file of ours, for its owner only.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Two that look at once have a name each.
    let number = std::thread::current().id();
    replace(path, &path.with_extension(format!("new-{number:?}")), bytes, Durable::No)
}

/// Opens a file of ours, in whose place somebody may have put something else: nothing is waited for.
pub(super) fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("this is not a file")),
    }
}

fn path_of(dir: &Path, inode: u64) -> PathBuf {
    dir.join(FOLDER).join(format!("{inode:x}"))
}

fn load(path: &Path) -> Option<(Head, Vec<u64>)> {
    let mut bytes = Vec::new();
    open_own(path).ok()?.read_to_end(&mut bytes).ok()?;
    let feed = memchr::memchr(b'\n', &bytes)?;
    let head: Head = serde_json::from_slice(bytes.get(..feed)?).ok()?;
    if head.version != VERSION {
        return None;
    }
    let (mut starts, mut at, mut value, mut shift) = (Vec::new(), 0_u64, 0_u64, 0_u32);
    for byte in bytes.get(feed + 1..)? {
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            at = at.checked_add(value)?;
            starts.push(at);
            (value, shift) = (0, 0);
        }
    }
    // What was torn is made anew.
    (shift == 0 && starts.len() as u64 == head.count && at <= head.read).then_some((head, starts))
}

fn push(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Deletes what is kept of the transcript with this inode.
pub(super) fn forget(dir: &Path, inode: u64) {
    let _ = fs::remove_file(path_of(dir, inode));
}

/// Deletes what is kept of those that are not `alive`.
pub(super) fn only(dir: &Path, alive: impl Fn(u64) -> bool) {
    for entry in fs::read_dir(dir.join(FOLDER)).into_iter().flatten().flatten() {
        let inode = entry.file_name().to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
        if !inode.is_some_and(&alive) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
