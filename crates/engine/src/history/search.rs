//! Words in every conversation, newest first, for as long as there is time. What was not looked through is said.

use std::time::{Duration, Instant};

use ostler_workspace::history::{Hit, Needle, Position, Search};

use crate::MayWait;

use super::{Entry, Filter, History, HistoryError, Listed, Meant, Sees, own};

/// Records of a session that are looked at between two questions whether to go on.
const WINDOW: u64 = 512;

/// How a search is bounded.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Hits in all.
    pub limit: usize,
    /// Hits of one conversation.
    pub each: usize,
    /// How long it may take.
    pub within: Duration,
}

/// A hit, and in which conversation.
#[derive(Debug, Clone)]
pub struct HitIn {
    /// The number of the conversation in [`Searched::entries`].
    pub entry: usize,
    /// The hit.
    pub hit: Hit,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Searched {
    /// The conversations with hits, newest first.
    pub entries: Vec<Entry>,
    /// The hits, in the order of their conversations.
    pub hits: Vec<HitIn>,
    /// Conversations that were looked through to their end, or to as many hits as were wanted.
    pub searched: u64,
    /// Conversations that were not, or not to their end.
    pub unsearched: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Lines that could not be read.
    pub unread: u64,
    /// Transcripts that are not listed yet.
    pub behind: u64,
    /// What cannot be read, and why.
    pub unreadable: Vec<String>,
}

impl History<'_> {
    /// Looks through all that are wanted and may be seen. `gone` says that nobody waits any more.
    pub fn search(
        &self,
        needle: &Needle,
        filter: &Filter,
        sees: Sees<'_>,
        wanted: Wanted,
        gone: &dyn Fn() -> bool,
    ) -> Searched {
        let Listed { entries, behind, unreadable } = self.list(filter, sees);
        let mut found = self.search_in(needle, entries, wanted, gone);
        found.unreadable.extend(unreadable);
        found.behind = behind;
        found
    }

    /// Looks through these.
    pub fn search_in(&self, needle: &Needle, entries: Vec<Entry>, wanted: Wanted, gone: &dyn Fn() -> bool) -> Searched {
        let until = Instant::now() + wanted.within;
        let mut found = Searched::default();
        let stop = || Instant::now() > until || gone();
        for entry in entries {
            if found.hits.len() >= wanted.limit || stop() {
                found.unsearched += 1;
                continue;
            }
            let most = wanted.each.min(wanted.limit - found.hits.len());
            let mut hits = Vec::new();
            match self.one(&entry, needle, most, &stop, &mut hits, &mut found) {
                Ok(true) => found.searched += 1,
                Ok(false) => found.unsearched += 1,
                Err(error) => {
                    found.unsearched += 1;
                    let named =
                        entry.conversation.as_ref().map(|found| self.file(&found.transcript).display().to_string());
                    found.unreadable.push(format!("{}: {error}", named.unwrap_or_default()));
                }
            }
            if !hits.is_empty() {
                let number = found.entries.len();
                found.entries.push(entry);
                found.hits.extend(hits.into_iter().map(|hit| HitIn { entry: number, hit }));
            }
        }
        found
    }

    /// Looks through one; whether all of it was.
    fn one(
        &self,
        entry: &Entry,
        needle: &Needle,
        most: usize,
        stop: &dyn Fn() -> bool,
        hits: &mut Vec<Hit>,
        found: &mut Searched,
    ) -> Result<bool, HistoryError> {
        let session = || self.engine.sessions().get(&entry.session.as_ref()?.id);
        let Some(conversation) = &entry.conversation else {
            let Some(session) = session() else { return Ok(true) };
            return Ok(in_session(
                self.wait,
                &Meant { session: Some(session), transcript: None },
                needle,
                most,
                stop,
                hits,
            )?);
        };
        let mut told = |hit| {
            hits.push(hit);
            hits.len() < most
        };
        let mut search = Search { needle, stop, told: &mut told, bytes: 0, unread: 0, stopped: false };
        let done = self.transcripts.search(&conversation.transcript, &mut search);
        found.bytes += search.bytes;
        found.unread += search.unread;
        done?;
        Ok(!search.stopped)
    }
}

fn in_session(
    wait: &MayWait,
    meant: &Meant,
    needle: &Needle,
    most: usize,
    stop: &dyn Fn() -> bool,
    hits: &mut Vec<Hit>,
) -> std::io::Result<bool> {
    let Some(session) = &meant.session else { return Ok(true) };
    let (mut at, last) = (0, session.bounds(wait)?.last);
    while at < last {
        if stop() {
            return Ok(false);
        }
        let to = (at + WINDOW).min(last);
        for (record, message) in own::messages(wait, session, at, to)? {
            hits.extend(Hit::of(needle, Position::numbered(record), &message));
            if hits.len() >= most {
                return Ok(true);
            }
        }
        at = to;
    }
    Ok(true)
}
