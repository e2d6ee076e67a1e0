//! A walk over the log: every entry must follow from the one before, and every content must be what its hash says. A start
//! begins at the last checkpoint, where the sum of all before is in the log by its hash; `ostler audit --verify` walks it all.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, params};

use super::chain::{self, Entry, HASH_LEN, Hash};
use super::store::{Store, StoreError, as_sql, as_u64};
use super::{Record, content_hash};

/// The entry that names a sum, and the sum.
type Checkpoint = ((u64, Hash), Vec<Entry>);

pub(super) struct Walk<'a> {
    store: &'a Store,
    upto: u64,
    /// Contents that are gone, by the request: only those that nobody said yes to may be.
    gone: HashMap<String, u64>,
    contents: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { store, upto: u64::MAX, gone: HashMap::new(), contents: true }
    }

    /// What is behind this entry is not ours.
    pub(super) fn upto(self, seq: u64) -> Self {
        Self { upto: seq, ..self }
    }

    /// The entries alone.
    pub(super) fn without_contents(self) -> Self {
        Self { contents: false, ..self }
    }

    /// Begins with the first entry there is.
    pub(super) fn all_of_it(self, each: impl FnMut(&Entry, &Record)) -> Result<(u64, Hash), StoreError> {
        self.go((0, [0; HASH_LEN]), each)
    }

    /// Begins with the sum of the last checkpoint, if there is one that holds.
    pub(super) fn since_checkpoint(self, mut each: impl FnMut(&Entry, &Record)) -> Result<(u64, Hash), StoreError> {
        let Some((begin, entries)) = self.checkpoint()? else { return self.all_of_it(each) };
        for entry in entries {
            each(&entry, &self.store.record_of(&entry)?);
        }
        self.go(begin, each)
    }

    /// The sum, and the entry that names it. That entry is one of a chain whose end is vouched for, or nobody vouches for
    /// anything and nothing grants anything.
    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let store = self.store;
        let sql = |source| store.sql(source);
        let text = "SELECT seq, body FROM checkpoint WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1";
        let mut select = store.db.prepare(text).map_err(sql)?;
        let found = select.query_row([as_sql(self.upto)], |row| Ok((as_u64(row.get(0)?), row.get::<_, String>(1)?)));
        let Some((seq, body)) = found.optional().map_err(sql)? else { return Ok(None) };
        let named = store.select("seq = ?1", params![as_sql(seq)])?.pop();
        let before = store.hash_of(seq.saturating_sub(1))?.and_then(|hash| Hash::try_from(hash).ok());
        let (Some(named), Some(before)) = (named, before) else { return Ok(None) };
        let hash = named.hash(&before);
        let record = serde_json::from_str(&named.body).ok();
        let holds = matches!(record, Some(Record::Checkpoint { sha256 }) if sha256 == content_hash(&body))
            && store.hash_of(seq)?.is_some_and(|stored| stored == hash);
        let entries = serde_json::from_str(&body).ok().filter(|_| holds);
        // One that does not hold costs time, and nothing else.
        Ok(entries.map(|entries| ((seq, hash), entries)))
    }

    fn go(mut self, begin: (u64, Hash), mut each: impl FnMut(&Entry, &Record)) -> Result<(u64, Hash), StoreError> {
        let store = self.store;
        let mut last = begin;
        let text = "SELECT seq, at_ms, about, body, hash FROM entry WHERE seq > ?1 AND seq <= ?2 ORDER BY seq";
        let mut select = store.db.prepare(text).map_err(|source| store.sql(source))?;
        let mut rows = select.query(params![as_sql(begin.0), as_sql(self.upto)]).map_err(|source| store.sql(source))?;
        while let Some(row) = rows.next().map_err(|source| store.sql(source))? {
            let entry = chain::entry_of(row).map_err(|source| store.sql(source))?;
            let stored: Vec<u8> = row.get(4).map_err(|source| store.sql(source))?;
            if entry.seq != last.0 + 1 {
                return Err(store.tampered(format!("entry {} is missing", last.0 + 1)));
            }
            let hash = entry.hash(&last.1);
            if stored != hash {
                return Err(store.tampered(format!("entry {} was changed", entry.seq)));
            }
            let record = store.record_of(&entry)?;
            self.look_at_content(&entry, &record)?;
            each(&entry, &record);
            last = (entry.seq, hash);
        }
        match self.gone.into_values().min() {
            Some(seq) => Err(store.tampered(format!("the content of entry {seq} is gone"))),
            None => Ok(last),
        }
    }

    fn look_at_content(&mut self, entry: &Entry, record: &Record) -> Result<(), StoreError> {
        let Some(about) = entry.about.as_ref().filter(|_| self.contents) else { return Ok(()) };
        match record {
            Record::Asked { content, .. } => {
                let found = self.store.content(content).map_err(|error| match error {
                    StoreError::Tampered { path, .. } => {
                        let why = format!("the content of entry {} was changed", entry.seq);
                        StoreError::Tampered { path, why }
                    }
                    other => other,
                })?;
                if found.is_none() {
                    self.gone.insert(about.clone(), entry.seq);
                }
            }
            // Nobody said yes: its hash is enough.
            Record::Expired | Record::Withdrawn { .. } => drop(self.gone.remove(about)),
            Record::Decided { decision, .. } if !decision.is_yes() => drop(self.gone.remove(about)),
            _ => {}
        }
        Ok(())
    }
}
