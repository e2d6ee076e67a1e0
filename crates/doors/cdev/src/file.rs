//! `file/*`: files of the repository, as text where they are text and as base64 where they are not. What leads out of it is
//! refused by the kernel, whatever the path looks like.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use ostler_api::Timestamp;
use ostler_door_rpc::push_base64;
use ostler_engine::MayWait;
use ostler_engine::workspace::beneath::{
    BeneathError, Content, Count, FileKind, LIST_MAX, Listed, READ_MAX, Range, Stated,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error};
use crate::method::Call;
use crate::place::shown;

/// A file that is larger is not given by its beginning: nobody means that.
const WHOLE_MAX: u64 = 10 << 20;

/// Folders that no list shows: they are large, and nobody's own work.
const HIDDEN: [&str; 3] = ["node_modules", "__pycache__", "vendor"];

#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct GetParams {
    /// From the repository's folder on.
    pub(crate) path: String,
    /// The first byte that is wanted.
    #[serde(default)]
    pub(crate) offset: Option<u64>,
    /// As many bytes at most.
    #[serde(default)]
    pub(crate) length: Option<u64>,
    #[serde(default)]
    pub(crate) workspace_id: Option<String>,
}

/// What a file says.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) content: String,
    /// `utf-8`, or `base64` for what is no text.
    pub(crate) encoding: String,
    /// There is more than this.
    pub(crate) truncated: bool,
    /// The bytes of `content`, decoded.
    pub(crate) size: u64,
    /// The bytes of the whole file.
    pub(crate) total_size: u64,
    /// Where `content` begins.
    pub(crate) offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ListParams {
    /// A folder; the repository's own when left out.
    pub(crate) path: String,
    pub(crate) workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct List {
    pub(crate) path: String,
    /// Folders first.
    pub(crate) entries: Vec<Entry>,
    pub(crate) total_count: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// `file` or `directory`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) children_count: Option<u64>,
}

/// A path beneath the repository, with `.` and `..` taken out by their text; what climbs out of it is refused.
pub(crate) fn within(text: &str) -> Result<PathBuf, Error> {
    let out = || Error::new(Code::PathTraversal, "the path leads out of the repository");
    if text.contains('\0') {
        return Err(Error::new(Code::FileNotFound, "a path has no NUL"));
    }
    let mut clean = PathBuf::new();
    if text.starts_with('/') {
        return Err(out().with("path", text.chars().take(256).collect::<String>()));
    }
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if !clean.pop() {
                    return Err(out().with("path", text.chars().take(256).collect::<String>()));
                }
            }
            name => clean.push(name),
        }
    }
    Ok(clean)
}

pub(crate) fn get(wait: &MayWait, call: &Call, params: GetParams) -> Result<File, Error> {
    if params.path.is_empty() {
        return Err(Error::params("file/get: `path` is empty"));
    }
    let path = within(&params.path)?;
    let root = call.root(wait, &call.folder(params.workspace_id.as_deref())?)?;
    let most = call.state.settings.max_file_bytes.min(READ_MAX);
    let offset = params.offset.unwrap_or(0);
    let length = params.length.unwrap_or(most).min(most);
    // A part that is asked for is given of any file.
    let whole = params.offset.is_none() && params.length.is_none();
    let size = root.stat(&path)?.size;
    if whole && size > WHOLE_MAX {
        let message = format!("{}: {size} bytes; ask for a part: `offset`, `length`", params.path);
        return Err(Error::new(Code::FileTooLarge, message).with("size", size).with("max_size", WHOLE_MAX));
    }
    let found = root.read(&path, Range::Part { offset, length })?;
    // It may have grown since it was looked at.
    let read = found.content.bytes().len() as u64;
    let total = if read > 0 { found.stat.size.max(offset + read) } else { found.stat.size };
    let (content, encoding, size) = match found.content {
        Content::Text(text) => {
            let size = text.len() as u64;
            (text, "utf-8", size)
        }
        // A text that was cut in the middle of a letter is a text all the same.
        Content::Bytes(bytes) => match cut_text(&bytes, offset + (bytes.len() as u64) < total) {
            Some(text) => (text.to_owned(), "utf-8", text.len() as u64),
            None => (encoded(&bytes), "base64", bytes.len() as u64),
        },
    };
    let mime_type = found.media_type.map(str::to_owned);
    let truncated = offset + size < total;
    let (path, encoding) = (params.path, encoding.to_owned());
    Ok(File { path, content, encoding, truncated, size, total_size: total, offset, mime_type })
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    push_base64(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// The whole letters of a text that ends in the middle of one.
fn cut_text(bytes: &[u8], is_cut: bool) -> Option<&str> {
    let error = std::str::from_utf8(bytes).err()?;
    let whole = bytes.get(..error.valid_up_to())?;
    let ends_in_letter = is_cut && error.error_len().is_none() && !whole.is_empty() && !whole.contains(&0);
    ends_in_letter.then(|| std::str::from_utf8(whole).ok()).flatten()
}

pub(crate) fn list(wait: &MayWait, call: &Call, params: ListParams) -> Result<List, Error> {
    let path = within(&params.path)?;
    let root = call.root(wait, &call.folder(params.workspace_id.as_deref())?)?;
    let missing = |error: BeneathError| match error {
        BeneathError::Missing(_) => Error::new(Code::FolderNotFound, error.to_string()),
        BeneathError::NotAFolder(_) => Error::params(error.to_string()),
        error => error.into(),
    };
    let page = root.list(&path, None, LIST_MAX, true).map_err(missing)?;
    let mut entries: Vec<Entry> = page.entries.iter().filter_map(entry).collect();
    entries.sort_by(by_kind_and_name);
    Ok(List { path: shown(&path), total_count: entries.len(), entries })
}

fn by_kind_and_name(one: &Entry, two: &Entry) -> Ordering {
    let is_file = |entry: &Entry| entry.kind != "directory";
    is_file(one).cmp(&is_file(two)).then_with(|| one.name.to_lowercase().cmp(&two.name.to_lowercase()))
}

/// One name, unless it is hidden.
fn entry(listed: &Listed) -> Option<Entry> {
    let name = shown(Path::new(&listed.name));
    if name.starts_with('.') || HIDDEN.contains(&name.as_str()) {
        return None;
    }
    let Stated { kind, size, modified_ns, .. } = *listed.stat.as_ref()?;
    let is_folder = kind == FileKind::Folder;
    let children_count = match listed.count {
        Some(Count::Exactly(count) | Count::MoreThan(count)) => Some(count),
        Some(Count::Unreadable) | None => None,
    };
    Some(Entry {
        name,
        kind: if is_folder { "directory" } else { "file" }.into(),
        size: (!is_folder).then_some(size),
        modified: Some(modified(modified_ns)),
        children_count,
    })
}

/// When a file was changed, as clients read it.
pub(crate) fn modified(ns: i128) -> String {
    Timestamp::from_micros(u64::try_from(ns / 1000).unwrap_or(0)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cleaned_by_its_text_and_never_climbs_out() {
        let clean = |text: &str| within(text).map(|path| shown(&path)).map_err(|error| error.code);
        assert_eq!(clean("./src/../README.md").unwrap(), "README.md");
        assert_eq!(clean("..hidden").unwrap(), "..hidden");
        assert_eq!(clean("a..b/c").unwrap(), "a..b/c");
        assert_eq!(clean("").unwrap(), "");
        for out in ["..", "../x", "src/../../x", "/etc/passwd", "//etc/passwd", "a/../../b"] {
            assert_eq!(clean(out).unwrap_err(), Code::PathTraversal, "{out}");
        }
        assert_eq!(clean("a\0b").unwrap_err(), Code::FileNotFound);
    }

    #[test]
    fn a_text_that_is_cut_within_a_letter_stays_a_text() {
        let snow = "ab☃".as_bytes();
        assert_eq!(cut_text(&snow[..4], true), Some("ab"));
        assert_eq!(cut_text(&snow[..4], false), None, "a whole file that ends so is no text");
        assert_eq!(cut_text(b"caf\xe9\n", true), None);
    }
}
