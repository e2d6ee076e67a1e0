//! Reading the feed: from a position, through a filter, with cursors that never wait unless they are told to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use ostler_journal::{EventCursor, EventHead, EventStep, Missing};

use super::entry::{Change, Entry};
use super::position::stamp;
use super::{Feed, Kind, Position};
use crate::MayWait;

/// What a reader wants; everything, by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// These kinds; all of them if it is empty.
    pub kinds: Vec<Kind>,
    /// What is about this session: its records, its agent's processes, its requests.
    pub session: Option<String>,
    /// What is in this folder or beneath it.
    pub workspace: Option<PathBuf>,
    /// Of what happens in folders only what happens where sessions work.
    pub of_sessions: bool,
}

/// A place in the feed to read from.
pub struct Opened {
    /// The reader. It may stand before an entry of which something was told: see [`Opened::told`].
    pub cursor: EventCursor,
    /// What was told of the entry that comes first.
    pub told: Option<(u64, u64)>,
    /// The position is not one that can be gone on from: reading begins with what is kept.
    pub gap: Option<Missing>,
    /// The oldest entry that is kept.
    pub first: u64,
    /// The newest entry.
    pub last: u64,
}

impl Feed {
    /// A reader after this position. Waits for the disk, and for a feed that is being opened.
    pub fn read_after(&self, wait: &MayWait, after: Position) -> io::Result<Opened> {
        let journal = self.journal(wait)?;
        let bounds = journal.bounds();
        let (first, last) = (bounds.first, bounds.last);
        let at = |entry: u64| EventCursor::new(Arc::clone(&journal), entry);
        let anew = |missing| Opened { cursor: at(first - 1), told: None, gap: Some(missing), first, last };
        if after.entry > last {
            return Ok(anew(Missing::Lost));
        }
        if after.entry > 0 && after.entry + 1 < first {
            return Ok(anew(Missing::LetGo));
        }
        if let Some(wanted) = after.stamp.filter(|_| after.entry >= first) {
            let is_it = |step| matches!(step, EventStep::Event(head) if stamp(head.time_ns) == wanted);
            if !at(after.entry - 1).next_blocking(&mut Vec::new()).map(is_it)? {
                return Ok(anew(Missing::Lost));
            }
        }
        let told = after.index.filter(|_| after.entry >= first).map(|index| (after.entry, index));
        let from = if told.is_some() { after.entry - 1 } else { after.entry.max(first - 1) };
        Ok(Opened { cursor: at(from), told, gap: None, first, last })
    }

    /// The newest entry. Waits for a feed that is being opened.
    pub fn newest(&self, wait: &MayWait) -> io::Result<Position> {
        Ok(Position::after(self.journal(wait)?.bounds().last))
    }

    /// What an entry tells whoever wants this. Never waits.
    pub fn changes(&self, head: &EventHead, payload: &[u8], told: Option<(u64, u64)>, filter: &Filter) -> Vec<Change> {
        let Some(entry) = Entry::decode(payload) else { return Vec::new() };
        let after = told.and_then(|(entry, index)| (entry == head.record).then_some(index));
        let mut changes = entry.changes(head.record, head.time_ns, after);
        changes.retain(|change| self.passes(filter, change));
        changes
    }

    fn passes(&self, filter: &Filter, change: &Change) -> bool {
        let kind = filter.kinds.is_empty() || filter.kinds.contains(&change.kind);
        let session = filter.session.is_none() || filter.session == change.session;
        let seen = !filter.of_sessions || change.happened.is_none() || self.is_of_a_session(change);
        kind && session && seen && filter.workspace.as_deref().is_none_or(|folder| self.is_in(folder, change))
    }

    /// Whether what happened happened where a session works.
    fn is_of_a_session(&self, change: &Change) -> bool {
        let places = self.shared.places.read().unwrap_or_else(PoisonError::into_inner);
        // Ids of processes begin with another letter.
        let sessions = places.iter().filter(|(id, _)| id.starts_with('s'));
        change
            .workspace
            .as_ref()
            .is_some_and(|root| sessions.map(|(_, place)| place).any(|place| root.0.starts_with(place)))
    }

    /// Whether something works in this folder, or did until it was deleted.
    fn is_in(&self, folder: &Path, change: &Change) -> bool {
        if let Some(place) = &change.workspace {
            return place.0.starts_with(folder);
        }
        let places = self.shared.places.read().unwrap_or_else(PoisonError::into_inner);
        let ids = change.session.iter().chain(&change.process);
        ids.filter_map(|id| places.get(id)).any(|place| place.starts_with(folder))
    }
}
