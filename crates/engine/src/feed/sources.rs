//! Where the feed's changes are told in full, and how to read there what nobody noted: the daemon died, or there was no room.

use std::io;
use std::path::{Path, PathBuf};

use ostler_story::FilePath;

use super::entry::{ENDED, Noted, STARTED};
use super::sum::{News, Source, Sum, What};
use super::{Happened, Kind, now_ns};
use crate::MayWait;

/// How far each source was when the daemon began.
#[derive(Default)]
pub(crate) struct FoundAtStart {
    pub(crate) sessions: Vec<FoundSession>,
    pub(crate) processes: Vec<FoundProcess>,
    /// The last entry of the audit; nothing where that cannot be read yet.
    pub(crate) audit: Option<u64>,
}

pub(crate) struct FoundSession {
    pub(crate) id: String,
    pub(crate) last: u64,
    pub(crate) workspace: PathBuf,
}

pub(crate) struct FoundProcess {
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: Option<u64>,
}

/// Reads what sources have written. May wait for the disk.
pub(crate) trait Sources: Send {
    /// The records of a session after this one: number, time and kind.
    fn records(&self, wait: &MayWait, session: &str, after: u64, to: u64) -> io::Result<Vec<(u64, u64, Kind)>>;

    /// The entries of the audit after this one: number, time and what they are.
    fn audit(&self, wait: &MayWait, after: u64, to: u64) -> io::Result<Vec<(u64, u64, Noted)>>;

    /// Whether nothing is left of a session on the disk.
    fn is_gone(&self, session: &str) -> bool;
}

impl FoundAtStart {
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, &Path)> {
        let sessions = self.sessions.iter().map(|session| (session.id.as_str(), session.workspace.as_path()));
        sessions.chain(self.processes.iter().map(|process| (process.id.as_str(), process.cwd.as_path())))
    }

    /// Takes back what was told and is gone, because a power loss took it; what comes instead is told then. `true` if it had to.
    pub(super) fn lower(&self, sum: &mut Sum) -> bool {
        let before = sum.clone();
        if self.audit.is_some_and(|last| last < sum.audit) {
            // Nothing takes committed entries from an audit: it is another one, which counts from 1.
            sum.audit = 0;
        }
        for FoundSession { id, last, .. } in &self.sessions {
            sum.sessions.entry(id.clone()).and_modify(|known| *known = *last.min(known));
        }
        *sum != before
    }

    /// All of it counts as told.
    pub(super) fn sum(&self) -> Sum {
        let ended = |process: &FoundProcess| if process.ended_ns.is_some() { ENDED } else { STARTED };
        Sum {
            sessions: self.sessions.iter().map(|session| (session.id.clone(), session.last)).collect(),
            processes: self.processes.iter().map(|process| (process.id.clone(), ended(process))).collect(),
            audit: self.audit.unwrap_or(0),
            notices: 0,
            watched: Default::default(),
        }
    }

    /// What the sources had and the feed had not, a row for each source.
    pub(super) fn beyond(&self, wait: &MayWait, sum: &Sum, sources: &dyn Sources) -> io::Result<Vec<Vec<News>>> {
        let mut rows = Vec::new();
        for FoundSession { id, last, .. } in &self.sessions {
            rows.push(behind(wait, sum, &Source::Session(id.clone()), *last, sources)?);
        }
        rows.push(behind(wait, sum, &Source::Audit, self.audit.unwrap_or(0), sources)?);
        for process in &self.processes {
            let source = Source::Process(process.id.clone());
            let what = || What::Process(process.session.clone());
            let news = |at, time_ns| News { source: source.clone(), at, time_ns, what: what() };
            let started = Some(news(STARTED, process.started_ns));
            let ended = process.ended_ns.map(|time_ns| news(ENDED, time_ns));
            rows.push(started.into_iter().chain(ended).filter(|news| news.at > sum.of(&source)).collect());
        }
        let gone = |source| vec![News { source, at: u64::MAX, time_ns: now_ns(), what: What::Forgotten(None) }];
        let processes: std::collections::HashSet<&str> = self.processes.iter().map(|one| one.id.as_str()).collect();
        let lost = sum.processes.keys().filter(|id| !processes.contains(id.as_str()));
        rows.extend(lost.map(|id| gone(Source::Process(id.clone()))));
        let sessions: std::collections::HashSet<&str> = self.sessions.iter().map(|one| one.id.as_str()).collect();
        let lost = sum.sessions.keys().filter(|id| !sessions.contains(id.as_str()) && sources.is_gone(id));
        rows.extend(lost.map(|id| gone(Source::Session(id.clone()))));
        // Nobody watches any more: the watches were the dead daemon's.
        let lapsed = |root: &FilePath| {
            let what = What::Happened(Happened::Watch { on: false, why: Some("ostler was restarted".into()) });
            vec![News { source: Source::Workspace(root.clone()), at: 1, time_ns: now_ns(), what }]
        };
        rows.extend(sum.watched.iter().map(lapsed));
        rows.retain(|row| !row.is_empty());
        Ok(rows)
    }
}

/// What a source has up to here and the feed has not.
pub(super) fn behind(
    wait: &MayWait,
    sum: &Sum,
    source: &Source,
    to: u64,
    sources: &dyn Sources,
) -> io::Result<Vec<News>> {
    let after = sum.of(source);
    if to <= after {
        return Ok(Vec::new());
    }
    let news = |at, time_ns, what| News { source: source.clone(), at, time_ns, what };
    Ok(match source {
        // Deleted, whatever it said before.
        Source::Session(_) | Source::Process(_) if to == u64::MAX => {
            vec![news(to, now_ns(), What::Forgotten(None))]
        }
        Source::Session(id) => {
            let records = sources.records(wait, id, after, to)?;
            let mut row: Vec<News> =
                records.into_iter().map(|(at, time_ns, kind)| news(at, time_ns, What::Said(kind))).collect();
            // What cannot be read was said all the same.
            if row.last().is_none_or(|last| last.at < to) {
                row.push(news(to, now_ns(), What::Said(Kind::SessionSaid)));
            }
            row
        }
        Source::Process(_) => vec![news(to, now_ns(), What::Process(None))],
        Source::Notices => vec![news(to, now_ns(), What::Told)],
        // It was noted when there was no room, and nothing else tells it.
        Source::Workspace(_) => vec![news(to, now_ns(), What::Happened(Happened::Missed {}))],
        Source::Audit => {
            let entries = sources.audit(wait, after, to)?;
            entries.into_iter().map(|(at, time_ns, noted)| news(at, time_ns, What::Noted(noted))).collect()
        }
    })
}
