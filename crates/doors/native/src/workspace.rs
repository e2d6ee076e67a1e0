//! `workspace.*`: files beneath a folder.

use ostler_api::{
    FileStat, ListedFile, RpcError, Timestamp, TreeFile, WorkspaceFile, WorkspaceList, WorkspaceListParams,
    WorkspaceReadParams, WorkspaceTree, WorkspaceTreeParams, WorkspaceWriteParams, WorkspaceWritten,
};
use ostler_door_rpc::{decode_base64, push_base64};
use ostler_engine::MayWait;
use ostler_engine::workspace::beneath::{
    self, Content, Count, Expected, LIST_MAX, Listed, READ_MAX, Range, Stated, TREE_MAX,
};

use crate::call::Call;
use crate::place::{bad, of_file, owned, path, seen};
use crate::words::Translate;

/// Large for a source file, small for a message.
const READ_USUALLY: u64 = 1 << 20;

pub(crate) fn list(wait: &MayWait, call: &Call, params: WorkspaceListParams) -> Result<WorkspaceList, RpcError> {
    let root = seen(wait, call, &params)?;
    let after = params.after.as_ref().map(|name| name.0.as_os_str());
    let limit = limit(params.limit, LIST_MAX);
    let page = root.list(&params.path.0, after, limit, params.counts).map_err(|error| of_file(&error))?;
    Ok(WorkspaceList { entries: page.entries.iter().map(listed).collect(), total: page.total, more: page.more })
}

pub(crate) fn tree(wait: &MayWait, call: &Call, params: WorkspaceTreeParams) -> Result<WorkspaceTree, RpcError> {
    let root = seen(wait, call, &params)?;
    let found = root.tree(&params.path.0, params.depth as usize, limit(params.limit, TREE_MAX));
    let found = found.map_err(|error| of_file(&error))?;
    let entry =
        |entry: &beneath::TreeEntry| TreeFile { path: path(&entry.path), stat: stat(&entry.stat), cut: entry.cut };
    Ok(WorkspaceTree { entries: found.entries.iter().map(entry).collect(), cut: found.cut })
}

pub(crate) fn read(wait: &MayWait, call: &Call, params: WorkspaceReadParams) -> Result<WorkspaceFile, RpcError> {
    let range = match (params.offset, params.length) {
        (None, None) => Range::Whole { limit: params.limit.unwrap_or(READ_USUALLY) },
        (offset, length) => Range::Part { offset: offset.unwrap_or(0), length: length.unwrap_or(READ_MAX) },
    };
    let shown = seen(wait, call, &params)?.read(&params.path.0, range).map_err(|error| of_file(&error))?;
    let (text, data) = match shown.content {
        Content::Text(text) => (Some(text), None),
        Content::Bytes(bytes) => (None, Some(encoded(&bytes))),
    };
    let media_type = shown.media_type.map(str::to_owned);
    Ok(WorkspaceFile { stat: stat(&shown.stat), offset: shown.offset, text, data, media_type, hash: shown.hash })
}

pub(crate) fn write(wait: &MayWait, call: &Call, params: WorkspaceWriteParams) -> Result<WorkspaceWritten, RpcError> {
    let root = owned(wait, call, &params)?;
    let content = either(params.text, params.data, "text", "data")?;
    let expected = params.replaces.as_deref().map_or(Expected::Absent, Expected::Hash);
    let written = root.write(&params.path.0, &content, expected).map_err(|error| of_file(&error))?;
    Ok(WorkspaceWritten { hash: written.hash })
}

/// A content as text or as base64.
pub(crate) fn either(text: Option<String>, data: Option<String>, one: &str, two: &str) -> Result<Vec<u8>, RpcError> {
    match (text, data) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(data)) => decode_base64(data.as_bytes()).map_err(|_| bad(format!("{two} is not base64"))),
        _ => Err(bad(format!("give either `{one}` or `{two}`"))),
    }
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    push_base64(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn limit(asked: u32, most: usize) -> usize {
    if asked == 0 { most } else { asked as usize }
}

fn listed(entry: &Listed) -> ListedFile {
    let (count, count_more) = match entry.count {
        Some(Count::Exactly(count)) => (Some(count), false),
        Some(Count::MoreThan(count)) => (Some(count), true),
        Some(Count::Unreadable) | None => (None, false),
    };
    ListedFile {
        name: path(entry.name.as_ref()),
        stat: entry.stat.as_ref().map(stat),
        target: entry.target.as_deref().map(|target| path(target.as_ref())),
        count,
        count_more,
        unreadable: entry.count == Some(Count::Unreadable),
    }
}

fn stat(stat: &Stated) -> FileStat {
    let modified = Timestamp::from_micros(u64::try_from(stat.modified_ns / 1000).unwrap_or(0));
    FileStat { kind: stat.kind.translated(), size: stat.size, modified, mode: stat.mode }
}
