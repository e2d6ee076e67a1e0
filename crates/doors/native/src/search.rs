//! `search.*`: files of a workspace by name and by content, and watches of workspaces.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_api::{
    Empty, ErrorKind, ExtensionCount, FoundInFile, FoundName, FoundText, RpcError, SearchCase, SearchContent,
    SearchContentParams, SearchFilters, SearchMode, SearchNames, SearchNamesParams, SearchParams, SearchState,
    SearchStats, SearchStatus, Timestamp, WorkspaceUnwatchParams, WorkspaceWatching, methods,
};
use ostler_door_rpc::Later;
use ostler_engine::MayWait;
use ostler_engine::workspace::content::{ContentQuery, FoundLine};
use ostler_engine::workspace::names::{Filters, IndexedFile, NameQuery};
use ostler_engine::workspace::{IndexStatus, Phase, WatchError, WatchLease, WorkspaceIndex, beneath};

use crate::call::Call;
use crate::dispatch::{Answered, Client, Out, Request};
use crate::place::{Placed, bad, path, seen};
use crate::watches::no_watch;
use crate::words::Translate;

/// Names of an answer, when nobody says how many.
const NAMES: usize = 50;
/// Matching lines of an answer, when nobody says how many.
const LINES: usize = 500;
/// How long to look, in milliseconds, when nobody says, and at most.
const WITHIN: (u64, u64) = (10_000, 60_000);
/// Workspaces that one connection watches.
const LEASES_MAX: usize = 32;

/// Workspaces that a connection watches, by the number that its client knows.
#[derive(Clone, Default)]
pub(crate) struct Leases {
    held: Arc<Mutex<HashMap<u64, WatchLease>>>,
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, HashMap<u64, WatchLease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of a workspace, for who may look into it.
fn index<'a>(wait: &MayWait, call: &'a Call, params: &impl Placed) -> Result<WorkspaceIndex<'a>, RpcError> {
    let root = seen(wait, call, params)?;
    call.engine().index(wait, root).map_err(|error| refused(&error))
}

fn refused(error: &WatchError) -> RpcError {
    let said = RpcError::new(ErrorKind::Failed, error.to_string());
    match error {
        WatchError::TooMany => said.hint("end a watch first: workspace.unwatch"),
        WatchError::Io(_) => said,
    }
}

pub(crate) fn names(wait: &MayWait, call: &Call, params: SearchNamesParams) -> Result<SearchNames, RpcError> {
    let index = index(wait, call, &params)?;
    let mode = params.mode.unwrap_or(SearchMode::Fuzzy).translated();
    let limit = if params.limit == 0 { NAMES } else { params.limit as usize };
    let filters = filters(params.filters);
    let query = NameQuery { text: params.query, mode, filters, limit, offset: params.skip as usize };
    let found = index.search(wait, &query);
    failed(&index.status())?;
    Ok(SearchNames { files: found.files.iter().map(name).collect(), total: found.total })
}

/// An index that could not be made has no answers.
fn failed(status: &IndexStatus) -> Result<(), RpcError> {
    match &status.watch.phase {
        Phase::Failed(why) => Err(RpcError::new(ErrorKind::Failed, why.clone()).hint("try again")),
        Phase::Indexing | Phase::Ready => Ok(()),
    }
}

fn filters(filters: Option<SearchFilters>) -> Filters {
    let Some(SearchFilters { extensions, min_size, max_size, tracked, binary, sensitive }) = filters else {
        return Filters::default();
    };
    Filters { extensions, min_size, max_size, tracked, binary, sensitive }
}

fn name(file: &IndexedFile) -> FoundName {
    FoundName {
        path: path(&file.path),
        size: file.size,
        modified: Timestamp::from_micros(u64::try_from(file.modified_ns / 1000).unwrap_or(0)),
        link: file.kind == beneath::FileKind::Link,
        tracked: file.tracked,
        ignored: file.ignored,
        binary: file.binary,
        sensitive: file.sensitive,
        score: file.score,
    }
}

pub(crate) fn content(
    wait: &MayWait,
    call: &Call,
    params: SearchContentParams,
    gone: &dyn Fn() -> bool,
) -> Result<SearchContent, RpcError> {
    let index = index(wait, call, &params)?;
    let within = if params.within_ms == 0 { WITHIN.0 } else { params.within_ms.min(WITHIN.1) };
    let query = ContentQuery {
        pattern: params.query,
        regex: params.regex,
        case: params.case.unwrap_or(SearchCase::Smart).translated(),
        word: params.word,
        context: (params.before as usize, params.after as usize),
        folder: params.path.0,
        filters: filters(params.filters),
        limit: if params.limit == 0 { LINES } else { params.limit as usize },
        each: params.each as usize,
        within: Duration::from_millis(within),
        after: params.from.map(|from| from.0),
    };
    let found = index.content(wait, &query, gone).map_err(|error| bad(format!("search.content: {error}")))?;
    failed(&index.status())?;
    let file = |file: ostler_engine::workspace::content::FoundFile| FoundInFile {
        path: path(&file.path),
        lines: file.lines.iter().map(line).collect(),
        more: file.more,
    };
    Ok(SearchContent {
        files: found.files.into_iter().map(file).collect(),
        matches: found.matches,
        more: found.more,
        next: found.next.as_deref().map(path),
        searched: found.searched,
        bytes: found.bytes,
        unreadable: found.unreadable,
        binary: found.binary,
    })
}

/// A line as text: places of matches move where bytes that are no UTF-8 are replaced.
fn line(line: &FoundLine) -> FoundText {
    let text = String::from_utf8_lossy(&line.text);
    let moved = |at: usize| {
        let before = line.text.get(..at).unwrap_or(&line.text);
        String::from_utf8_lossy(before).len() as u64
    };
    let spans = line.spans.iter().map(|(start, end)| (moved(*start), moved(*end))).collect();
    FoundText { line: line.number, text: text.into_owned(), spans, cut: line.cut }
}

pub(crate) fn status(wait: &MayWait, call: &Call, params: SearchParams) -> Result<SearchStatus, RpcError> {
    let IndexStatus { watch, totals } = index(wait, call, &params)?.status();
    let (state, error) = match watch.phase {
        Phase::Ready => (SearchState::Ready, None),
        Phase::Indexing => (SearchState::Indexing, None),
        Phase::Failed(why) => (SearchState::Error, Some(why)),
    };
    Ok(SearchStatus {
        state,
        error,
        files: totals.files,
        folders: totals.folders,
        bytes: totals.bytes,
        memory: totals.memory,
        last_full_scan: watch.last_full_scan.map(Timestamp::from),
        last_update: watch.last_update.map(Timestamp::from),
        polled: watch.polled,
        unreadable: watch.unreadable,
        cut: watch.cut,
        git: watch.git.is_some(),
    })
}

pub(crate) fn stats(wait: &MayWait, call: &Call, params: SearchParams) -> Result<SearchStats, RpcError> {
    let index = index(wait, call, &params)?;
    let (stats, ignored) = index.stats(wait);
    failed(&index.status())?;
    let count = |(extension, files): (String, u64)| ExtensionCount { extension, files };
    Ok(SearchStats {
        files: stats.totals.files,
        folders: stats.totals.folders,
        bytes: stats.totals.bytes,
        extensions: stats.extensions.into_iter().map(count).collect(),
        largest: stats.largest.iter().map(name).collect(),
        tracked: stats.tracked,
        ignored,
        binary: stats.binary,
        sensitive: stats.sensitive,
    })
}

pub(crate) fn rebuild(wait: &MayWait, call: &Call, params: SearchParams) -> Result<Empty, RpcError> {
    index(wait, call, &params)?.rebuild();
    Ok(Empty {})
}

/// A lease is the connection's: it is given back when that ends.
pub(crate) fn watch(client: &mut Client, request: &Request<'_>, out: &mut Out) -> Answered {
    let params = request.params::<methods::WorkspaceWatch>()?;
    client.last_watch += 1;
    let (watch, leases) = (client.last_watch, client.leases.clone());
    let (call, head) = (Arc::clone(&client.call), request.head.clone());
    out.spawn_blocking(move |wait| {
        let begin = || {
            if leases.held().len() >= LEASES_MAX {
                let message = format!("this connection watches {LEASES_MAX} workspaces already");
                return Err(RpcError::new(ErrorKind::Refused, message).hint("end one first: workspace.unwatch"));
            }
            let root = seen(wait, &call, &params)?;
            let feed = call.engine().feed();
            let position = feed.newest(wait).map_err(|error| crate::feed::unread(&call, &error))?.to_string();
            let lease = call.engine().watch_workspace(wait, root).map_err(|error| refused(&error))?;
            let (root, polled) = (path(lease.path()), lease.polled());
            leases.held().insert(watch, lease);
            Ok(WorkspaceWatching { watch, root, position, polled })
        };
        Later::reply(head.answer::<methods::WorkspaceWatch>(&begin()))
    });
    Ok(())
}

pub(crate) fn unwatch(client: &mut Client, params: WorkspaceUnwatchParams, _: &mut Out) -> Result<Empty, RpcError> {
    client.leases.held().remove(&params.watch).map(|_| Empty {}).ok_or_else(|| no_watch(params.watch))
}
