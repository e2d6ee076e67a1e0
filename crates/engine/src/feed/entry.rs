//! What an entry of the feed says: a run of changes of one source, where they are told in full, and what a filter needs. JSON
//! with one member that names it; what this version does not know tells nothing.

use ostler_story::FilePath;
use serde::{Deserialize, Serialize};

use super::position::Position;
use super::{Happened, Kind, Sum};

/// A process has two changes, which count like the records of a session.
pub(super) const STARTED: u64 = 1;
pub(super) const ENDED: u64 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// Records of a session's journal in a row.
    Session {
        id: String,
        from: u64,
        to: u64,
        /// Those that are more than words, by their distance from the first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kinds: Vec<(u64, Kind)>,
    },
    /// A process started, ended, or both.
    Process {
        id: String,
        from: u64,
        to: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// Entries of the audit in a row.
    Audit { from: u64, of: Vec<Noted> },
    /// Notices in a row.
    Notices { from: u64, to: u64 },
    /// What happened in a workspace; nothing else tells it.
    Workspace { root: FilePath, of: Vec<Happened> },
    /// What is deleted: nothing else says any more where it was.
    Forgotten {
        kind: Kind,
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<FilePath>,
    },
    /// How far every source was told when this was written. What is before it may be let go.
    Checkpoint(Checkpoint),
}

/// An entry of the audit, as far as filters need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noted {
    pub(crate) kind: Kind,
    /// The request, or the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// Whose request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub(super) version: u32,
    #[serde(flatten)]
    pub(super) sum: Sum,
}

/// One change, as readers are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where to go on after it.
    pub position: Position,
    /// What it is.
    pub kind: Kind,
    /// When the feed took it, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The session it is about, or whose process or request it is about.
    pub session: Option<String>,
    /// The process.
    pub process: Option<String>,
    /// The request.
    pub approval: Option<String>,
    /// The device.
    pub device: Option<String>,
    /// Where it is told in full: records of the session, the entry of the audit, or notices.
    pub records: Option<(u64, u64)>,
    /// Where the session or process was, if it is deleted; the workspace in which something happened.
    pub workspace: Option<FilePath>,
    /// What happened there.
    pub happened: Option<Happened>,
}

impl Change {
    /// Where to go on after one of its records.
    pub fn position_of(&self, record: u64) -> Position {
        let behind = self.records.map_or(0, |(_, last)| last.saturating_sub(record));
        let index = self.position.index.map(|index| index.saturating_sub(behind));
        Position { index, ..self.position }
    }
}

impl Entry {
    pub(super) fn encode(&self) -> Vec<u8> {
        // These types always serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// Its changes, after the one with this index; of records that are only words those in a row are one.
    pub(super) fn changes(self, entry: u64, time_ns: u64, after: Option<u64>) -> Vec<Change> {
        let begin = after.map_or(0, |index| index + 1);
        let change = |index: u64, kind: Kind| Change {
            position: Position::within(entry, index, time_ns),
            kind,
            time_ns,
            session: None,
            process: None,
            approval: None,
            device: None,
            records: None,
            workspace: None,
            happened: None,
        };
        match self {
            Self::Session { id, from, to, kinds } => {
                let words = |first: u64, last: u64| {
                    (first <= last).then_some((first, last, Kind::SessionSaid)).filter(|(_, last, _)| *last >= begin)
                };
                let (mut found, mut next) = (Vec::new(), 0);
                for (index, kind) in kinds {
                    found.extend(index.checked_sub(1).and_then(|last| words(next.max(begin), last)));
                    found.extend((index >= begin).then_some((index, index, kind)));
                    next = index + 1;
                }
                found.extend(words(next.max(begin), to.saturating_sub(from)));
                let of = |(first, last, kind)| Change {
                    session: Some(id.clone()),
                    records: Some((from + first, from + last)),
                    ..change(last, kind)
                };
                found.into_iter().map(of).collect()
            }
            Self::Process { id, from, to, session } => {
                let of = |at: u64| Change {
                    process: Some(id.clone()),
                    session: session.clone(),
                    ..change(at - from, if at == STARTED { Kind::ProcessStarted } else { Kind::ProcessEnded })
                };
                (from..=to.min(ENDED)).filter(|at| at - from >= begin).map(of).collect()
            }
            Self::Audit { from, of } => {
                let of_request = |noted: &Noted| !noted.kind.is_device();
                let tell = |(index, noted): (u64, Noted)| Change {
                    approval: noted.id.clone().filter(|_| of_request(&noted)),
                    device: noted.id.clone().filter(|_| !of_request(&noted)),
                    session: noted.session,
                    records: Some((from + index, from + index)),
                    ..change(index, noted.kind)
                };
                (0..).zip(of).filter(|(index, _)| *index >= begin).map(tell).collect()
            }
            Self::Notices { from, to } => {
                let records = Some((from + begin, to)).filter(|(first, last)| first <= last);
                records.iter().map(|_| Change { records, ..change(to - from, Kind::NoticeTold) }).collect()
            }
            Self::Forgotten { kind, id, workspace } => {
                let is_session = kind == Kind::SessionForgotten;
                let (session, process) = if is_session { (Some(id), None) } else { (None, Some(id)) };
                (begin == 0).then(|| Change { session, process, workspace, ..change(0, kind) }).into_iter().collect()
            }
            Self::Workspace { root, of } => {
                let tell = |(index, happened): (u64, Happened)| Change {
                    workspace: Some(root.clone()),
                    happened: Some(happened.clone()),
                    ..change(index, happened.kind())
                };
                (0..).zip(of).filter(|(index, _)| *index >= begin).map(tell).collect()
            }
            Self::Checkpoint(_) => Vec::new(),
        }
    }
}
