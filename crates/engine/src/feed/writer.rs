//! The thread that writes the feed: the only one that adds to it, and the only one here that waits for the disk.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler_journal::{ENGINE, EventCursor, EventJournal, EventStep, OpenError, Pumps};

use super::entry::{Checkpoint, Entry};
use super::now_ns;
use super::pending::{Batch, Pending};
use super::sources::{FoundAtStart, Sources, behind};
use super::sum::{News, Source, Sum, What, weave};
use crate::MayWait;

/// The format of entries that this ostler writes, and the newest it reads.
pub(super) const VERSION: u32 = 1;
/// The source of checkpoints in the journal: the last of them is found without reading the others.
const CHECKPOINT: u32 = 1;
/// Entries between two checkpoints; more where many sources are known, so that they cost a fraction of the rest.
const CHECKPOINT_EVERY: u64 = 4096;
/// What is kept: weeks of what one machine does, and less on the disk than one long build log.
pub(super) const KEEP_BYTES: u64 = 64 << 20;
const KEEP_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// How soon a disk that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes until the end.
pub(super) fn run(
    wait: &MayWait,
    pending: &Pending,
    (dir, pumps): (&Path, &Pumps),
    found: &FoundAtStart,
    sources: &dyn Sources,
) {
    let mut said = false;
    let mut writer = loop {
        match Writer::open(wait, dir, found, sources) {
            Ok(writer) => break writer,
            Err(Refused::Newer(version)) => {
                let why = format!("{} was written by a newer ostler (format {version})", dir.display());
                tracing::error!("feed: {why}");
                return pending.open(Err(why));
            }
            Err(Refused::Io(error)) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::error!("feed: {}: {error}; tried again until it works", dir.display());
                }
                pending.open(Err(format!("{}: {error}", dir.display())));
                if !pending.pause(AGAIN) {
                    return;
                }
            }
        }
    };
    pumps.keep_synced(&writer.journal);
    pending.open(Ok(Arc::clone(&writer.journal)));
    while let Some(batch) = pending.next() {
        writer.take(wait, batch, sources);
        while let Err(error) = writer.flush() {
            tracing::warn!("feed: {}: {error}", dir.display());
            if !pending.pause(AGAIN) {
                return;
            }
        }
    }
}

/// Why a feed is not opened.
#[derive(Debug)]
pub(super) enum Refused {
    Newer(u32),
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) struct Writer {
    pub(super) journal: Arc<EventJournal>,
    pub(super) sum: Sum,
    /// Counted as told, and not on the disk yet.
    unwritten: Vec<Vec<u8>>,
    since_checkpoint: u64,
}

impl Writer {
    /// Opens the feed in `dir`, or begins one, and brings it into line with its sources.
    pub(super) fn open(
        wait: &MayWait,
        dir: &Path,
        found: &FoundAtStart,
        sources: &dyn Sources,
    ) -> Result<Self, Refused> {
        let journal = match EventJournal::open(dir) {
            Ok(journal) => journal,
            Err(OpenError::Version { found, .. }) => return Err(Refused::Newer(found)),
            Err(OpenError::Io(error)) => return Err(error.into()),
            Err(OpenError::NotFound) => EventJournal::create(dir)?,
            Err(error) => {
                // Whoever has a position in it is told that it is another feed.
                tracing::error!("feed: {}: {error}; begun anew", dir.display());
                std::fs::remove_dir_all(dir)?;
                EventJournal::create(dir)?
            }
        };
        let mut writer = Self { journal, sum: Sum::default(), unwritten: Vec::new(), since_checkpoint: 0 };
        let checkpoint = writer.journal.derived_up_to(CHECKPOINT);
        if checkpoint == 0 {
            // What was before the feed is told elsewhere.
            writer.sum = found.sum();
            writer.checkpoint()?;
            return Ok(writer);
        }
        writer.add_up(checkpoint - 1)?;
        if found.lower(&mut writer.sum) {
            writer.checkpoint()?;
        }
        let missing = weave(found.beyond(wait, &writer.sum, sources)?);
        writer.tell(missing);
        writer.flush()?;
        Ok(writer)
    }

    /// Adds up what follows this entry.
    fn add_up(&mut self, after: u64) -> Result<(), Refused> {
        let (mut cursor, mut payload) = (EventCursor::new(Arc::clone(&self.journal), after), Vec::new());
        loop {
            payload.clear();
            match cursor.next_blocking(&mut payload)? {
                EventStep::Event(_) => {
                    let Some(entry) = Entry::decode(&payload) else { continue };
                    if let Entry::Checkpoint(Checkpoint { version, .. }) = &entry
                        && *version > VERSION
                    {
                        return Err(Refused::Newer(*version));
                    }
                    self.sum.take(&entry);
                    self.since_checkpoint += 1;
                }
                EventStep::Gap { .. } => {}
                EventStep::UpToDate | EventStep::WouldBlock => return Ok(()),
            }
        }
    }

    /// Takes what was noted, and what there was no room for.
    pub(super) fn take(&mut self, wait: &MayWait, batch: Batch, sources: &dyn Sources) {
        let (mut news, mut sum) = (Vec::with_capacity(batch.news.len()), HashMap::<Source, u64>::new());
        for one in batch.news {
            let known = *sum.entry(one.source.clone()).or_insert_with(|| self.sum.of(&one.source));
            if one.at > known + 1 && matches!(one.what, What::Said(_) | What::Noted(_)) {
                news.extend(self.read(wait, &one.source, one.at - 1, sources));
            }
            sum.insert(one.source.clone(), one.at.max(known));
            news.push(one);
        }
        self.tell(news);
        let rows: Vec<Vec<News>> =
            batch.behind.iter().map(|(source, to)| self.read(wait, source, *to, sources)).collect();
        self.tell(weave(rows));
    }

    /// What a source has up to here; what cannot be read is told as words.
    fn read(&self, wait: &MayWait, source: &Source, to: u64, sources: &dyn Sources) -> Vec<News> {
        behind(wait, &self.sum, source, to, sources).unwrap_or_else(|error| {
            tracing::warn!("feed: {source:?} cannot be read: {error}");
            Vec::new()
        })
    }

    fn tell(&mut self, news: Vec<News>) {
        let entries = self.sum.tell(news);
        self.unwritten.extend(entries.iter().map(Entry::encode));
    }

    /// Writes what was told; what fails is tried again with the next call.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.journal.append_all(ENGINE, &self.unwritten)?;
        self.since_checkpoint += self.unwritten.len() as u64;
        self.unwritten.clear();
        if self.since_checkpoint > CHECKPOINT_EVERY.max(2 * self.sum.len() as u64) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Says how far every source was told, and lets go of what is too old or too much.
    pub(super) fn checkpoint(&mut self) -> io::Result<()> {
        let checkpoint = Entry::Checkpoint(Checkpoint { version: VERSION, sum: self.sum.clone() });
        let number = self.journal.append_all(CHECKPOINT, &[checkpoint.encode()])?;
        self.since_checkpoint = 0;
        let oldest = now_ns().saturating_sub(u64::try_from(KEEP_FOR.as_nanos()).unwrap_or(u64::MAX));
        self.journal.cut_to(KEEP_BYTES, oldest, number)
    }
}
