//! Two readers of the feed while the daemon dies: one follows, one reads pages, and both go on by position. What each was told is
//! held against the other, and against what the clients know.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler_api::client::{Client, ClientError};
use ostler_api::{FeedChange, FeedFollowParams, FeedKind, FeedReadParams, Notification, methods};

use super::client::Log;

/// How long nothing more must come until everything has.
const QUIET: Duration = Duration::from_secs(2);

/// How a reader reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Pages,
    Follows,
}

/// What a reader was told, in the order of being told.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) changes: Vec<FeedChange>,
    pub(super) gaps: usize,
}

/// Reads until everything is over and nothing more comes.
pub(super) fn read(socket: PathBuf, how: How, over: &AtomicBool) -> Heard {
    let mut heard = Heard::default();
    loop {
        let read = match how {
            How::Pages => pages(&socket, &mut heard),
            How::Follows => follow(&socket, &mut heard),
        };
        match read {
            Ok(()) | Err(ClientError::TimedOut(_)) if over.load(Ordering::Acquire) => return heard,
            // The daemon died, or nothing came for a while.
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn after(heard: &Heard) -> Option<String> {
    Some(heard.changes.last().map_or_else(|| "0".to_owned(), |last| last.position.clone()))
}

fn pages(socket: &std::path::Path, heard: &mut Heard) -> Result<(), ClientError> {
    let mut client = Client::connect(socket)?;
    loop {
        let params =
            FeedReadParams { after: after(heard), limit: 7, kinds: Vec::new(), session: None, workspace: None };
        let page = client.call::<methods::FeedRead>(&params)?;
        heard.gaps += usize::from(page.gap.is_some());
        let empty = page.changes.is_empty();
        heard.changes.extend(page.changes);
        if empty && !page.more {
            std::thread::sleep(QUIET);
            let last = client.call::<methods::FeedRead>(&params)?;
            if last.changes.is_empty() {
                return Ok(());
            }
        }
    }
}

fn follow(socket: &std::path::Path, heard: &mut Heard) -> Result<(), ClientError> {
    let mut client = Client::connect(socket)?;
    let params = FeedFollowParams { after: after(heard), kinds: Vec::new(), session: None, workspace: None };
    let begun = client.call::<methods::FeedFollow>(&params)?;
    heard.gaps += usize::from(begun.gap.is_some());
    client.answer_within(Some(2 * QUIET))?;
    loop {
        match client.next_notification()? {
            Notification::FeedChanges(told) => heard.changes.extend(told.changes),
            Notification::FeedGap(_) | Notification::FeedLost(_) => heard.gaps += 1,
            _ => {}
        }
    }
}

/// What is wrong with what the two were told.
pub(super) fn judge(one: &Heard, two: &Heard, logs: &[Log]) -> Vec<String> {
    let mut findings = Vec::new();
    let places = |heard: &Heard| -> Vec<(String, FeedKind)> {
        heard.changes.iter().map(|change| (change.position.clone(), change.kind)).collect()
    };
    let (left, right) = (places(one), places(two));
    if left != right {
        let differs = left.iter().zip(&right).position(|(a, b)| a != b);
        findings.push(format!("feed: {} and {} changes, first that differs {differs:?}", left.len(), right.len()));
    }
    if one.gaps + two.gaps > 0 {
        findings.push(format!("feed: {} gaps", one.gaps + two.gaps));
    }
    let mut records: HashMap<&str, u64> = HashMap::new();
    let (mut ended, mut processes): (HashMap<&str, usize>, HashMap<&str, Vec<FeedKind>>) = Default::default();
    for change in &one.changes {
        if let Some(process) = &change.process {
            processes.entry(process).or_default().push(change.kind);
        } else if let (Some(session), Some(from), None) = (&change.session, change.record, &change.approval) {
            let known = records.entry(session).or_default();
            if from != *known + 1 {
                findings.push(format!("feed: {session}: record {from} after {known}"));
            }
            *known = change.last.unwrap_or(from);
            *ended.entry(session).or_default() += usize::from(change.kind == FeedKind::TurnEnded);
        }
    }
    for (process, kinds) in processes {
        if kinds != [FeedKind::ProcessStarted, FeedKind::ProcessEnded] && kinds != [FeedKind::ProcessStarted] {
            findings.push(format!("feed: {process}: {kinds:?}"));
        }
    }
    for log in logs {
        let id = log.session.as_str();
        let (told, last) = (records.get(id).copied(), log.records.last().map(|events| events.record));
        if told < last || ended.get(id).copied().unwrap_or(0) != log.prompts.len() {
            findings.push(format!("feed: {id}: told up to {told:?} of {last:?}, {:?} ends", ended.get(id)));
        }
    }
    findings
}
