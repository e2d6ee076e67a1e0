//! `repository/*`: the names of a workspace's files, searched, listed and counted. The index is the engine's, in memory and on no
//! disk that others read; asking begins it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Instant, SystemTime};

use ostler_api::Timestamp;
use ostler_engine::MayWait;
use ostler_engine::workspace::beneath::FileKind;
use ostler_engine::workspace::names::{
    Filters, FolderSummary, IndexedFile, ListQuery, NameQuery, QueryMode, Sort, TreeNode,
};
use ostler_engine::workspace::{Phase, WorkspaceIndex};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use crate::file::{modified, within};
use crate::method::Call;
use crate::place::{name_of, shown};
use crate::session::{Order, most};
use crate::workspace::WhichParams;

const SEARCH_USUALLY: usize = 50;
const SEARCH_MAX: usize = 500;
const LIST_USUALLY: usize = 100;
const LIST_MAX: usize = 1000;
const DEPTH_USUALLY: usize = 2;
const DEPTH_MAX: usize = 10;

fn with_index<T>(
    wait: &MayWait,
    call: &Call,
    workspace: Option<&str>,
    look: impl FnOnce(&WorkspaceIndex<'_>, &Path) -> Result<T, Error>,
) -> Result<T, Error> {
    let folder = call.folder(workspace)?;
    let root = call.root(wait, &folder)?;
    let index = call.state.engine.index(wait, root);
    let index = index.map_err(|error| Error::new(Code::IndexNotReady, error.to_string()))?;
    look(&index, &folder)
}

fn stamp(time: SystemTime) -> String {
    Timestamp::from(time).to_string()
}

/// How the index stands.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct IndexStatus {
    /// `ready`, `indexing` or `error`.
    pub(crate) status: String,
    pub(crate) total_files: u64,
    pub(crate) indexed_files: u64,
    pub(crate) total_size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_full_scan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_update: Option<String>,
    /// What it takes in memory; nothing of it is on a disk.
    pub(crate) database_size_bytes: u64,
    pub(crate) is_git_repo: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_message: Option<String>,
}

pub(crate) fn status(wait: &MayWait, call: &Call, params: WhichParams) -> Result<IndexStatus, Error> {
    with_index(wait, call, params.workspace_id.as_deref(), |index, _| {
        let status = index.status();
        let (word, error_message) = match status.watch.phase {
            Phase::Indexing => ("indexing", None),
            Phase::Ready => ("ready", status.watch.polled),
            Phase::Failed(why) => ("error", Some(why)),
        };
        Ok(IndexStatus {
            status: word.to_owned(),
            total_files: status.totals.files,
            indexed_files: status.totals.files,
            total_size_bytes: status.totals.bytes,
            last_full_scan: status.watch.last_full_scan.map(stamp),
            last_update: status.watch.last_update.map(stamp),
            database_size_bytes: status.totals.memory,
            is_git_repo: status.watch.git.is_some(),
            error_message,
        })
    })
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SearchMode {
    #[default]
    Fuzzy,
    /// A part of the path.
    Exact,
    /// The beginning of the name or the path.
    Prefix,
    Extension,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct SearchParams {
    #[serde(alias = "q")]
    pub(crate) query: String,
    #[serde(default)]
    pub(crate) mode: SearchMode,
    #[serde(default)]
    pub(crate) limit: Option<usize>,
    #[serde(default)]
    pub(crate) offset: usize,
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    /// Leave out what is no text; so unless said otherwise.
    #[serde(default)]
    pub(crate) exclude_binaries: Option<bool>,
    #[serde(default)]
    pub(crate) git_tracked_only: bool,
    #[serde(default)]
    pub(crate) min_size: Option<u64>,
    #[serde(default)]
    pub(crate) max_size: Option<u64>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Search {
    pub(crate) query: String,
    pub(crate) mode: SearchMode,
    pub(crate) results: Vec<FileInfo>,
    pub(crate) total: u64,
    pub(crate) elapsed_ms: f64,
}

/// A file, as the index knows it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FileInfo {
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extension: Option<String>,
    pub(crate) size_bytes: u64,
    pub(crate) modified_at: String,
    pub(crate) is_binary: bool,
    pub(crate) is_symlink: bool,
    pub(crate) is_sensitive: bool,
    pub(crate) git_tracked: bool,
    pub(crate) git_ignored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) match_score: Option<u32>,
}

fn described(file: &IndexedFile) -> FileInfo {
    FileInfo {
        path: shown(&file.path),
        name: name_of(&file.path),
        directory: file.path.parent().map(shown).unwrap_or_default(),
        extension: file.path.extension().map(|extension| extension.to_string_lossy().to_lowercase()),
        size_bytes: file.size,
        modified_at: modified(i128::from(file.modified_ns)),
        is_binary: file.binary,
        is_symlink: file.kind == FileKind::Link,
        is_sensitive: file.sensitive,
        git_tracked: file.tracked,
        git_ignored: file.ignored,
        match_score: file.score,
    }
}

/// Which files are wanted, as a search and a list both say it.
fn by_size(extensions: Vec<String>, min_size: Option<u64>, max_size: Option<u64>) -> Filters {
    Filters { extensions, min_size, max_size, ..Filters::default() }
}

pub(crate) fn search(wait: &MayWait, call: &Call, params: SearchParams) -> Result<Search, Error> {
    if params.query.is_empty() {
        return Err(Error::params("repository/search: `query` is empty"));
    }
    let began = Instant::now();
    let query = NameQuery {
        text: params.query.clone(),
        mode: match params.mode {
            SearchMode::Fuzzy => QueryMode::Fuzzy,
            SearchMode::Exact => QueryMode::Exact,
            SearchMode::Prefix => QueryMode::Prefix,
            SearchMode::Extension => QueryMode::Extension,
        },
        filters: Filters {
            tracked: params.git_tracked_only.then_some(true),
            binary: params.exclude_binaries.unwrap_or(true).then_some(false),
            ..by_size(params.extensions, params.min_size, params.max_size)
        },
        limit: most(params.limit, SEARCH_USUALLY, SEARCH_MAX),
        offset: params.offset,
    };
    let found = with_index(wait, call, params.workspace_id.as_deref(), |index, _| Ok(index.search(wait, &query)))?;
    Ok(Search {
        query: params.query,
        mode: params.mode,
        results: found.files.iter().map(described).collect(),
        total: found.total,
        elapsed_ms: began.elapsed().as_secs_f64() * 1000.0,
    })
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SortBy {
    #[default]
    Name,
    Size,
    Modified,
    Path,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ListParams {
    pub(crate) directory: String,
    pub(crate) recursive: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) offset: usize,
    #[serde(alias = "sort")]
    pub(crate) sort_by: SortBy,
    #[serde(alias = "order")]
    pub(crate) sort_order: Order,
    pub(crate) extensions: Vec<String>,
    pub(crate) min_size: Option<u64>,
    pub(crate) max_size: Option<u64>,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct List {
    pub(crate) directory: String,
    pub(crate) files: Vec<FileInfo>,
    pub(crate) directories: Vec<FolderInfo>,
    pub(crate) total_files: u64,
    pub(crate) total_directories: u64,
    pub(crate) pagination: Page,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct FolderInfo {
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) file_count: u64,
    pub(crate) total_size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_modified: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Page {
    pub(crate) limit: usize,
    pub(crate) offset: usize,
    pub(crate) has_more: bool,
}

fn no_folder(path: &str) -> Error {
    let shown: String = path.chars().take(256).collect();
    Error::new(Code::FolderNotFound, format!("{shown}: no such folder")).with("path", shown)
}

pub(crate) fn list(wait: &MayWait, call: &Call, params: ListParams) -> Result<List, Error> {
    let folder = within(&params.directory)?;
    let limit = most(params.limit, LIST_USUALLY, LIST_MAX);
    let query = ListQuery {
        folder: folder.clone(),
        recursive: params.recursive,
        sort: match params.sort_by {
            SortBy::Name => Sort::Name,
            SortBy::Size => Sort::Size,
            SortBy::Modified => Sort::Modified,
            SortBy::Path => Sort::Path,
        },
        descending: params.sort_order == Order::Desc,
        filters: by_size(params.extensions, params.min_size, params.max_size),
        limit,
        offset: params.offset,
    };
    let found = with_index(wait, call, params.workspace_id.as_deref(), |index, _| {
        index.list(wait, &query).ok_or_else(|| no_folder(&params.directory))
    })?;
    let directory = |summary: &FolderSummary| FolderInfo {
        path: shown(&summary.path),
        name: name_of(&summary.path),
        file_count: summary.files,
        total_size_bytes: summary.bytes,
        last_modified: summary.modified_ns.map(|ns| modified(i128::from(ns))),
    };
    Ok(List {
        directory: shown(&folder),
        files: found.files.iter().map(described).collect(),
        directories: found.folders.iter().map(directory).collect(),
        total_files: found.total_files,
        total_directories: found.total_folders,
        pagination: Page { limit, offset: params.offset, has_more: found.more },
    })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct TreeParams {
    pub(crate) path: String,
    pub(crate) depth: Option<usize>,
    pub(crate) workspace_id: Option<String>,
}

/// A folder or file, with what is in it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Tree {
    pub(crate) path: String,
    pub(crate) name: String,
    /// `directory` or `file`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) children: Option<Vec<Tree>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extension: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_size_bytes: Option<u64>,
}

fn node(found: &TreeNode, name: Option<String>, depth: usize) -> Tree {
    let extension = found.path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    let open = found.folder && depth > 0;
    Tree {
        path: shown(&found.path),
        name: name.unwrap_or_else(|| name_of(&found.path)),
        kind: if found.folder { "directory" } else { "file" }.to_owned(),
        children: open.then(|| found.children.iter().map(|child| node(child, None, depth - 1)).collect()),
        size_bytes: (!found.folder).then_some(found.bytes),
        extension: extension.filter(|_| !found.folder),
        file_count: found.folder.then_some(found.files),
        total_size_bytes: found.folder.then_some(found.bytes),
    }
}

pub(crate) fn tree(wait: &MayWait, call: &Call, params: TreeParams) -> Result<Tree, Error> {
    let path = within(&params.path)?;
    let depth = most(params.depth, DEPTH_USUALLY, DEPTH_MAX);
    with_index(wait, call, params.workspace_id.as_deref(), |index, folder| {
        let found = index.tree(wait, &path, depth).ok_or_else(|| no_folder(&params.path))?;
        let name = path.as_os_str().is_empty().then(|| name_of(folder));
        Ok(node(&found, name, depth))
    })
}

/// Figures about a repository.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Stats {
    pub(crate) total_files: u64,
    pub(crate) total_directories: u64,
    pub(crate) total_size_bytes: u64,
    pub(crate) files_by_extension: BTreeMap<String, u64>,
    pub(crate) largest_files: Vec<FileInfo>,
    pub(crate) git_tracked_files: u64,
    pub(crate) git_ignored_files: u64,
    pub(crate) binary_files: u64,
    pub(crate) sensitive_files: u64,
}

pub(crate) fn stats(wait: &MayWait, call: &Call, params: WhichParams) -> Result<Stats, Error> {
    with_index(wait, call, params.workspace_id.as_deref(), |index, _| {
        let (stats, ignored) = index.stats(wait);
        Ok(Stats {
            total_files: stats.totals.files,
            total_directories: stats.totals.folders,
            total_size_bytes: stats.totals.bytes,
            files_by_extension: stats.extensions.into_iter().collect(),
            largest_files: stats.largest.iter().map(described).collect(),
            git_tracked_files: stats.tracked,
            git_ignored_files: ignored.unwrap_or(0),
            binary_files: stats.binary,
            sensitive_files: stats.sensitive,
        })
    })
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Rebuild {
    /// `started`.
    pub(crate) status: String,
    pub(crate) message: String,
}

pub(crate) fn rebuild(wait: &MayWait, call: &Call, params: WhichParams) -> Result<Rebuild, Error> {
    with_index(wait, call, params.workspace_id.as_deref(), |index, _| {
        index.rebuild();
        Ok(Rebuild { status: "started".into(), message: "everything is looked at again".into() })
    })
}
