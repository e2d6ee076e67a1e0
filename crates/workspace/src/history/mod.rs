//! Conversations that other programs recorded: where agents keep their transcripts, what is in them, and what they say.
//!
//! # Theory of operation
//! A transcript is another program's file and may be anything: it is read in bounded pieces, without following links, never
//! written, and what cannot be read is left out and counted. A place in one is the offset of a line together with what tells
//! that file from another ([`Position`]), so any reader goes on from any place, and notices when the file is not what it was.
//! What a list shows of a file is kept in one file of ours ([`catalog`]), and where its messages begin in another ([`offsets`]);
//! both are derived, belong to the user alone, and may be deleted at any time.

mod catalog;
mod identity;
mod lines;
mod offsets;
mod opencode;
mod page;
mod places;
mod running;
mod search;
mod summary;
mod walk;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

pub use identity::{Changed, Position};
pub use lines::LINE_MAX;
pub use ostler_agents::transcript::Recorder;
pub use page::{Begin, Page, Placed};
pub use places::Places;
pub use running::{Evidence, Running};
pub use search::{Hit, Needle, Search, Stop};
pub use summary::Summary;

use catalog::{Catalog, Row};
use walk::TranscriptFile;

/// Transcripts that are looked at: more than ten years of work. What is beyond is said.
pub const FILES_MAX: usize = 50_000;

/// The transcripts of a user.
#[derive(Debug, Clone)]
pub struct History {
    places: Places,
    /// Where the index is kept.
    dir: PathBuf,
}

/// Where a conversation is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// By whom.
    pub recorder: Recorder,
    /// The agent's own id of the conversation: 1 to 128 letters, digits, `-` and `_`.
    pub id: String,
    /// The file, below the folder of its recorder; nothing for one in a database.
    pub file: Option<String>,
}

impl Transcript {
    /// Whether its recorder filed it under this folder, whatever the lines in it say: claude has a folder for each, named after
    /// its path.
    pub fn is_filed_under(&self, folder: &std::path::Path) -> bool {
        let plain = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
        let name: String = folder.to_string_lossy().chars().map(plain).collect();
        // Versions differ in which signs they replace.
        let filed = self.file.as_deref().and_then(|file| file.split_once('/')).map(|(filed, _)| filed);
        let filed: Option<String> = filed.map(|filed| filed.chars().map(plain).collect());
        self.recorder == Recorder::Claude && filed.as_deref() == Some(name.as_str())
    }
}

/// A conversation that somebody recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Where.
    pub transcript: Transcript,
    /// When it was last written, in milliseconds since 1970.
    pub changed_ms: u64,
    /// The bytes of its file.
    pub bytes: Option<u64>,
    /// What it is about.
    pub summary: Summary,
}

/// Every conversation that was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listed {
    /// Newest first, each once.
    pub conversations: Vec<Conversation>,
    /// Files that there was no time to look into, or that are too many.
    pub behind: u64,
    /// What cannot be read, and why; at most a few, for people.
    pub unreadable: Vec<String>,
}

/// Files whose names begin alike that are looked into for one id.
const NAMED_ALIKE: usize = 64;
/// Complaints that are kept: the first ones tell what is wrong.
const UNREADABLE_MAX: usize = 20;

impl Listed {
    fn complain(&mut self, what: &std::path::Path, error: &io::Error) {
        if self.unreadable.len() < UNREADABLE_MAX && error.kind() != io::ErrorKind::NotFound {
            self.unreadable.push(format!("{}: {error}", what.display()));
        }
    }
}

impl History {
    /// The transcripts of these places; what is derived from them is kept in `dir`.
    pub fn new(places: Places, dir: PathBuf) -> Self {
        Self { places, dir }
    }

    /// All of them, newest first. Those that were not looked into before `until` are counted; the next call goes on with them.
    pub fn list(&self, until: Instant) -> Listed {
        let mut listed = Listed::default();
        let mut files: Vec<(Recorder, TranscriptFile)> = Vec::new();
        for (recorder, root) in self.places.folders() {
            let left = FILES_MAX - files.len();
            match walk::files(recorder, root, left) {
                Ok((found, more)) => {
                    files.extend(found.into_iter().map(|found| (recorder, found)));
                    listed.behind += more;
                }
                Err(error) => listed.complain(root, &error),
            }
        }
        files.sort_by_key(|(_, found)| Reverse(found.mtime_ns));
        let mut catalog = Catalog::load(&self.dir);
        let mut fresh = Vec::new();
        let mut rows: Vec<Row> = Vec::with_capacity(files.len());
        for (recorder, found) in files {
            match catalog.take(recorder, &found) {
                Some(row) => rows.push(row),
                None if Instant::now() > until => listed.behind += 1,
                None => match self.look_into(recorder, &found) {
                    Ok(row) => {
                        fresh.push(row.clone());
                        rows.push(row);
                    }
                    Err(error) => listed.complain(&self.places.root(recorder).join(&found.path), &error),
                },
            }
        }
        catalog.store(&fresh, &rows, listed.behind == 0);
        listed.conversations.extend(rows.into_iter().filter_map(Row::conversation));
        match opencode::list(self.places.database()) {
            Ok(found) => listed.conversations.extend(found),
            Err(error) => listed.complain(self.places.database(), &error),
        }
        listed.conversations.sort_by_key(|found| Reverse(found.changed_ms));
        let mut seen = HashSet::new();
        let key = |found: &Conversation| (found.transcript.recorder, found.transcript.id.clone());
        listed.conversations.retain(|found| seen.insert(key(found)));
        listed
    }

    fn look_into(&self, recorder: Recorder, found: &TranscriptFile) -> io::Result<Row> {
        let root = self.places.root(recorder);
        let file = walk::open(root, &found.path)?;
        let summary = summary::read(recorder, &file, root, &found.path)?;
        Ok(Row::new(recorder, found, summary))
    }

    /// Where the conversation with exactly this id is recorded, without a list of all; the newest of each recorder.
    pub fn locate(&self, id: &str) -> Vec<Transcript> {
        if !is_word(id) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (recorder, root) in self.places.folders() {
            let mut named = walk::named(recorder, root, id);
            named.sort_by_key(|found| Reverse(found.mtime_ns));
            let is_it = |path: &String| match recorder {
                // Its names tell only the beginning of an id.
                Recorder::Gemini => summary::id_in(root, path).as_deref() == Some(id),
                _ => true,
            };
            if let Some(path) = named.into_iter().take(NAMED_ALIKE).map(|found| found.path).find(is_it) {
                found.push(Transcript { recorder, id: id.to_owned(), file: Some(path) });
            }
        }
        if opencode::has(self.places.database(), id) {
            found.push(Transcript { recorder: Recorder::Opencode, id: id.to_owned(), file: None });
        }
        found
    }

    /// What a list would show of it, with every message counted.
    pub fn describe(&self, transcript: &Transcript) -> io::Result<Conversation> {
        let Some(path) = &transcript.file else {
            return opencode::describe(self.places.database(), &transcript.id);
        };
        let (recorder, root) = (transcript.recorder, self.places.root(transcript.recorder));
        let file = walk::open(root, path)?;
        let found = TranscriptFile::of(path.clone(), &file)?;
        let mut summary = summary::read(recorder, &file, root, path)?;
        summary.messages = Some(offsets::Offsets::of(&self.dir, recorder, &file)?.count());
        let row = Row::new(recorder, &found, summary);
        row.conversation().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has no id"))
    }

    /// Messages from a place on. May wait for the disk.
    pub fn page(&self, transcript: &Transcript, begin: Begin, limit: usize) -> io::Result<Page> {
        let Some(path) = &transcript.file else {
            return opencode::page(self.places.database(), &transcript.id, begin, limit);
        };
        let file = walk::open(self.places.root(transcript.recorder), path)?;
        let begin = match begin {
            Begin::Number(number) => {
                let offsets = offsets::Offsets::of(&self.dir, transcript.recorder, &file)?;
                Begin::From(offsets.position(number, &file)?)
            }
            other => other,
        };
        page::read(transcript.recorder, &file, begin, limit)
    }

    /// Looks for words in this conversation; `told` hears of every place and says whether to go on.
    pub fn search(&self, transcript: &Transcript, search: &mut Search<'_>) -> io::Result<()> {
        match &transcript.file {
            Some(path) => {
                let file = walk::open(self.places.root(transcript.recorder), path)?;
                search::through(transcript, &file, search)
            }
            None => opencode::search(self.places.database(), transcript, search),
        }
    }

    /// Whether the program that recorded it seems to be at it.
    pub fn running(&self, transcript: &Transcript, workspace: Option<&str>, changed_ms: u64) -> Option<Running> {
        let file = transcript.file.as_ref().map(|file| self.places.root(transcript.recorder).join(file));
        running::look(transcript, file.as_deref(), workspace, changed_ms)
    }

    /// The file of a transcript, for people.
    pub fn file(&self, transcript: &Transcript) -> PathBuf {
        match &transcript.file {
            Some(file) => self.places.root(transcript.recorder).join(file),
            None => self.places.database().to_owned(),
        }
    }

    /// Deletes what is kept here of this conversation. Its transcript is its recorder's, and stays.
    pub fn forget(&self, id: &str) {
        let kept = Catalog::load(&self.dir);
        for row in kept.rows_of(id) {
            offsets::forget(&self.dir, row.inode());
        }
        kept.without(id);
    }

    /// Lets go of what is kept of transcripts that are gone.
    pub fn tidy(&self) {
        if !self.dir.exists() {
            return;
        }
        let mut living: HashSet<u64> = HashSet::new();
        for (recorder, root) in self.places.folders() {
            match walk::files(recorder, root, FILES_MAX) {
                Ok((found, 0)) => living.extend(found.into_iter().map(|found| found.ino)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Who cannot be looked at is not gone.
                _ => return,
            }
        }
        let kept = Catalog::load(&self.dir);
        kept.only(|inode| living.contains(&inode));
        offsets::only(&self.dir, |inode| living.contains(&inode));
    }
}

/// Whether a text can be an id: never a path, an option or something to interpret.
pub fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=128).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests;
