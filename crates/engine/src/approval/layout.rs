//! The tables of the log, and how older ones become them.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::store::{StoreError, quiet};

/// The layout of the file. A newer one is refused by name and left alone.
/// 3: the tables of 2, with records in words that programs of 2 do not know.
pub(super) const VERSION: i64 = 3;
const FIRST: &str = "
    CREATE TABLE entry (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, about TEXT, body TEXT NOT NULL, hash BLOB NOT NULL) STRICT;
    CREATE INDEX entry_about ON entry (about);
    CREATE TABLE content (hash TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// Signatures of what was written, what becomes of contents, what somebody else wrote, and the sum of all up to an entry.
const SECOND: &str = "
    ALTER TABLE entry ADD COLUMN mac BLOB;
    ALTER TABLE content ADD COLUMN fate INTEGER;
    ALTER TABLE content ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX content_fate ON content (fate);
    CREATE TABLE quarantine (found_ms INTEGER NOT NULL, seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, about TEXT, body TEXT NOT NULL) STRICT;
    CREATE TABLE checkpoint (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    UPDATE content SET fate = -1;
";

/// Waits at most this long for another program that holds the file.
pub(super) fn prepare(db: &Connection, path: &Path, within: Duration) -> Result<(), StoreError> {
    let sql = |source| StoreError::Sqlite { path: path.to_owned(), source };
    db.busy_timeout(within).map_err(sql)?;
    quiet(db).map_err(sql)?;
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
    if found > VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found });
    }
    db.pragma_update(None, "journal_mode", "wal").map_err(sql)?;
    db.pragma_update(None, "synchronous", "full").map_err(sql)?;
    let steps = match found {
        0 => [FIRST, SECOND].concat(),
        1 => SECOND.to_owned(),
        2 => String::new(),
        _ => return Ok(()),
    };
    db.execute_batch(&format!("BEGIN; {steps} PRAGMA user_version = {VERSION}; COMMIT;")).map_err(sql)
}

/// Whether the file has room for what somebody else wrote: an older one, which is only looked at, has none.
pub(super) fn has_quarantine(db: &Connection) -> rusqlite::Result<bool> {
    let found: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(found >= 2)
}
