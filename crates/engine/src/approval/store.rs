//! The SQLite file under the inbox: an append-only log whose entries are chained by hash, and the content that requests
//! are about, by its hash. Each commit is on the disk before anybody hears of what it says.
//!
//! Others can write the file. What is not vouched for is never taken for ours: entries behind ours are put aside, and a log
//! in which ours are missing is refused.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_story::FeedKind;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use rustix::fs::FallocateFlags;

use super::chain::{self, Entry, HASH_LEN, Hash};
use super::contents::Fate;
use super::vouch::{Vouch, Witness};
use super::walk::Walk;
use super::{Record, content_hash, layout, record};
use crate::feed::of_audit;

/// Set aside beside the log: on a full disk decisions are the last thing that may fail. No more than a share of the disk.
const RESERVE: u64 = 64 * 1024 * 1024;
const RESERVE_PERCENT: u64 = 5;
/// Foreign entries that are kept to be looked at; the rest is counted.
const QUARANTINE_MAX: u64 = 1024;
/// Who only looks waits for moments: while the log is made, or brought back after a crash.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// A longer foreign entry is kept by its hash alone.
const QUARANTINE_BODY: usize = 16 * 1024;

/// Why the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database said no.
    #[error("{}: {}", path.display(), in_words(path, source))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
    /// Written by a newer ostler.
    #[error("{}: written by a newer ostler (layout {found}, this one knows {}); use that one, or move the file away", path.display(), layout::VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: i64,
    },
    /// Written by a newer ostler, in words that this one does not know.
    #[error("{}: written by a newer ostler (version {found}, this one knows {}); use that one, or move the file away", path.display(), record::VERSION)]
    NewerRecords {
        /// The file.
        path: PathBuf,
        /// The version of its records.
        found: u32,
    },
    /// Somebody changed what was recorded.
    #[error("{}: the audit log was changed: {why}. See `ostler audit --verify`; no approvals until this is resolved. To start over, move the file and keep it as evidence", path.display())]
    Tampered {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The work on it ended in the middle, which is a fault of ours. What was committed counts.
    #[error("the inbox: internal error: {0}")]
    Lost(String),
    /// Somebody else wrote into the log; that was put aside, and what was to be written was not.
    #[error("{}: {entries} entries were written by somebody else (put aside, see `ostler audit --verify`); nothing was decided. Look at the request again", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// How many entries.
        entries: u64,
    },
}

impl StoreError {
    /// Whether another program has it, and let nobody else write for as long as that was waited for.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Sqlite { source, .. } if is_busy(source))
    }

    /// Whether room on the disk would help.
    pub(super) fn is_full(&self) -> bool {
        let Self::Sqlite { source: rusqlite::Error::SqliteFailure(error, _), .. } = self else { return false };
        // A write-ahead log that can not grow is told as an I/O error.
        matches!(error.code, rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

fn in_words(path: &Path, source: &rusqlite::Error) -> String {
    let path = path.display();
    match is_busy(source) {
        true => format!(
            "another program holds it and does not let go; end that one (`fuser {path}` lists who has it open) and try again"
        ),
        false => source.to_string(),
    }
}

/// What is written in one transaction.
#[derive(Clone, Copy, Default)]
pub(super) struct Change<'a> {
    /// The request that it is about.
    pub(super) about: Option<&'a str>,
    pub(super) at_ms: u64,
    pub(super) records: &'a [&'a Record],
    /// A content to be kept.
    pub(super) content: Option<&'a str>,
    /// What becomes of the content with this hash.
    pub(super) fate: Option<(&'a str, Fate)>,
    /// The sum that the only record names by its hash.
    pub(super) checkpoint: Option<&'a str>,
}

/// How a log was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundLog {
    /// The keeper vouches for it.
    Vouched {
        /// Entries of somebody else that were behind ours.
        foreign: u64,
    },
    /// There was none, or nobody vouches for it.
    Unvouched,
    /// The keeper remembers one with so many entries, and there is none.
    Lost(u64),
}

pub(super) struct Store {
    pub(super) path: PathBuf,
    pub(super) db: Connection,
    pub(super) last: (u64, Hash),
    /// The note beside the log; nothing for who only looks.
    head: Option<File>,
    /// Which file it was when it was opened; nothing for who only looks.
    file: Option<(u64, u64)>,
    /// Our key and who else remembers; nothing for who only looks.
    vouched: Option<(Vouch, std::sync::Arc<Witness>)>,
    /// What was written and nobody was told of yet.
    pub(super) news: Vec<News>,
}

/// An entry that was written.
pub(super) struct News {
    pub(super) seq: u64,
    pub(super) kind: FeedKind,
    pub(super) about: Option<String>,
}

impl Store {
    /// Opens or makes the log and checks what is read of it, handing every entry that counts to `each`.
    pub(super) fn open(
        path: &Path,
        within: Duration,
        witness: &std::sync::Arc<Witness>,
        mut each: impl FnMut(&Entry, &Record),
    ) -> Result<(Self, FoundLog), StoreError> {
        let sql = |source| StoreError::Sqlite { path: path.to_owned(), source };
        let is_new = !path.exists();
        ours_alone(path);
        let db = Connection::open(path).map_err(sql)?;
        layout::prepare(&db, path, within)?;
        let mut store = Self {
            path: path.to_owned(),
            db,
            last: (0, [0; HASH_LEN]),
            head: None,
            file: None,
            vouched: None,
            news: Vec::new(),
        };
        store.file = identity(path);
        let known = witness.vouch();
        let found = match &known {
            // Nothing in it can grant anything: to begin anew is as safe as to refuse.
            Some(vouch) if is_new && vouch.head.0 > 0 => FoundLog::Lost(vouch.head.0),
            Some(vouch) if vouch.head.0 > 0 => {
                let end = store.vouched_end(vouch)?;
                store.last = Walk::new(&store).upto(end).since_checkpoint(&mut each)?;
                FoundLog::Vouched { foreign: store.put_aside()? }
            }
            _ => {
                store.last = Walk::new(&store).since_checkpoint(&mut each)?;
                store.check_head()?;
                FoundLog::Unvouched
            }
        };
        let fresh = || Vouch::fresh().map_err(|error| no_entropy(&error));
        // What nobody vouched for is not what the old key was for.
        let vouch = match (known, &found) {
            (Some(vouch), FoundLog::Vouched { .. }) => vouch,
            _ => fresh()?,
        };
        store.vouched = Some((vouch, std::sync::Arc::clone(witness)));
        store.head =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(store.head_path()).ok();
        store.set_aside();
        Ok((store, found))
    }

    /// The last entry that the key has signed, at or behind the one that the keeper remembers; that one must be there.
    fn vouched_end(&self, vouch: &Vouch) -> Result<u64, StoreError> {
        let (seq, hash) = vouch.head;
        if self.hash_of(seq)? != Some(hash.to_vec()) {
            return Err(self.tampered(format!("entry {seq} was written by this instance, and is gone or changed")));
        }
        let text = "SELECT seq, hash, mac FROM entry WHERE seq > ?1 AND mac IS NOT NULL ORDER BY seq DESC";
        let mut select = self.db.prepare(text).map_err(|source| self.sql(source))?;
        let mut rows = select.query([as_sql(seq)]).map_err(|source| self.sql(source))?;
        while let Some(row) = rows.next().map_err(|source| self.sql(source))? {
            // What is not of our shape is not ours.
            let (Ok(at), Ok(hash), Ok(mac)) =
                (row.get::<_, i64>(0), row.get::<_, Vec<u8>>(1), row.get::<_, Vec<u8>>(2))
            else {
                continue;
            };
            let (Ok(at), Ok(hash)) = (u64::try_from(at), Hash::try_from(hash)) else { continue };
            if vouch.sign(at, &hash)[..] == mac[..] {
                return Ok(at);
            }
        }
        Ok(seq)
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
        db.busy_timeout(LOOK_WITHIN).map_err(sql)?;
        quiet(&db).map_err(sql)?;
        let none = [0; HASH_LEN];
        let last = (as_u64(i64::MAX), none);
        Ok(Self { path: path.to_owned(), db, last, head: None, file: None, vouched: None, news: Vec::new() })
    }

    /// The log up to this entry: what is behind it is not ours, or not told yet.
    pub(super) fn upto(&mut self, last: u64) -> &Self {
        self.last.0 = last;
        self
    }

    pub(super) fn sql(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Sqlite { path: self.path.clone(), source }
    }

    /// What an entry says.
    pub(super) fn record_of(&self, entry: &Entry) -> Result<Record, StoreError> {
        let read = serde_json::from_str(&entry.body);
        match read.map_err(|error| self.tampered(format!("entry {} cannot be read: {error}", entry.seq)))? {
            Record::Opened { version: Some(found), .. } if found > record::VERSION => {
                Err(StoreError::NewerRecords { path: self.path.clone(), found })
            }
            record => Ok(record),
        }
    }

    pub(super) fn tampered(&self, why: String) -> StoreError {
        StoreError::Tampered { path: self.path.clone(), why }
    }

    /// Writes a change in one transaction that is on the disk when this returns. A full disk gives up the reserve first.
    /// Entries of somebody else behind ours are put aside before it, which is an error of its own.
    pub(super) fn append(&mut self, change: &Change<'_>) -> Result<u64, StoreError> {
        match self.try_append(change) {
            Err(error) if error.is_full() && std::fs::remove_file(self.reserve_path()).is_ok() => {
                tracing::warn!("{}: the disk is full; the room set aside is used now", self.path.display());
                self.try_append(change)
            }
            other => other,
        }
    }

    fn try_append(&mut self, new: &Change<'_>) -> Result<u64, StoreError> {
        let path = self.path.clone();
        let sql = |source| StoreError::Sqlite { path: path.clone(), source };
        self.check_end()?;
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        let mut last = self.last;
        // Looked at again: nobody writes while we have the lock.
        let end = change
            .prepare_cached("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")
            .and_then(|mut select| select.query_row([], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?))).optional())
            .map_err(sql)?;
        if end.is_some_and(|(seq, hash)| as_u64(seq) != last.0 || hash != last.1) {
            return Err(StoreError::Foreign { path: path.clone(), entries: 1 });
        }
        if let Some(content) = new.content {
            super::contents::insert(&change, content).map_err(sql)?;
        }
        if let Some((hash, fate)) = new.fate {
            super::contents::settle(&change, hash, fate).map_err(sql)?;
        }
        let count = new.records.len();
        for (index, record) in new.records.iter().enumerate() {
            let body = serde_json::to_string(record).unwrap_or_default();
            let entry = Entry { seq: last.0 + 1, at_ms: new.at_ms, about: new.about.map(str::to_owned), body };
            let hash = entry.hash(&last.1);
            let ends = index + 1 == count;
            let mac = self.vouched.as_ref().filter(|_| ends).map(|(vouch, _)| vouch.sign(entry.seq, &hash));
            change
                .prepare_cached(
                    "INSERT INTO entry (seq, at_ms, about, body, hash, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )
                .and_then(|mut insert| {
                    insert.execute(params![as_sql(entry.seq), as_sql(entry.at_ms), entry.about, entry.body, hash, mac])
                })
                .map_err(sql)?;
            last = (entry.seq, hash);
        }
        if let Some(body) = new.checkpoint {
            change.execute("DELETE FROM checkpoint", []).map_err(sql)?;
            change
                .execute("INSERT INTO checkpoint (seq, body) VALUES (?1, ?2)", params![as_sql(last.0), body])
                .map_err(sql)?;
        }
        change.commit().map_err(sql)?;
        let kinds = (self.last.0 + 1..).zip(new.records).map(|(seq, record)| (seq, of_audit(record)));
        self.news.extend(kinds.map(|(seq, kind)| News { seq, kind, about: new.about.map(str::to_owned) }));
        self.last = last;
        self.note_head();
        // Before anybody hears of it. Should we die in between, the signature speaks for us.
        if let Some((vouch, witness)) = &mut self.vouched {
            vouch.head = last;
            witness.tell(vouch);
        }
        Ok(last.0)
    }

    /// Our last entry must be there, unchanged, and the last; what somebody wrote behind it is put aside.
    fn check_end(&mut self) -> Result<(), StoreError> {
        if self.file != identity(&self.path) {
            return Err(self.tampered("the file was moved away or replaced".into()));
        }
        if self.last.0 > 0 && self.hash_of(self.last.0)? != Some(self.last.1.to_vec()) {
            return Err(
                self.tampered(format!("entry {} was written by this instance, and is gone or changed", self.last.0))
            );
        }
        match self.put_aside()? {
            0 => Ok(()),
            entries => Err(StoreError::Foreign { path: self.path.clone(), entries }),
        }
    }

    /// Moves what is behind our last entry out of the log, to be looked at. Gives how many that were.
    fn put_aside(&mut self) -> Result<u64, StoreError> {
        let path = self.path.clone();
        let sql = |source| StoreError::Sqlite { path: path.clone(), source };
        let last = as_sql(self.last.0);
        let count = |db: &Connection| -> rusqlite::Result<i64> {
            db.prepare_cached("SELECT count(*) FROM entry WHERE seq > ?1")?.query_row([last], |row| row.get(0))
        };
        if count(&self.db).map_err(sql)? == 0 {
            return Ok(0);
        }
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        let foreign = count(&change).map_err(sql)?;
        let kept: i64 = change.query_row("SELECT count(*) FROM quarantine", [], |row| row.get(0)).map_err(sql)?;
        let room = as_sql(QUARANTINE_MAX).saturating_sub(kept).max(0);
        let text = "INSERT INTO quarantine (found_ms, seq, at_ms, about, body)
            SELECT ?1, seq, at_ms, about, CASE WHEN length(body) > ?2 THEN substr(body, 1, ?2) ELSE body END
            FROM entry WHERE seq > ?3 ORDER BY seq LIMIT ?4";
        let now = as_sql(super::clock::wall_ms());
        change.execute(text, params![now, as_sql(QUARANTINE_BODY as u64), last, room]).map_err(sql)?;
        change.execute("DELETE FROM entry WHERE seq > ?1", [last]).map_err(sql)?;
        change.commit().map_err(sql)?;
        tracing::error!("{}: {foreign} entries were written by somebody else; put aside", path.display());
        Ok(as_u64(foreign))
    }

    /// Foreign entries that were put aside: when they were found, and what they say.
    pub(super) fn quarantined(&self) -> Result<Vec<(u64, Entry)>, StoreError> {
        if !layout::has_quarantine(&self.db).map_err(|source| self.sql(source))? {
            return Ok(Vec::new());
        }
        let text = "SELECT seq, at_ms, about, body, found_ms FROM quarantine ORDER BY found_ms, seq";
        let mut select = self.db.prepare(text).map_err(|source| self.sql(source))?;
        let rows = select.query_map([], |row| Ok((as_u64(row.get(4)?), chain::entry_of(row)?)));
        rows.and_then(Iterator::collect).map_err(|source| self.sql(source))
    }

    /// Notes the last entry beside the log: only a help against a cut tail, so a failure costs nothing. Written over in
    /// place, because cutting a file first makes some file systems write it out at once; it never gets shorter.
    fn note_head(&self) {
        if let Some(head) = &self.head {
            let _ = head.write_all_at(chain::head(self.last.0, &self.last.1).as_bytes(), 0);
        }
    }

    /// Entries after `after`, at most `most` of them.
    pub(super) fn read(&self, after: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        let values = params![as_sql(after), as_sql(self.last.0), as_sql(most as u64)];
        self.select("seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3", values)
    }

    /// Every entry about one request.
    pub(super) fn about(&self, id: &str) -> Result<Vec<Entry>, StoreError> {
        self.select("about = ?1 AND seq <= ?2 ORDER BY seq", params![id, as_sql(self.last.0)])
    }

    /// The ids that begin like this, newest first, at most `most`.
    pub(super) fn ids(&self, prefix: &str, most: usize) -> Result<Vec<String>, StoreError> {
        let text = "SELECT about FROM entry WHERE about >= ?1 AND about < ?1 || 'zz' AND seq <= ?3 GROUP BY about ORDER BY max(seq) DESC LIMIT ?2";
        let mut select = self.db.prepare_cached(text).map_err(|source| self.sql(source))?;
        let rows = select.query_map(params![prefix, as_sql(most as u64), as_sql(self.last.0)], |row| row.get(0));
        rows.and_then(Iterator::collect).map_err(|source| self.sql(source))
    }

    /// The content with this hash; one that is not what its hash says is none.
    pub(super) fn content(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let mut select =
            self.db.prepare_cached("SELECT body FROM content WHERE hash = ?1").map_err(|source| self.sql(source))?;
        let row = select.query_row([hash], |row| row.get::<_, String>(0)).optional();
        match row.map_err(|source| self.sql(source))? {
            Some(body) if content_hash(&body) != hash => Err(self.tampered(format!("the content {hash} was changed"))),
            other => Ok(other),
        }
    }

    pub(super) fn select(&self, condition: &str, values: impl rusqlite::Params) -> Result<Vec<Entry>, StoreError> {
        let text = format!("SELECT seq, at_ms, about, body FROM entry WHERE {condition}");
        let mut select = self.db.prepare_cached(&text).map_err(|source| self.sql(source))?;
        let rows = select.query_map(values, chain::entry_of);
        rows.and_then(Iterator::collect).map_err(|source| self.sql(source))
    }

    /// The hash that is stored with an entry.
    pub(super) fn hash_of(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut select =
            self.db.prepare_cached("SELECT hash FROM entry WHERE seq = ?1").map_err(|source| self.sql(source))?;
        let stored = select.query_row([as_sql(seq)], |row| row.get::<_, Vec<u8>>(0)).optional();
        stored.map_err(|source| self.sql(source))
    }

    /// The note beside the log names an entry that must be there, unchanged.
    pub(super) fn check_head(&self) -> Result<(), StoreError> {
        let Some((seq, hash)) = std::fs::read_to_string(self.head_path()).ok().as_deref().and_then(chain::parse_head)
        else {
            return Ok(());
        };
        match self.hash_of(seq)? {
            Some(stored) if super::hex(&stored) == hash => Ok(()),
            _ => Err(self.tampered(format!("entry {seq} was there once, and is gone or changed"))),
        }
    }

    fn reserve_path(&self) -> PathBuf {
        reserve_of(&self.path)
    }

    fn head_path(&self) -> PathBuf {
        self.path.with_extension("head")
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// What is set aside beside the log at `path`.
pub(super) fn reserve_of(path: &Path) -> PathBuf {
    path.with_extension("reserve")
}

/// The file and those that SQLite makes beside it, which get its mode, are for nobody else. The folder is not either, so a
/// failure costs nothing.
fn ours_alone(path: &Path) {
    let _ = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::set_permissions(PathBuf::from(name), std::fs::Permissions::from_mode(0o600));
    }
}

/// What somebody put into the schema does not act when we write.
pub(super) fn quiet(db: &Connection) -> rusqlite::Result<()> {
    for (what, on) in [
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    ] {
        db.set_db_config(what, on)?;
    }
    Ok(())
}

fn no_entropy(error: &std::io::Error) -> StoreError {
    StoreError::Sqlite {
        path: "/dev/urandom".into(),
        source: rusqlite::Error::ToSqlConversionFailure(error.to_string().into()),
    }
}

pub(super) fn as_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn as_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
