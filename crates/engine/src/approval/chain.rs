//! Entries of the audit and the chain between them: each carries the hash of itself and of the one before, so that no entry
//! can be changed, removed or put in between without every later hash being wrong.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// SHA-256.
pub(super) const HASH_LEN: usize = 32;
pub(super) type Hash = [u8; HASH_LEN];

/// One entry of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its position, from 1, without gaps.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The request it is about.
    pub about: Option<String>,
    /// The record, as JSON.
    pub body: String,
}

/// What a walk over the whole log found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// How many entries there are.
    pub entries: u64,
    /// The hash of the last, in hex: whoever notes it elsewhere can tell later whether the log was written anew.
    pub head: String,
    /// What somebody else wrote into the file, and when that was found (milliseconds since 1970). It counts for nothing.
    pub foreign: Vec<(u64, Entry)>,
}

impl Entry {
    /// The hash that is stored with it. Each part is preceded by its length, so that no two entries read alike.
    pub(super) fn hash(&self, before: &Hash) -> Hash {
        let mut sum = Sha256::new();
        sum.update(before);
        sum.update(self.seq.to_le_bytes());
        sum.update(self.at_ms.to_le_bytes());
        let about = self.about.as_deref().unwrap_or("");
        for part in [about.as_bytes(), self.body.as_bytes()] {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        }
        sum.finalize().into()
    }
}

pub(super) fn entry_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Entry> {
    let number = |column| row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Entry { seq: number(0)?, at_ms: number(1)?, about: row.get(2)?, body: row.get(3)? })
}

/// The note beside the log: the last entry and its hash.
pub(super) fn head(seq: u64, hash: &Hash) -> String {
    format!("{seq} {}\n", super::hex(hash))
}

pub(super) fn parse_head(text: &str) -> Option<(u64, String)> {
    let (seq, hash) = text.trim().split_once(' ')?;
    Some((seq.parse().ok()?, hash.to_owned()))
}
