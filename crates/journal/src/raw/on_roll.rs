//! A journal that is on the roll of its instance: what it describes is said there, and it has no files before it has something to
//! hold. A process that never says or hears a word has none at all; its end is on the roll too.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ostler_hooks::hook;
use ostler_story::Exit;

use super::Journal;
use super::ctl::Ctl;
use super::files::Home;
use super::record::Record;
use super::recovery::Recovered;
use super::types::{ExitRecord, FrameHead, JournalOptions, OpenError};
use super::writer::Writer;
use crate::index::{RECORD, Record as _};
use crate::roll::Roll;
use crate::{lock, sys};

/// How a process ended whose only frame is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOnRoll(Record);

impl EndOnRoll {
    #[cfg(test)]
    pub(crate) fn of(status: Exit, time_ns: u64) -> Self {
        Self(Record::default().next_exit(status, time_ns))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Record::decode(bytes, 1).filter(|record| record.exit(1).is_some()).map(Self)
    }

    #[cfg(test)]
    pub(crate) fn encode(self) -> [u8; RECORD] {
        self.0.encode(1)
    }
}

pub(super) struct OnRoll {
    roll: Arc<Roll>,
    id: String,
    /// What is to be said there about it, until it was.
    unsaid: Mutex<Option<Vec<u8>>>,
}

impl OnRoll {
    fn describe(&self) -> io::Result<()> {
        let mut unsaid = lock(&self.unsaid);
        if let Some(description) = &*unsaid {
            self.roll.describe(&self.id, description)?;
            *unsaid = None;
        }
        Ok(())
    }
}

impl Journal {
    /// A journal that will be in `dir`, whose name is that of its process, once it has something to hold.
    pub fn later(dir: &Path, options: JournalOptions, roll: &Arc<Roll>, end: Option<EndOnRoll>) -> Arc<Self> {
        let writer = match end {
            Some(EndOnRoll(last)) => Writer { last, seq: 1, ..Writer::default() },
            None => Writer::default(),
        };
        let exit = end.and_then(|EndOnRoll(record)| record.exit(1)).map(ExitRecord::from);
        let found = Recovered { writer, exit, damaged_from: None };
        let journal = Self::assemble(Home::later(dir), options, None, Ctl::begun(), 0, found);
        Arc::new(journal.put_on(roll, dir))
    }

    /// As [`create_with`](Self::create_with), on a roll.
    pub fn create_on(dir: &Path, options: JournalOptions, roll: &Arc<Roll>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self::begin(Home::create(dir)?, options)?.put_on(roll, dir)))
    }

    /// As [`open_with`](Self::open_with), on a roll. `end`: what the roll says about its end, should the files not.
    pub fn open_on(
        dir: &Path,
        options: JournalOptions,
        roll: &Arc<Roll>,
        end: Option<EndOnRoll>,
    ) -> Result<Arc<Self>, OpenError> {
        match Self::new(Home::at(dir), options.clone()) {
            Ok(journal) => Ok(Arc::new(journal.put_on(roll, dir))),
            // Being made is not being there: it has nothing to hold yet.
            Err(OpenError::NotFound | OpenError::Unfinished) => Ok(Self::later(dir, options, roll, end)),
            Err(error) => Err(error),
        }
    }

    fn put_on(mut self, roll: &Arc<Roll>, dir: &Path) -> Self {
        let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.on_roll = Some(OnRoll { roll: Arc::clone(roll), id, unsaid: Mutex::default() });
        self
    }

    /// Whether it has files; without, it holds nothing but perhaps an end.
    pub(crate) fn is_made(&self) -> bool {
        self.home.is_made()
    }

    /// What is to be said about the process on the roll: by whoever hosts it, or with its end.
    pub fn to_be_described(&self, description: Vec<u8>) {
        if let Some(on_roll) = &self.on_roll {
            *lock(&on_roll.unsaid) = Some(description);
        }
    }

    /// Says it. Waits for the disk.
    pub fn describe(&self) -> io::Result<()> {
        self.on_roll.as_ref().map_or(Ok(()), OnRoll::describe)
    }

    /// Makes the files. An end that is on the roll goes first: whatever is said after it is late.
    pub(super) fn make(&self) -> io::Result<()> {
        let writer = lock(&self.writer);
        let first = (writer.seq == 1).then(|| writer.last.encode(1));
        self.home.make(first.as_ref().map(<[u8; RECORD]>::as_slice))
    }

    pub(super) fn end_on_roll(&self, writer: &mut Writer, status: Exit) -> io::Result<()> {
        let record = writer.last.next_exit(status, sys::now_ns());
        hook!("exit.due");
        if let Some(on_roll) = &self.on_roll {
            on_roll.describe()?;
            on_roll.roll.ended(&on_roll.id, &record.encode(1))?;
        }
        self.publish(writer, record);
        Ok(())
    }

    /// The only frame of a journal without files, its end, and the record of that.
    pub(super) fn only_frame(&self) -> Option<(FrameHead, Record)> {
        let exit = self.bounds().exit?;
        let record = Record::default().next_exit(exit.how, exit.time_ns);
        Some((record.exit(1)?, record))
    }
}
