//! How far each source was told. Every source counts its own changes, and the feed takes them in that order, each once: what a
//! source has beyond this is what the feed has yet to tell, whatever died in between.

use std::collections::{BTreeMap, BTreeSet};

use ostler_story::FilePath;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Noted};
use super::{Happened, Kind};

/// One entry holds at most so many changes: a reader in the middle of it reads again what it has of it.
const RUN_MAX: u64 = 1024;

/// The same of what happened in a workspace, where each change is told in full.
const HAPPENED_MAX: u64 = 64;

/// Where changes come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Session(String),
    Process(String),
    Audit,
    /// What somebody was told of.
    Notices,
    /// A folder that is watched. It counts nothing: what is noted is told, and what nobody noted is gone.
    Workspace(FilePath),
}

/// A change on its way into the feed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct News {
    pub(super) source: Source,
    /// Its number at its source.
    pub(super) at: u64,
    pub(super) time_ns: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// A record of a session.
    Said(Kind),
    /// A process started or ended; the session whose agent it is.
    Process(Option<String>),
    Noted(Noted),
    /// Somebody was told of something.
    Told,
    Happened(Happened),
    /// The source is gone, with everything that it said; this is where it was.
    Forgotten(Option<FilePath>),
}

/// How far each source was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    /// The last record of each session.
    pub(super) sessions: BTreeMap<String, u64>,
    /// Processes that are known, and whether their end was told.
    pub(super) processes: BTreeMap<String, u64>,
    /// The last entry of the audit.
    pub(super) audit: u64,
    /// The last notice.
    #[serde(default)]
    pub(super) notices: u64,
    /// Workspaces that are watched.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) watched: BTreeSet<FilePath>,
}

impl Sum {
    pub(super) fn of(&self, source: &Source) -> u64 {
        match source {
            Source::Session(id) => self.sessions.get(id).copied().unwrap_or(0),
            Source::Process(id) => self.processes.get(id).copied().unwrap_or(0),
            Source::Audit => self.audit,
            Source::Notices => self.notices,
            Source::Workspace(_) => 0,
        }
    }

    /// How many sources it knows.
    pub(super) fn len(&self) -> usize {
        self.sessions.len() + self.processes.len()
    }

    pub(super) fn is_known(&self, source: &Source) -> bool {
        match source {
            Source::Session(id) => self.sessions.contains_key(id),
            Source::Process(id) => self.processes.contains_key(id),
            Source::Audit | Source::Notices | Source::Workspace(_) => true,
        }
    }

    /// Adds what an entry says.
    pub(super) fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Session { id, to, .. } => drop(self.sessions.insert(id.clone(), *to)),
            Entry::Process { id, to, .. } => drop(self.processes.insert(id.clone(), *to)),
            Entry::Audit { from, of } => self.audit = from + (of.len() as u64).saturating_sub(1),
            Entry::Notices { to, .. } => self.notices = *to,
            Entry::Forgotten { id, .. } => {
                self.sessions.remove(id);
                self.processes.remove(id);
            }
            Entry::Workspace { root, of } => {
                let watch =
                    |happened: &Happened| if let Happened::Watch { on, .. } = happened { Some(*on) } else { None };
                match of.iter().rev().find_map(watch) {
                    Some(true) => drop(self.watched.insert(root.clone())),
                    Some(false) => drop(self.watched.remove(root)),
                    None => {}
                }
            }
            Entry::Checkpoint(checkpoint) => self.clone_from(&checkpoint.sum),
        }
    }

    /// Puts changes into entries, in their order, and counts them as told. What was told before is left out; what a source must
    /// have said in between, and nobody noted, is told as words.
    pub(super) fn tell(&mut self, news: impl IntoIterator<Item = News>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for News { source, at, what, .. } in news {
            if source == Source::Notices && at < self.notices {
                // Their file was lost, and they count from 1 again.
                self.notices = at.saturating_sub(1);
            }
            let known = self.of(&source);
            if at <= known || matches!(what, What::Forgotten(_)) && !self.is_known(&source) {
                continue;
            }
            let entry = entry(source, known + 1, at, what);
            self.take(&entry);
            match entries.last_mut() {
                Some(last) if joins(last, &entry) => join(last, entry),
                _ => entries.push(entry),
            }
        }
        entries
    }
}

fn entry(source: Source, from: u64, to: u64, what: What) -> Entry {
    match (source, what) {
        (Source::Session(id), What::Forgotten(workspace)) => {
            Entry::Forgotten { kind: Kind::SessionForgotten, id, workspace }
        }
        (Source::Process(id), What::Forgotten(workspace)) => {
            Entry::Forgotten { kind: Kind::ProcessForgotten, id, workspace }
        }
        (Source::Session(id), what) => {
            let kinds = match what {
                What::Said(kind) if kind != Kind::SessionSaid => vec![(to - from, kind)],
                _ => Vec::new(),
            };
            Entry::Session { id, from, to, kinds }
        }
        (Source::Process(id), what) => {
            let session = if let What::Process(session) = what { session } else { None };
            Entry::Process { id, from, to, session }
        }
        (Source::Workspace(root), what) => {
            let happened = if let What::Happened(happened) = what { happened } else { Happened::Missed {} };
            Entry::Workspace { root, of: vec![happened] }
        }
        (Source::Notices, _) => Entry::Notices { from, to },
        (Source::Audit, what) => {
            let unknown = || Noted { kind: Kind::AuditNoted, id: None, session: None };
            let mut of: Vec<Noted> = (from..to).map(|_| unknown()).collect();
            of.push(if let What::Noted(noted) = what { noted } else { unknown() });
            Entry::Audit { from, of }
        }
    }
}

/// Whether the second goes on where the first ends.
fn joins(one: &Entry, two: &Entry) -> bool {
    match (one, two) {
        (Entry::Session { id, from, .. }, Entry::Session { id: same, to, .. }) => id == same && to - from < RUN_MAX,
        (Entry::Process { id, .. }, Entry::Process { id: same, .. }) => id == same,
        (Entry::Audit { of, .. }, Entry::Audit { .. }) => (of.len() as u64) < RUN_MAX,
        (Entry::Notices { to, .. }, Entry::Notices { from, .. }) => to + 1 == *from,
        (Entry::Workspace { root, of }, Entry::Workspace { root: same, .. }) => {
            root == same && (of.len() as u64) < HAPPENED_MAX
        }
        _ => false,
    }
}

fn join(one: &mut Entry, two: Entry) {
    match (one, two) {
        (Entry::Session { from, to, kinds, .. }, Entry::Session { from: next, to: end, kinds: more, .. }) => {
            let further = next - *from;
            kinds.extend(more.into_iter().map(|(index, kind)| (index + further, kind)));
            *to = end;
        }
        (Entry::Process { to, .. }, Entry::Process { to: end, .. })
        | (Entry::Notices { to, .. }, Entry::Notices { to: end, .. }) => *to = end,
        (Entry::Audit { of, .. }, Entry::Audit { of: more, .. }) => of.extend(more),
        (Entry::Workspace { of, .. }, Entry::Workspace { of: more, .. }) => of.extend(more),
        _ => {}
    }
}

/// Changes of several sources as one row: each source's own in their order, and between sources by the time. No reader can
/// contradict it, because none was told of any of these yet.
pub(super) fn weave(sources: Vec<Vec<News>>) -> Vec<News> {
    let mut all: Vec<(u64, News)> = Vec::new();
    for source in sources {
        let mut latest = 0;
        for news in source {
            // A clock that was put back does not change what came first.
            latest = news.time_ns.max(latest);
            all.push((latest, news));
        }
    }
    // Stable: what has the same time stays in the order of its source.
    all.sort_by_key(|(time, _)| *time);
    all.into_iter().map(|(_, news)| news).collect()
}
