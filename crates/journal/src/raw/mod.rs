//! The journal of one process generation: its files, their end, and who reads them.

pub(crate) mod ctl;
mod files;
mod lines;
pub(crate) mod mark;
mod notify;
mod on_roll;
mod reader;
mod record;
mod recovery;
mod retention;
mod senders;
mod tail;
#[cfg(test)]
mod tests;
mod types;
mod writer;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ostler_story::Exit;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::lock;
use crate::probe::FsKind;
use ctl::Ctl;
pub(crate) use ctl::Fact;
use files::{CTL, Home};
pub(crate) use files::{ERR, Files, IDX, IN, OUT};
pub use lines::LineStart;
use mark::{Mark, Trust};
pub(crate) use notify::Subscribers;
pub use notify::{Subscription, Wake};
pub use on_roll::EndOnRoll;
use on_roll::OnRoll;
pub use reader::Cursor;
use recovery::Recovered;
pub use retention::disk_usage;
pub(crate) use senders::{somebody, terminal};
pub use types::{
    Answers, Bounds, ExitRecord, FrameHead, HeldBack, HeldReason, JournalOptions, Kind, Missing, OpenError, Step,
};
pub(crate) use writer::Writer;

/// Says how much of the raw files is on the disk.
const MARK: &str = "mark";

/// The journal of one process generation.
pub struct Journal {
    home: Home,
    pub(crate) options: JournalOptions,
    /// What readers look at for every frame; the rest is in `state`.
    last_seq: AtomicU64,
    first_seq: AtomicU64,
    /// What was said after this frame is lost; the largest number where nothing is.
    lost_after: AtomicU64,
    state: Mutex<Bounds>,
    writer: Mutex<Writer>,
    ctl: Mutex<Ctl>,
    cutting: Mutex<()>,
    subscribers: Arc<Subscribers>,
    /// Files with bytes that were not synced; see `sync`.
    pub(crate) dirty: AtomicU8,
    /// Frames up to here are on the disk.
    pub(crate) synced_seq: AtomicU64,
    /// What this daemon has put on the disk of the raw files; nothing before its first sync.
    marked: Mutex<Option<Mark>>,
    /// Its names and its facts are on the disk.
    settled: AtomicBool,
    /// Somebody other than this kernel can make its files stall.
    remote: bool,
    /// What it has to do with the roll of its instance; nothing where it is not on one.
    on_roll: Option<OnRoll>,
}

impl Journal {
    /// Creates a journal in `dir` (made, 0700; files 0600).
    pub fn create(dir: &Path) -> io::Result<Arc<Self>> {
        Self::create_with(dir, JournalOptions::default())
    }

    /// As [`create`](Self::create), with options.
    pub fn create_with(dir: &Path, options: JournalOptions) -> io::Result<Arc<Self>> {
        Self::begin(Home::create(dir)?, options).map(Arc::new)
    }

    /// Opens what is in `dir`: cuts a torn index, indexes bytes that were journaled but never became visible.
    /// That writes, so only one program may do it at a time: the daemon that holds the instance.
    pub fn open(dir: &Path) -> Result<Arc<Self>, OpenError> {
        Self::open_with(dir, JournalOptions::default())
    }

    /// As [`open`](Self::open), with options.
    pub fn open_with(dir: &Path, options: JournalOptions) -> Result<Arc<Self>, OpenError> {
        Self::new(Home::at(dir), options).map(Arc::new)
    }

    /// A journal in memory files, for private processes.
    pub fn in_memory(options: JournalOptions) -> io::Result<Arc<Self>> {
        Self::begin(Home::memory()?, options).map(Arc::new)
    }

    /// Reopens an in-memory journal from what [`held`](Self::held) gave, and recovers.
    pub fn from_held(fds: Vec<OwnedFd>, options: JournalOptions) -> Result<Arc<Self>, OpenError> {
        Self::new(Home::from_held(fds)?, options).map(Arc::new)
    }

    fn new(home: Home, options: JournalOptions) -> Result<Self, OpenError> {
        // The version first: a newer journal is refused before anything is touched.
        let ctl = match home.ctl() {
            Ok(file) => Ctl::read(&file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(&home)),
            Err(error) => return Err(error.into()),
        };
        let files = home.files()?;
        let applied = files.input().map_or(Ok(0), |input| input.metadata().map(|meta| meta.len()))?;
        let trust = home.dir().map_or(Trust::All, |dir| mark::trust(&dir.join(MARK)));
        let found = recovery::recover(&files, ctl.first, trust)?;
        if let (Some(dir), Trust::Only(_)) = (home.dir(), trust) {
            // From here on a kill costs nothing again.
            Mark { out: found.writer.out_len, err: found.writer.err_len }.renew(&dir.join(MARK))?;
        }
        let journal = Self::assemble(home, options, Some(&files), ctl, applied, found);
        // On a full disk the rest becomes visible later, when it is hosted or opened again.
        let _ = journal.index_rest(&files);
        Ok(journal)
    }

    /// Files that were made just now: there is nothing in them to read.
    fn begin(home: Home, options: JournalOptions) -> io::Result<Self> {
        let files = home.files()?;
        Ok(Self::assemble(home, options, Some(&files), Ctl::begun(), 0, Recovered::default()))
    }

    fn assemble(
        home: Home,
        options: JournalOptions,
        files: Option<&Files>,
        ctl: Ctl,
        applied: u64,
        found: Recovered,
    ) -> Self {
        // Unknown is not remote: a file system without a number is this kernel's own.
        let is_remote = |files: &Files| FsKind::of(&files.out).is_ok_and(|kind| kind.is_remote());
        let remote = home.dir().is_some() && files.is_some_and(is_remote);
        let damaged_from = found.damaged_from.into_iter().chain(ctl.damaged_from).min();
        let last = found.writer.last;
        let bounds = Bounds {
            first_seq: ctl.first.seq,
            last_seq: found.writer.seq,
            out_end: last.out_end,
            err_end: last.err_end,
            applied,
            answered: ctl.senders.answered(applied),
            exit: found.exit,
            held_back: None,
            damaged_from,
            lost_after: ctl.lost_after,
        };
        Self {
            home,
            options,
            last_seq: AtomicU64::new(bounds.last_seq),
            first_seq: AtomicU64::new(bounds.first_seq),
            lost_after: AtomicU64::new(bounds.lost_after.unwrap_or(u64::MAX)),
            state: Mutex::new(bounds),
            writer: Mutex::new(found.writer),
            ctl: Mutex::new(ctl),
            cutting: Mutex::new(()),
            subscribers: Arc::default(),
            dirty: AtomicU8::new(0),
            synced_seq: AtomicU64::new(bounds.last_seq),
            marked: Mutex::new(None),
            settled: AtomicBool::new(false),
            remote,
            on_roll: None,
        }
    }

    fn index_rest(&self, files: &Files) -> io::Result<()> {
        let mut writer = lock(&self.writer);
        for kind in [Kind::Stdout, Kind::Stderr] {
            while writer.pending(kind) > 0 {
                self.index(&mut writer, files, kind)?;
                ostler_hooks::hook!("recovery.indexed");
            }
        }
        Ok(())
    }

    /// The memory files of an in-memory journal, for the keeper to hold; empty for one on disk.
    pub fn held(&self) -> io::Result<Vec<OwnedFd>> {
        self.home.share()
    }

    /// A fresh read-only description of `in`, at position 0, for the keeper to hold (its position is shared).
    pub fn ledger_reader(&self) -> io::Result<OwnedFd> {
        self.home.ledger_reader()
    }

    /// Whether its files are on FUSE or a network file system, so that any use of them may wait for somebody else.
    pub fn is_remote(&self) -> bool {
        self.remote
    }

    /// Pipes for the keeper to hold, to lie between the child's outputs and files that may stall: read and write end for
    /// stdout, then for stderr. Empty where the file system needs none, and in memory.
    pub fn relays(&self) -> io::Result<Vec<OwnedFd>> {
        let mut ends = Vec::new();
        if self.remote {
            for _ in [Kind::Stdout, Kind::Stderr] {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                ends.extend([read, write]);
            }
        }
        Ok(ends)
    }

    /// What it holds at the moment. Cheap.
    pub fn bounds(&self) -> Bounds {
        *lock(&self.state)
    }

    /// The directory; `None` in memory.
    pub fn dir(&self) -> Option<&Path> {
        self.home.dir()
    }

    /// Stdin was closed after this many bytes; `None` while it is open.
    pub fn stdin_closed_at(&self) -> Option<u64> {
        lock(&self.ctl).stdin_closed
    }

    /// Journals the exit of a process that nobody hosts (found dead at start). Does nothing if there is one.
    pub fn record_exit(&self, status: Exit) -> io::Result<()> {
        self.end(status)
    }

    /// Notes that nobody held the pipes of this process any more: what it wrote after its last frame is lost, and readers
    /// are told so there. Does nothing if it was noted before, or if the process had ended.
    pub fn record_lost(&self) -> io::Result<()> {
        let bounds = self.bounds();
        if bounds.lost_after.is_some() || bounds.exit.is_some() {
            return Ok(());
        }
        self.record(Fact::Lost(bounds.last_seq))?;
        self.lost_after.store(bounds.last_seq, Ordering::SeqCst);
        self.update(|changed| changed.lost_after = Some(bounds.last_seq));
        Ok(())
    }

    /// Closes the files until the next use; an exited process then costs no descriptor.
    pub fn close_files(&self) {
        self.home.close();
    }

    /// What of the raw files was put on the disk by this daemon; nothing before its first sync.
    pub(crate) fn marked(&self) -> Option<Mark> {
        *lock(&self.marked)
    }

    /// The raw files are on the disk up to here. Says so there, for whoever opens them in another boot; where that can
    /// not be said, nothing is.
    pub(crate) fn set_mark(&self, mark: Mark) {
        let Some(dir) = self.home.dir() else { return };
        let new = match mark.write(&dir.join(MARK)) {
            Ok(()) => Some(mark),
            Err(_) => {
                Mark::remove(&dir.join(MARK));
                None
            }
        };
        *lock(&self.marked) = new;
    }

    /// Nothing is synced any more.
    pub(crate) fn remove_mark(&self) {
        if let Some(dir) = self.home.dir() {
            Mark::remove(&dir.join(MARK));
        }
    }

    /// Puts its facts and the names of its files on the disk; without a name its bytes would be there but not found.
    /// Gives back its folder, if the name of that is to follow; [`unsettle`](Self::unsettle) where it can not.
    pub(crate) fn settle(&self) -> io::Result<Option<&Path>> {
        let Some(dir) = self.home.dir() else { return Ok(None) };
        // First, so that a fact which is recorded meanwhile is not taken for one that is there.
        if self.settled.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        let synced = self.home.one(CTL).and_then(|ctl| ctl.sync_data()).and_then(|()| File::open(dir)?.sync_all());
        synced.inspect_err(|_| self.unsettle()).map(|()| Some(dir))
    }

    /// What [`settle`](Self::settle) began was not finished.
    pub(crate) fn unsettle(&self) {
        self.settled.store(false, Ordering::Release);
    }

    /// How long the raw files are; a sync that begins after this covers it.
    pub(crate) fn raw_lengths(&self) -> io::Result<Mark> {
        let opened = self.home.opened();
        let length = |name| match (opened.as_ref().and_then(|files| files.named(name)), self.home.dir()) {
            (Some(file), _) => file.metadata(),
            (None, Some(dir)) => std::fs::metadata(dir.join(name)),
            (None, None) => Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Mark { out: length(OUT)?.len(), err: length(ERR)?.len() })
    }

    /// Puts one of its files on the disk, without opening the others for it.
    pub(crate) fn sync(&self, name: &str) -> Result<(), SyncError> {
        let opened = self.home.opened();
        let synced = match opened.as_ref().and_then(|files| files.named(name)) {
            Some(file) => file.sync_data(),
            None => self.home.one(name).map_err(SyncError::opening)?.sync_data(),
        };
        synced.map_err(|_| SyncError::Failed)
    }

    /// The files, made if there are none yet: something is to be put into them.
    pub(crate) fn files(&self) -> io::Result<Arc<Files>> {
        if !self.home.is_made() {
            self.make()?;
        }
        self.home.files()
    }

    /// `in`, made if there is none yet.
    pub(crate) fn input<'a>(&self, files: &'a Files) -> io::Result<&'a File> {
        self.home.input(files)
    }

    pub(crate) fn writer(&self) -> std::sync::MutexGuard<'_, Writer> {
        lock(&self.writer)
    }

    /// Changes what [`bounds`](Self::bounds) says and tells the subscribers.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Bounds)) {
        let (before, after) = {
            let mut state = lock(&self.state);
            let before = *state;
            change(&mut state);
            (before, *state)
        };
        if before != after {
            self.subscribers.wake();
        }
    }

    /// How much of one sender's stdin was accepted, when all of it is this long.
    pub(crate) fn stdin_accepted_of(&self, sender: u64, applied: u64) -> u64 {
        lock(&self.ctl).senders.accepted(sender, applied)
    }

    /// How much of a ledger of this length answers questions to the terminal.
    pub(crate) fn stdin_answered(&self, applied: u64) -> u64 {
        lock(&self.ctl).senders.answered(applied)
    }

    /// The questions to its terminal that were answered.
    pub fn answers(&self) -> Answers {
        lock(&self.ctl).senders.answers()
    }

    /// Records whose the next bytes of stdin are, where that changes.
    pub(crate) fn stdin_turn(&self, sender: Option<u64>, applied: u64) -> io::Result<()> {
        let change = lock(&self.ctl).senders.change(sender, applied);
        change.map_or(Ok(()), |turn| self.record(Fact::Sender(turn)))
    }

    /// Writes a fact into `ctl`.
    pub(crate) fn record(&self, fact: Fact) -> io::Result<()> {
        self.files()?;
        let file = self.home.ctl()?;
        lock(&self.ctl).append(&file, fact)?;
        self.unsettle();
        Ok(())
    }

    /// Frames from `seq` on cannot be relied upon.
    pub(crate) fn damaged(&self, seq: u64) {
        self.update(|bounds| {
            bounds.damaged_from = Some(bounds.damaged_from.map_or(seq, |old| old.min(seq)));
        });
    }
}

/// Why a file is not on the disk.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// Nothing was tried, so nothing is lost: too many open files.
    NotOpen,
    /// Deleted meanwhile: there is nothing to put on a disk.
    Gone,
    /// The kernel has dropped what was dirty, or will.
    Failed,
}

impl SyncError {
    fn opening(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Gone,
            _ => Self::NotOpen,
        }
    }
}

fn missing(home: &Home) -> OpenError {
    match home.dir() {
        Some(dir) if dir.join("out").exists() => OpenError::Unfinished,
        _ => OpenError::NotFound,
    }
}
