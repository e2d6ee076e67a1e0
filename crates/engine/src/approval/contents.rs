//! What becomes of the contents of requests. What was once said yes to is kept for good; what was refused, expired or
//! withdrawn is kept for a while, and after that only its hash is, which the log has: whoever asks for much and gets nothing
//! fills no disk.

use rusqlite::{Connection, params};

use super::content_hash;
use super::store::{Store, StoreError, as_sql, as_u64};

/// How long a content is kept that nobody said yes to: long enough to be looked into on the next day.
const KEPT_MS: u64 = 48 * 3600 * 1000;
/// What all such contents may hold together; of more, the oldest go first.
pub(super) const KEPT_BYTES: u64 = 32 * 1024 * 1024;
/// Kept for good.
const FOR_GOOD: i64 = -1;

/// What becomes of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Somebody said yes to it.
    Kept,
    /// Nobody did, at this time.
    Refused(u64),
}

/// Keeps a content while it is asked about. One that is there is what its hash says, or is written over.
pub(super) fn insert(db: &Connection, content: &str) -> rusqlite::Result<()> {
    let text = "INSERT INTO content (hash, body, bytes, fate) VALUES (?1, ?2, ?3, NULL) ON CONFLICT (hash) DO UPDATE
        SET body = excluded.body, bytes = excluded.bytes, fate = CASE WHEN fate = -1 THEN -1 END";
    let values = params![content_hash(content), content, as_sql(content.len() as u64)];
    db.prepare_cached(text)?.execute(values).map(drop)
}

/// Notes what becomes of a content. A yes counts for good, whatever is said later.
pub(super) fn settle(db: &Connection, hash: &str, fate: Fate) -> rusqlite::Result<()> {
    let fate = match fate {
        Fate::Kept => FOR_GOOD,
        Fate::Refused(at_ms) => as_sql(at_ms.saturating_add(KEPT_MS)),
    };
    let text = "UPDATE content SET fate = ?2 WHERE hash = ?1 AND (fate IS NULL OR fate <> -1)";
    db.prepare_cached(text)?.execute(params![hash, fate]).map(drop)
}

impl Store {
    /// Lets contents go whose time is over, and the oldest where they are too many. Those that are still `open` stay.
    pub(super) fn forget_contents(&mut self, now_ms: u64, open: impl Fn(&str) -> bool) -> Result<u64, StoreError> {
        let path = self.path.clone();
        let sql = |source| StoreError::Sqlite { path: path.clone(), source };
        let found = {
            let text = "SELECT hash, fate, bytes FROM content WHERE fate >= 0 ORDER BY fate DESC";
            let mut select = self.db.prepare_cached(text).map_err(sql)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?));
            let rows = select.query_map([], row).map_err(sql)?;
            rows.collect::<rusqlite::Result<Vec<(String, i64, i64)>>>().map_err(sql)?
        };
        let mut held = 0;
        let mut gone = Vec::new();
        for (hash, until, bytes) in found.into_iter().filter(|(hash, ..)| !open(hash)) {
            held += as_u64(bytes);
            if as_u64(until) <= now_ms || held > KEPT_BYTES {
                gone.push(hash);
            }
        }
        if gone.is_empty() {
            return Ok(0);
        }
        let change = self.db.transaction().map_err(sql)?;
        for hash in &gone {
            change.execute("DELETE FROM content WHERE hash = ?1", [hash]).map_err(sql)?;
        }
        change.commit().map_err(sql)?;
        Ok(gone.len() as u64)
    }
}
