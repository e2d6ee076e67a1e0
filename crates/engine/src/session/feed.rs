//! What the feed reads of an instance when nobody noted it: the state at the start, and later records and entries by number.

use std::io;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::sessions::{Sessions, SessionsInner};
use super::{EventStep, Session};
use crate::approval::{Entry, Record};
use crate::feed::{FoundAtStart, FoundProcess, FoundSession, Kind, Noted, Sources, of_audit};
use crate::{MayWait, Process};

const NANOS_PER_MILLI: u64 = 1_000_000;
/// Entries of the audit that are read at once.
const AUDIT_PAGE: usize = 1024;

impl Sessions {
    /// Begins to tell. Nothing new has happened yet but the ends of processes, which come after what was before.
    pub(super) fn begin_feed(&self, wait: &MayWait) {
        let shared = &self.shared;
        let processes = shared.registry.list().into_iter().filter(|process| !process.is_waiting());
        let found = FoundAtStart {
            sessions: self.list().iter().map(found_session).collect(),
            processes: processes.map(|process| found_process(&process)).collect(),
            audit: shared.inbox().last_entry(wait),
        };
        let (dir, pumps) = (shared.registry.config.dir.join("feed"), shared.registry.pumps.clone());
        let sources = Behind { shared: std::sync::Arc::downgrade(shared) };
        if let Err(error) = shared.feed().begin(dir, pumps, found, sources) {
            tracing::error!("feed: nothing is told: {error}");
        }
    }
}

fn found_session(session: &Session) -> FoundSession {
    FoundSession {
        id: session.id().to_owned(),
        last: session.inner.last.load(Ordering::Acquire),
        workspace: session.look().state.created.workspace.clone(),
    }
}

fn found_process(process: &Process) -> FoundProcess {
    let since = process.started_at().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    FoundProcess {
        id: process.id().to_owned(),
        session: process.about().session.clone(),
        cwd: process.about().cwd.clone(),
        started_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        ended_ns: process.bounds().exit.map(|exit| exit.time_ns),
    }
}

struct Behind {
    shared: Weak<SessionsInner>,
}

impl Behind {
    fn sessions(&self) -> io::Result<Sessions> {
        let shared = self.shared.upgrade().ok_or_else(|| io::Error::other("the daemon is ending"))?;
        Ok(Sessions { shared, joiner: None })
    }
}

impl Sources for Behind {
    fn records(&self, wait: &MayWait, session: &str, after: u64, to: u64) -> io::Result<Vec<(u64, u64, Kind)>> {
        let Some(session) = self.sessions()?.get(session) else { return Ok(Vec::new()) };
        let (mut cursor, mut payload, mut found) = (session.events(wait, after)?, Vec::new(), Vec::new());
        while cursor.position() < to {
            payload.clear();
            match cursor.next_blocking(&mut payload)? {
                EventStep::Event(head) => {
                    let kind = Kind::of_record(&ostler_story::said(head.source, &payload));
                    found.push((head.record, head.time_ns, kind));
                }
                EventStep::Gap { .. } => {}
                EventStep::UpToDate | EventStep::WouldBlock => break,
            }
        }
        Ok(found)
    }

    fn audit(&self, wait: &MayWait, after: u64, to: u64) -> io::Result<Vec<(u64, u64, Noted)>> {
        let sessions = self.sessions()?;
        let (inbox, mut found, mut at) = (sessions.shared.inbox(), Vec::new(), after);
        while at < to {
            let most = usize::try_from(to - at).unwrap_or(AUDIT_PAGE).min(AUDIT_PAGE);
            let page = inbox.audit(wait, at, most).map_err(io::Error::other)?;
            let Some(last) = page.last() else { break };
            at = last.seq;
            for Entry { seq, at_ms, about, body } in page {
                let record: Option<Record> = serde_json::from_str(&body).ok();
                let asker = about.as_deref().and_then(|id| inbox.peek(id)).map(|approval| approval.ask.asker);
                let session = asker.and_then(|asker| asker.verified_session);
                let kind = record.as_ref().map_or(Kind::AuditNoted, of_audit);
                found.push((seq, at_ms.saturating_mul(NANOS_PER_MILLI), Noted { kind, id: about, session }));
            }
        }
        Ok(found)
    }

    fn is_gone(&self, session: &str) -> bool {
        self.sessions().is_ok_and(|sessions| !sessions.shared.dir().join(session).exists())
    }
}
