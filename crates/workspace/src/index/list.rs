//! A folder out of the index: its files in an order of one's choice, a page at a time, and its folders with what is beneath each.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::names::{Known, file};
use super::query::{Filters, name_of};
use super::{Index, IndexedFile};

/// Files of one page, and folders beside it.
const LIST_MAX: usize = 1000;

/// What a page is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// The last part of the path, small letters as capitals.
    #[default]
    Name,
    /// Bytes.
    Size,
    /// When it changed.
    Modified,
    /// The whole path.
    Path,
}

/// A question for a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// The folder; the root when empty.
    pub folder: PathBuf,
    /// Also what is in its folders.
    pub recursive: bool,
    /// By what the files are sorted.
    pub sort: Sort,
    /// The other way round.
    pub descending: bool,
    /// Among which files.
    pub filters: Filters,
    /// At most so many files, up to 1000.
    pub limit: usize,
    /// Leave out so many.
    pub offset: usize,
}

/// A folder's page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedFolder {
    /// The files of the page.
    pub files: Vec<IndexedFile>,
    /// Folders directly in it, by name; the first 1000.
    pub folders: Vec<FolderSummary>,
    /// Files in all that pass the filters.
    pub total_files: u64,
    /// Folders directly in it.
    pub total_folders: u64,
    /// There are more files behind the page.
    pub more: bool,
}

/// A folder and what is beneath it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderSummary {
    /// From the root on.
    pub path: PathBuf,
    /// Files beneath it, at any depth.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the newest of them changed; nothing for an empty folder.
    pub modified_ns: Option<i64>,
}

impl Index {
    /// A page of a folder; nothing if the index knows no such folder.
    pub fn list(&self, query: &ListQuery) -> Option<ListedFolder> {
        let names = self.read();
        let is_root = query.folder.as_os_str().is_empty();
        if !is_root && !names.get(&query.folder).is_some_and(Known::is_folder) {
            return None;
        }
        let skip = if is_root { 0 } else { query.folder.as_os_str().len() + 1 };
        let (mut files, mut folders) = (Vec::new(), BTreeMap::<&[u8], FolderSummary>::new());
        for (path, known) in names.beneath(&query.folder) {
            let below = path.get(skip..).unwrap_or_default();
            let child = memchr::memchr(b'/', below).and_then(|end| path.get(..skip + end));
            if let Some(folder) = child {
                folders.entry(folder).or_insert_with(|| summary(folder)).add(known);
            } else if known.is_folder() {
                folders.entry(path).or_insert_with(|| summary(path));
            }
            let wanted = !known.is_folder() && (query.recursive || child.is_none());
            if wanted && query.filters.pass(path, known) {
                files.push((path, known));
            }
        }
        files.sort_by(|one, two| {
            let order = ordered(query.sort, *one, *two);
            if query.descending { order.reverse() } else { order }
        });
        let limit = query.limit.clamp(1, LIST_MAX);
        let (total_files, total_folders) = (files.len() as u64, folders.len() as u64);
        let page = files.into_iter().skip(query.offset).take(limit);
        let files: Vec<IndexedFile> = page.map(|(path, known)| file(path, known, None)).collect();
        let more = (query.offset + files.len()) < usize::try_from(total_files).unwrap_or(usize::MAX);
        let folders = folders.into_values().take(LIST_MAX).collect();
        Some(ListedFolder { files, folders, total_files, total_folders, more })
    }
}

fn summary(path: &[u8]) -> FolderSummary {
    FolderSummary { path: Path::new(OsStr::from_bytes(path)).to_owned(), ..FolderSummary::default() }
}

impl FolderSummary {
    pub(super) fn add(&mut self, known: Known) {
        if !known.is_folder() {
            self.files += 1;
            self.bytes += known.size;
            self.modified_ns = self.modified_ns.max(Some(known.modified_ns));
        }
    }
}

fn ordered(sort: Sort, one: (&[u8], Known), two: (&[u8], Known)) -> Ordering {
    let by_path = one.0.cmp(two.0);
    let name = |path| name_of(path).to_ascii_lowercase();
    match sort {
        Sort::Name => name(one.0).cmp(&name(two.0)).then(by_path),
        Sort::Size => one.1.size.cmp(&two.1.size).then(by_path),
        Sort::Modified => one.1.modified_ns.cmp(&two.1.modified_ns).then(by_path),
        Sort::Path => by_path,
    }
}
