//! `feed.*`: the changes of the whole instance, page by page or as they come. A follower is a cursor in the feed, as a watcher of
//! a session is one in that session's journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler_api::{
    Empty, ErrorKind, FeedChange, FeedChanges, FeedFile, FeedFollowParams, FeedFollowing, FeedGap, FeedGit, FeedKind,
    FeedLost, FeedMissing, FeedPage, FeedReadParams, FeedUnfollowParams, FeedWatch, FilePath, RpcError, Timestamp,
    methods,
};
use ostler_door_rpc::{Later, Watch, notify_of};
use ostler_engine::access::device::Right;
use ostler_engine::feed::{Change, FileChange, Filter, GitStands, Happened, NoPosition, Opened, Position};
use ostler_engine::{EventHead, EventStep, MayWait, Missing, Target};
use serde::Serialize;

use crate::call::Call;
use crate::dispatch::{Answered, Client, Out, Request, Tag};
use crate::watches::no_watch;
use crate::words::Translate;

/// Changes of a page: a screenful many times over, and less than a megabyte.
const PAGE: usize = 1000;
/// Entries that are looked through for one page: a filter that nothing passes is answered all the same.
const LOOK_THROUGH: usize = 20_000;

/// What each follower of a connection wants, and what it was told of its first entry.
#[derive(Clone, Default)]
pub(crate) struct Follows {
    open: Arc<Mutex<HashMap<u64, Follow>>>,
}

type Follow = (Filter, Option<(u64, u64)>);

impl Follows {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Follow>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The filter as it is meant. A hosted caller follows its own sessions; everything else is not its own.
fn filter(
    call: &Call,
    kinds: Vec<FeedKind>,
    session: Option<String>,
    workspace: Option<FilePath>,
) -> Result<Filter, RpcError> {
    let session = match session {
        Some(text) => Some(crate::session::own(call, &text)?.id().to_owned()),
        None => {
            call.reaches(Target::Instance)?;
            None
        }
    };
    // A device sees workspaces of sessions; any other folder is for one that may start commands, and so see it anyway.
    let of_sessions = call.needs(Right::TypeIntoTerminals).is_err();
    Ok(Filter { kinds, session, workspace: workspace.map(|FilePath(folder)| folder), of_sessions })
}

fn position(text: &str) -> Result<Position, RpcError> {
    let refusal = |error: NoPosition| {
        RpcError::new(ErrorKind::BadParams, error.to_string())
            .hint("use the `position` of an entry, unchanged, or 0 for everything")
    };
    text.parse().map_err(refusal)
}

pub(crate) fn unread(call: &Call, error: &std::io::Error) -> RpcError {
    crate::info::disk(call.engine(), "the feed cannot be read", error)
}

pub(crate) fn read(wait: &MayWait, call: &Call, params: FeedReadParams) -> Result<FeedPage, RpcError> {
    let after = params.after.as_deref().map_or(Ok(Position::default()), position)?;
    let filter = filter(call, params.kinds, params.session, params.workspace)?;
    let feed = call.engine().feed();
    let opened = feed.read_after(wait, after).map_err(|error| unread(call, &error))?;
    let mut gap = missing(&opened);
    let Opened { mut cursor, told, first, .. } = opened;
    let most = if params.limit == 0 { PAGE } else { (params.limit as usize).min(PAGE) };
    let begin = if told.is_some() { after } else { Position::after(cursor.position()) };
    let mut page = FeedPage { changes: Vec::new(), position: begin.to_string(), more: true, gap: None };
    let mut payload = Vec::new();
    for _ in 0..LOOK_THROUGH {
        payload.clear();
        match cursor.next_blocking(&mut payload).map_err(|error| unread(call, &error))? {
            EventStep::Event(head) => {
                let mut changes = feed.changes(&head, &payload, told, &filter);
                let room = most - page.changes.len();
                let more = changes.len() > room;
                changes.truncate(room);
                page.position = match changes.last() {
                    Some(last) if more || changes.len() == room => last.position.to_string(),
                    _ => Position::after(head.record).to_string(),
                };
                page.changes.extend(changes.into_iter().map(describe));
                if page.changes.len() >= most {
                    break;
                }
            }
            EventStep::Gap { missing, .. } => gap = Some(gap_of(first, missing)),
            EventStep::UpToDate | EventStep::WouldBlock => {
                page.more = false;
                break;
            }
        }
    }
    page.gap = gap;
    Ok(page)
}

fn missing(opened: &Opened) -> Option<FeedMissing> {
    opened.gap.map(|missing| gap_of(opened.first, missing))
}

fn gap_of(first: u64, missing: Missing) -> FeedMissing {
    FeedMissing { oldest: Position::after(first.saturating_sub(1)).to_string(), missing: missing.translated() }
}

fn describe(change: Change) -> FeedChange {
    let Change { position, kind, time_ns, session, process, approval, device, records, workspace, happened } = change;
    let (record, last) = records.unzip();
    let (mut file, mut git, mut watch) = (None, None, None);
    match happened {
        Some(Happened::File(change)) => file = Some(file_of(change)),
        Some(Happened::Diff { path }) => file = Some(FeedFile { path, change: None, old_path: None, size: None }),
        Some(Happened::Git(stands)) => git = Some(git_of(stands)),
        Some(Happened::Watch { on, why }) => watch = Some(FeedWatch { on, why }),
        Some(Happened::Missed {} | Happened::Done(_)) | None => {}
    }
    FeedChange {
        position: position.to_string(),
        kind,
        time: Timestamp::from_nanos(time_ns),
        session,
        process,
        approval,
        device,
        last: last.filter(|last| Some(*last) != record),
        record,
        workspace,
        file,
        git,
        watch,
    }
}

fn file_of(change: FileChange) -> FeedFile {
    let FileChange { path, is, size, was } = change;
    FeedFile { path, change: Some(is.translated()), old_path: was, size }
}

fn git_of(stands: GitStands) -> FeedGit {
    let GitStands { branch, commit, ahead, behind, staged, unstaged, untracked, conflicts, .. } = stands;
    FeedGit { branch, commit, ahead, behind, staged, unstaged, untracked, conflicts }
}

/// The feed may be waiting for its disk: all of it happens beside the connection.
pub(crate) fn follow(client: &mut Client, request: &Request<'_>, out: &mut Out) -> Answered {
    let params = request.params::<methods::FeedFollow>()?;
    client.last_watch += 1;
    let (watch, follows) = (client.last_watch, client.follows.clone());
    let (call, head) = (Arc::clone(&client.call), request.head.clone());
    out.spawn_blocking(move |wait| match begin(wait, &call, params) {
        Ok((filter, opened)) => {
            let gap = missing(&opened);
            let Opened { cursor, told, .. } = opened;
            follows.open().insert(watch, (filter, told));
            let position = Position::after(cursor.position()).to_string();
            let mut later =
                Later::reply(head.answer::<methods::FeedFollow>(&Ok(FeedFollowing { watch, position, gap })));
            later.watch = Some(Watch::events(name(watch), Tag::Feed(watch), cursor));
            later
        }
        Err(error) => Later::reply(head.refuse(&error)),
    });
    Ok(())
}

fn begin(wait: &MayWait, call: &Call, params: FeedFollowParams) -> Result<(Filter, Opened), RpcError> {
    let filter = filter(call, params.kinds, params.session, params.workspace)?;
    let feed = call.engine().feed();
    let after = match &params.after {
        Some(text) => position(text)?,
        None => feed.newest(wait).map_err(|error| unread(call, &error))?,
    };
    Ok((filter, feed.read_after(wait, after).map_err(|error| unread(call, &error))?))
}

/// What a watch of the feed is called among those of its connection.
fn name(watch: u64) -> String {
    format!("feed {watch}")
}

pub(crate) fn unfollow(client: &mut Client, params: FeedUnfollowParams, out: &mut Out) -> Result<Empty, RpcError> {
    client.follows.open().remove(&params.watch).ok_or_else(|| no_watch(params.watch))?;
    out.unwatch(&name(params.watch));
    Ok(Empty {})
}

/// One entry, as far as this follower wants it. Never waits.
pub(crate) fn push_entry(client: &Client, watch: u64, head: &EventHead, payload: &[u8], out: &mut Vec<u8>) -> bool {
    let open = client.follows.open();
    let Some((filter, told)) = open.get(&watch) else { return false };
    let changes = client.call.engine().feed().changes(head, payload, *told, filter);
    if !changes.is_empty() {
        let changes = changes.into_iter().map(describe).collect();
        push("feed.changes", &FeedChanges { watch, changes }, out);
    }
    true
}

pub(crate) fn push_gap(watch: u64, first: u64, missing: Missing, out: &mut Vec<u8>) {
    let FeedMissing { oldest, missing } = gap_of(first, missing);
    push("feed.gap", &FeedGap { watch, oldest, missing }, out);
}

pub(crate) fn push_lost(client: &Client, watch: u64, message: String, out: &mut Vec<u8>) {
    client.follows.open().remove(&watch);
    push("feed.lost", &FeedLost { watch, message }, out);
}

fn push<T: Serialize>(method: &str, params: &T, out: &mut Vec<u8>) {
    // These types always serialise, and writing to a vector cannot fail.
    let _ = notify_of(out, method, params);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_api::Notification;

    #[test]
    fn what_followers_are_told_reads_as_its_types_say() {
        let mut out = Vec::new();
        push("feed.changes", &FeedChanges { watch: 3, changes: Vec::new() }, &mut out);
        assert!(matches!(serde_json::from_slice(&out).unwrap(), Notification::FeedChanges(told) if told.watch == 3));
        out.clear();
        push_gap(3, 8, Missing::LetGo, &mut out);
        assert!(matches!(serde_json::from_slice(&out).unwrap(), Notification::FeedGap(gap) if gap.oldest == "7"));
    }
}
