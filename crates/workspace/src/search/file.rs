//! One file: opened beneath the root, read to its end or until there is enough of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use rustix::fs::{FileType, OFlags, fstat};

use super::lines::{FoundLine, Lines};
use crate::beneath::Root;

/// A line may be so long while it is looked for; one that is longer ends the search of its file.
const HEAP_MAX: usize = 16 << 20;

/// How each file is searched.
pub(super) struct FileSearch<'a> {
    pub(super) root: &'a Root,
    pub(super) matcher: &'a RegexMatcher,
    pub(super) context: (usize, usize),
    pub(super) most: usize,
    pub(super) until: Instant,
    pub(super) stopped: AtomicBool,
}

/// What was found in one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) lines: Vec<FoundLine>,
    pub(super) more: bool,
    pub(super) bytes: u64,
    pub(super) unreadable: bool,
    pub(super) binary: bool,
    /// There was no time for its end.
    pub(super) cut_off: bool,
}

impl Outcome {
    /// There was no time for any of it.
    pub(super) fn not_looked_at() -> Self {
        Self { cut_off: true, ..Self::default() }
    }

    /// Bytes of the lines that are told.
    pub(super) fn text(&self) -> usize {
        self.lines.iter().map(|line| line.text.len()).sum()
    }
}

impl FileSearch<'_> {
    /// Nobody wants more of it.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_stopped() || Instant::now() >= self.until
    }

    pub(super) fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .before_context(self.context.0)
            .after_context(self.context.1)
            .heap_limit(Some(HEAP_MAX))
            .line_number(true)
            .build()
    }

    pub(super) fn run(&self, searcher: &mut Searcher, path: &Path) -> Outcome {
        let Some(file) = self.open(path) else { return Outcome { unreadable: true, ..Outcome::default() } };
        let (mut read, mut lines) = (Reading { file, bytes: 0, search: self }, Lines::new(self.matcher, self.most));
        let searched = searcher.search_reader(self.matcher, &mut read, &mut lines);
        let cut_off = searched.is_err() && self.is_over();
        Outcome {
            more: lines.more,
            binary: lines.binary,
            lines: lines.found,
            bytes: read.bytes,
            unreadable: searched.is_err() && !cut_off,
            cut_off,
        }
    }

    /// A regular file; nothing else is waited for, and no link is followed.
    fn open(&self, path: &Path) -> Option<File> {
        let file = self.root.at(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).ok()?;
        let regular = fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        regular.then(|| File::from(file))
    }
}

/// A file that ends in an error when nobody waits for more of it.
struct Reading<'a> {
    file: File,
    bytes: u64,
    search: &'a FileSearch<'a>,
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.search.is_over() {
            return Err(io::Error::other("nobody waits for it"));
        }
        let read = self.file.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}
