//! What a list shows of each transcript, kept in one file of ours: a line that names the version, then a line for each look into a
//! file; of two about the same file the later holds. It is derived: what is missing or damaged is looked up again.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use super::walk::TranscriptFile;
use super::{Conversation, FILES_MAX, Recorder, Transcript, is_word, offsets};

const FILE: &str = "catalog";
const VERSION: &str = "ostler history 1\n";
/// Two kilobytes for each transcript that is listed.
const BYTES_MAX: u64 = 2048 * FILES_MAX as u64;

/// What is known of a file, and as of when.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    by: String,
    path: String,
    ino: u64,
    size: u64,
    mtime: u64,
    #[serde(flatten)]
    summary: Summary,
}

impl Row {
    pub(super) fn new(recorder: Recorder, found: &TranscriptFile, summary: Summary) -> Self {
        let TranscriptFile { path, ino, size, mtime_ns } = found.clone();
        Self { by: recorder.name().to_owned(), path, ino, size, mtime: mtime_ns, summary }
    }

    pub(super) fn inode(&self) -> u64 {
        self.ino
    }

    /// As a list shows it; nothing for a file in which nobody said anything.
    pub(super) fn conversation(self) -> Option<Conversation> {
        let recorder = Recorder::known(&self.by)?;
        let silent = self.summary.messages == Some(0) || !is_word(&self.summary.id);
        (!silent).then(|| Conversation {
            transcript: Transcript { recorder, id: self.summary.id.clone(), file: Some(self.path) },
            changed_ms: self.mtime / 1_000_000,
            bytes: Some(self.size),
            summary: self.summary,
        })
    }
}

/// What was kept.
pub(super) struct Catalog {
    file: PathBuf,
    rows: HashMap<(String, String), Row>,
    /// Lines of the file.
    lines: usize,
}

impl Catalog {
    pub(super) fn load(dir: &Path) -> Self {
        let file = dir.join(FILE);
        let mut catalog = Self { file, rows: HashMap::new(), lines: 0 };
        let Ok(open) = offsets::open_own(&catalog.file) else { return catalog };
        let mut reader = BufReader::new(open.take(BYTES_MAX));
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() || line != VERSION {
            return catalog;
        }
        loop {
            line.clear();
            match reader.read_line(&mut line) {
                Ok(count) if count > 0 => {}
                _ => return catalog,
            }
            catalog.lines += 1;
            if let Ok(row) = serde_json::from_str::<Row>(&line) {
                catalog.rows.insert((row.by.clone(), row.path.clone()), row);
            }
        }
    }

    /// What is known of this file, if it is still the same.
    pub(super) fn take(&mut self, recorder: Recorder, found: &TranscriptFile) -> Option<Row> {
        let row = self.rows.remove(&(recorder.name().to_owned(), found.path.clone()))?;
        let same = row.ino == found.ino && row.size == found.size && row.mtime == found.mtime_ns;
        same.then_some(row)
    }

    /// Keeps what is new; `all` are the rows that hold now. Those of files that are gone leave once all were looked at.
    pub(super) fn store(&self, fresh: &[Row], all: &[Row], complete: bool) {
        let gone = complete && !self.rows.is_empty();
        if gone || self.lines == 0 || self.lines + fresh.len() > 2 * all.len() + 64 {
            if !all.is_empty() || self.lines > 0 {
                self.write(all.iter().chain(self.rows.values().filter(|_| !complete)));
            }
            return;
        }
        let mut bytes = Vec::new();
        for row in fresh {
            if serde_json::to_writer(&mut bytes, row).is_ok() {
                bytes.push(b'\n');
            }
        }
        if !bytes.is_empty() {
            // What is not kept is looked up again.
            let _ = OpenOptions::new()
                .append(true)
                .mode(0o600)
                .open(&self.file)
                .and_then(|mut file| file.write_all(&bytes));
        }
    }

    fn write<'a>(&self, rows: impl Iterator<Item = &'a Row>) {
        let mut bytes = VERSION.as_bytes().to_vec();
        for row in rows {
            if serde_json::to_writer(&mut bytes, row).is_ok() {
                bytes.push(b'\n');
            }
        }
        let _ = offsets::write(&self.file, &bytes);
    }

    /// What is known of the conversation with this id.
    pub(super) fn rows_of(&self, id: &str) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(move |row| row.summary.id == id)
    }

    /// Deletes it.
    pub(super) fn without(&self, id: &str) {
        if self.rows_of(id).next().is_some() {
            self.write(self.rows.values().filter(|row| row.summary.id != id));
        }
    }

    /// Deletes all whose file is not `alive`.
    pub(super) fn only(&self, alive: impl Fn(u64) -> bool) {
        if self.rows.values().any(|row| !alive(row.ino)) {
            self.write(self.rows.values().filter(|row| alive(row.ino)));
        }
    }
}
