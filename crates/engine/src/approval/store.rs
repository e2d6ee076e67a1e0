//! The SQLite file under the inbox: an append-only log whose entries are chained by hash, and the content that requests
//! are about, by its hash. Each commit is on the disk before anybody hears of what it says.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use rustix::fs::FallocateFlags;

use super::ledger::{self, Entry, HASH_LEN, Hash};
use super::{Record, content_hash};

/// The layout of the file. A newer one is refused by name and left alone.
const VERSION: i64 = 1;
/// A second program that looks at the file holds it for moments only.
const BUSY: std::time::Duration = std::time::Duration::from_secs(5);

/// Set aside beside the log: on a full disk decisions are the last thing that may fail. No more than a share of the disk.
const RESERVE: u64 = 64 * 1024 * 1024;
const RESERVE_PERCENT: u64 = 5;

/// Why the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database said no.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
    /// Written by a newer ostler.
    #[error("{}: written by a newer ostler (layout {found}, this one knows {VERSION}); use that one, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: i64,
    },
    /// Somebody changed what was recorded.
    #[error("{}: the audit log was changed: {why}. See `ostler audit --verify`; no approvals until this is resolved. To start over, move the file and keep it as evidence", path.display())]
    Tampered {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
}

impl StoreError {
    /// Whether room on the disk would help.
    pub(super) fn is_full(&self) -> bool {
        let Self::Sqlite { source: rusqlite::Error::SqliteFailure(error, _), .. } = self else { return false };
        // A write-ahead log that can not grow is told as an I/O error.
        matches!(error.code, rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure)
    }
}

pub(super) struct Store {
    path: PathBuf,
    db: Connection,
    last: (u64, Hash),
    /// The note beside the log; nothing for who only looks.
    head: Option<File>,
}

const SCHEMA: &str = "
    CREATE TABLE entry (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, about TEXT, body TEXT NOT NULL, hash BLOB NOT NULL) STRICT;
    CREATE INDEX entry_about ON entry (about);
    CREATE TABLE content (hash TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

impl Store {
    /// Opens or makes the log and checks all of it, handing every entry to `each`.
    pub(super) fn open(path: &Path, mut each: impl FnMut(&Entry, &Record)) -> Result<Self, StoreError> {
        let sql = |source| StoreError::Sqlite { path: path.to_owned(), source };
        let db = Connection::open(path).map_err(sql)?;
        prepare(&db, path)?;
        let mut store = Self { path: path.to_owned(), db, last: (0, [0; HASH_LEN]), head: None };
        store.last = store.check(|entry, record| each(entry, record))?;
        store.check_head()?;
        store.head =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(store.head_path()).ok();
        store.set_aside();
        Ok(store)
    }

    /// Takes the reserve while there is room. Without it the log still works, until the disk is full.
    fn set_aside(&self) {
        let taken = (|| {
            let file =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.reserve_path())?;
            let disk = rustix::fs::fstatvfs(&file)?;
            let share = disk.f_blocks.saturating_mul(disk.f_frsize) / 100 * RESERVE_PERCENT;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE.min(share).max(1))?;
            std::io::Result::Ok(())
        })();
        if let Err(error) = taken {
            tracing::warn!("{}: no room set aside for decisions: {error}", self.reserve_path().display());
            // What was taken of it would only make the disk fuller.
            let _ = std::fs::remove_file(self.reserve_path());
        }
    }

    /// Opens a log to look at it only.
    pub(super) fn look(path: &Path) -> Result<Self, StoreError> {
        let sql = |source| StoreError::Sqlite { path: path.to_owned(), source };
        let db = Connection::open(path).map_err(sql)?;
        db.busy_timeout(BUSY).map_err(sql)?;
        Ok(Self { path: path.to_owned(), db, last: (0, [0; HASH_LEN]), head: None })
    }

    fn sql(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Sqlite { path: self.path.clone(), source }
    }

    /// Appends records about `about` in one transaction that is on the disk when this returns. A full disk gives up the
    /// reserve first.
    pub(super) fn append(
        &mut self,
        about: Option<&str>,
        at_ms: u64,
        records: &[&Record],
        content: Option<&str>,
    ) -> Result<u64, StoreError> {
        match self.try_append(about, at_ms, records, content) {
            Err(error) if error.is_full() && std::fs::remove_file(self.reserve_path()).is_ok() => {
                tracing::warn!("{}: the disk is full; the room set aside is used now", self.path.display());
                self.try_append(about, at_ms, records, content)
            }
            other => other,
        }
    }

    fn try_append(
        &mut self,
        about: Option<&str>,
        at_ms: u64,
        records: &[&Record],
        content: Option<&str>,
    ) -> Result<u64, StoreError> {
        let path = self.path.clone();
        let sql = |source| StoreError::Sqlite { path: path.clone(), source };
        let change = self.db.transaction().map_err(sql)?;
        let mut last = self.last;
        if let Some(content) = content {
            change
                .prepare_cached("INSERT OR IGNORE INTO content (hash, body) VALUES (?1, ?2)")
                .and_then(|mut insert| insert.execute(params![content_hash(content), content]))
                .map_err(sql)?;
        }
        for record in records {
            let body = serde_json::to_string(record).unwrap_or_default();
            let entry = Entry { seq: last.0 + 1, at_ms, about: about.map(str::to_owned), body };
            let hash = entry.hash(&last.1);
            change
                .prepare_cached("INSERT INTO entry (seq, at_ms, about, body, hash) VALUES (?1, ?2, ?3, ?4, ?5)")
                .and_then(|mut insert| {
                    insert.execute(params![as_sql(entry.seq), as_sql(entry.at_ms), entry.about, entry.body, hash])
                })
                .map_err(sql)?;
            last = (entry.seq, hash);
        }
        change.commit().map_err(sql)?;
        self.last = last;
        self.note_head();
        Ok(last.0)
    }

    /// Notes the last entry beside the log: only a help against a cut tail, so a failure costs nothing. Written over in
    /// place, because cutting a file first makes some file systems write it out at once; it never gets shorter.
    fn note_head(&self) {
        if let Some(head) = &self.head {
            let _ = head.write_all_at(ledger::head(self.last.0, &self.last.1).as_bytes(), 0);
        }
    }

    /// Entries after `after`, at most `most` of them.
    pub(super) fn read(&self, after: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.select("seq > ?1 ORDER BY seq LIMIT ?2", params![as_sql(after), as_sql(most as u64)])
    }

    /// Every entry about one request.
    pub(super) fn about(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        self.select("about = ?1 ORDER BY seq", params![id])
    }

    /// The ids that begin like this, newest first, at most `most`.
    pub(super) fn ids(&self, prefix: &str, most: usize) -> Result<Vec<String>, StoreError> {
        let text = "SELECT about FROM entry WHERE about >= ?1 AND about < ?1 || 'zz' GROUP BY about ORDER BY max(seq) DESC LIMIT ?2";
        let mut select = self.db.prepare_cached(text).map_err(|source| self.sql(source))?;
        let rows = select.query_map(params![prefix, as_sql(most as u64)], |row| row.get(0));
        rows.and_then(Iterator::collect).map_err(|source| self.sql(source))
    }

    /// The content with this hash.
    pub(super) fn content(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let mut select =
            self.db.prepare_cached("SELECT body FROM content WHERE hash = ?1").map_err(|source| self.sql(source))?;
        let row = select.query_row([hash], |row| row.get::<_, String>(0)).optional();
        row.map_err(|source| self.sql(source))
    }

    fn select(&self, condition: &str, values: impl rusqlite::Params) -> Result<Vec<Entry>, StoreError> {
        let text = format!("SELECT seq, at_ms, about, body FROM entry WHERE {condition}");
        let mut select = self.db.prepare_cached(&text).map_err(|source| self.sql(source))?;
        let rows = select.query_map(values, ledger::entry_of);
        rows.and_then(Iterator::collect).map_err(|source| self.sql(source))
    }

    /// Walks the whole log: every entry must follow from the one before, and every content must be what its hash says.
    pub(super) fn check(&self, mut each: impl FnMut(&Entry, &Record)) -> Result<(u64, Hash), StoreError> {
        let tampered = |why: String| StoreError::Tampered { path: self.path.clone(), why };
        let mut last = (0, [0; HASH_LEN]);
        let mut select = self
            .db
            .prepare("SELECT seq, at_ms, about, body, hash FROM entry ORDER BY seq")
            .map_err(|source| self.sql(source))?;
        let mut rows = select.query([]).map_err(|source| self.sql(source))?;
        while let Some(row) = rows.next().map_err(|source| self.sql(source))? {
            let entry = ledger::entry_of(row).map_err(|source| self.sql(source))?;
            let stored: Vec<u8> = row.get(4).map_err(|source| self.sql(source))?;
            if entry.seq != last.0 + 1 {
                return Err(tampered(format!("entry {} is missing", last.0 + 1)));
            }
            let hash = entry.hash(&last.1);
            if stored != hash {
                return Err(tampered(format!("entry {} was changed", entry.seq)));
            }
            let record = serde_json::from_str(&entry.body)
                .map_err(|error| tampered(format!("entry {} cannot be read: {error}", entry.seq)))?;
            if let Record::Asked { content, .. } = &record
                && self.content(content)?.is_none_or(|body| content_hash(&body) != *content)
            {
                return Err(tampered(format!("the content of entry {} was changed", entry.seq)));
            }
            each(&entry, &record);
            last = (entry.seq, hash);
        }
        Ok(last)
    }

    /// The note beside the log names an entry that must be there, unchanged.
    pub(super) fn check_head(&self) -> Result<(), StoreError> {
        let Some((seq, hash)) = std::fs::read_to_string(self.head_path()).ok().as_deref().and_then(ledger::parse_head)
        else {
            return Ok(());
        };
        let mut select =
            self.db.prepare_cached("SELECT hash FROM entry WHERE seq = ?1").map_err(|source| self.sql(source))?;
        let stored = select.query_row([as_sql(seq)], |row| row.get::<_, Vec<u8>>(0)).optional();
        match stored.map_err(|source| self.sql(source))? {
            Some(stored) if super::hex(&stored) == hash => Ok(()),
            _ => Err(StoreError::Tampered {
                path: self.path.clone(),
                why: format!("entry {seq} was there once, and is gone or changed"),
            }),
        }
    }

    fn reserve_path(&self) -> PathBuf {
        reserve_of(&self.path)
    }

    fn head_path(&self) -> PathBuf {
        self.path.with_extension("head")
    }
}

/// What is set aside beside the log at `path`.
pub(super) fn reserve_of(path: &Path) -> PathBuf {
    path.with_extension("reserve")
}

fn prepare(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let sql = |source| StoreError::Sqlite { path: path.to_owned(), source };
    db.busy_timeout(BUSY).map_err(sql)?;
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
    if found > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found });
    }
    db.pragma_update(None, "journal_mode", "wal").map_err(sql)?;
    db.pragma_update(None, "synchronous", "full").map_err(sql)?;
    if found == 0 {
        db.execute_batch(&format!("BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")).map_err(sql)?;
    }
    Ok(())
}

fn as_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
