//! `search.*`: files of a workspace by name and by content. Names come from an index in memory, which the first to ask has read,
//! which all share, and which is kept current; what is ignored is not in it.

use crate::path::FilePath;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// How a name is looked for.
    pub enum SearchMode {
        /// Letters in their order, best first.
        Fuzzy = "fuzzy",
        /// A part of the path, capital or not.
        Exact = "exact",
        /// The beginning of the name or of the path.
        Prefix = "prefix",
        /// The ending, with or without its dot.
        Extension = "extension",
    }

    /// How far an index is.
    pub enum SearchState {
        /// It is what is there.
        Ready = "ready",
        /// It is being filled, or looked over as a whole.
        Indexing = "indexing",
        /// It is not what is there; `error` says why.
        Error = "error",
    }

    /// How letters are compared.
    pub enum SearchCase {
        /// Small letters fit capitals, unless capitals are given.
        Smart = "smart",
        Sensitive = "sensitive",
        Insensitive = "insensitive",
    }
}

wire! {
    /// Files by name.
    pub struct SearchNamesParams {
        /// The workspace, as an absolute path.
        pub root: Option<FilePath>,
        /// Or the session that works in it.
        pub session: Option<String>,
        /// What is looked for; every file when empty.
        #[serde(default)]
        pub query: String,
        /// Fuzzy when left out.
        pub mode: Option<SearchMode>,
        pub filters: Option<SearchFilters>,
        /// At most so many, up to 1000; 50 when left out.
        #[serde(default)]
        pub limit: u32,
        /// Leave out so many of the best.
        #[serde(default)]
        pub skip: u32,
    }

    /// Which files are looked at; all, but for what is set.
    pub struct SearchFilters {
        /// With one of these endings.
        #[serde(default)]
        pub extensions: Vec<String>,
        /// At least so many bytes.
        pub min_size: Option<u64>,
        /// At most so many bytes.
        pub max_size: Option<u64>,
        /// What git has, or has not.
        pub tracked: Option<bool>,
        /// What is no text, or is text: by its ending, else by its first bytes.
        pub binary: Option<bool>,
        /// Names under which secrets are kept, or others.
        pub sensitive: Option<bool>,
    }

    pub struct SearchNames {
        /// Best first; of those that fit equally well the shortest.
        pub files: Vec<FoundName>,
        /// How many fit in all.
        pub total: u64,
    }

    pub struct FoundName {
        pub path: FilePath,
        pub size: u64,
        pub modified: Timestamp,
        /// It is a symbolic link.
        #[serde(default)]
        pub link: bool,
        #[serde(default)]
        pub tracked: bool,
        /// Git has it although its name is ignored.
        #[serde(default)]
        pub ignored: bool,
        #[serde(default)]
        pub binary: bool,
        #[serde(default)]
        pub sensitive: bool,
        /// How well it fits, for a fuzzy search.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub score: Option<u32>,
    }

    /// Lines of files.
    pub struct SearchContentParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        /// What is looked for.
        pub query: String,
        /// It is a regular expression.
        #[serde(default)]
        pub regex: bool,
        /// Smart when left out.
        pub case: Option<SearchCase>,
        /// Only whole words.
        #[serde(default)]
        pub word: bool,
        /// Lines before each match, up to 50.
        #[serde(default)]
        pub before: u32,
        /// Lines after each match, up to 50.
        #[serde(default)]
        pub after: u32,
        /// Only in this folder.
        #[serde(default)]
        pub path: FilePath,
        pub filters: Option<SearchFilters>,
        /// At most so many matching lines, up to 5000; 500 when left out.
        #[serde(default)]
        pub limit: u32,
        /// At most so many of one file; no bound of its own when left out.
        #[serde(default)]
        pub each: u32,
        /// How long to look, in milliseconds; 10000 when left out, 60000 at most.
        #[serde(default)]
        pub within_ms: u64,
        /// Go on: `next` of the answer before.
        pub from: Option<FilePath>,
    }

    pub struct SearchContent {
        /// In the order of their paths.
        pub files: Vec<FoundInFile>,
        /// Matching lines in these.
        pub matches: u64,
        /// Not everything was looked at: ask again `from` `next`.
        pub more: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub next: Option<FilePath>,
        /// Files that were looked through, and their bytes.
        pub searched: u64,
        pub bytes: u64,
        /// Files that could not be read.
        pub unreadable: u64,
        /// Files that are no text.
        pub binary: u64,
    }

    pub struct FoundInFile {
        pub path: FilePath,
        pub lines: Vec<FoundText>,
        /// There are more in this file.
        #[serde(default)]
        pub more: bool,
    }

    pub struct FoundText {
        /// From 1 on.
        pub line: u64,
        /// Without its end; what is no UTF-8 is replaced.
        pub text: String,
        /// Where in `text` the matches are, in UTF-8 bytes; empty for a line that only stands beside one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub spans: Vec<(u64, u64)>,
        /// The line is longer.
        #[serde(default)]
        pub cut: bool,
    }

    /// A workspace.
    pub struct SearchParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
    }

    pub struct SearchStatus {
        pub state: SearchState,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
        pub files: u64,
        pub folders: u64,
        pub bytes: u64,
        /// Bytes that the index itself takes, about.
        pub memory: u64,
        /// When everything was looked at last.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_full_scan: Option<Timestamp>,
        /// When something was found to be otherwise last.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_update: Option<Timestamp>,
        /// The system does not tell what changes, for this reason: it is looked every few seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub polled: Option<String>,
        /// Folders that could not be read.
        pub unreadable: u64,
        /// There is more than the index holds.
        #[serde(default)]
        pub cut: bool,
        /// There is a git repository.
        #[serde(default)]
        pub git: bool,
    }

    pub struct SearchStats {
        pub files: u64,
        pub folders: u64,
        pub bytes: u64,
        /// Most frequent first; the empty one is for files without.
        pub extensions: Vec<ExtensionCount>,
        pub largest: Vec<FoundName>,
        pub tracked: u64,
        /// Names that git ignores, a folder as one; absent where there is no git.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ignored: Option<u64>,
        pub binary: u64,
        pub sensitive: u64,
    }

    pub struct ExtensionCount {
        pub extension: String,
        pub files: u64,
    }

    /// What changes in a workspace is told by the feed from now on: `workspace.file`, `workspace.git`, `workspace.look_again`.
    pub struct WorkspaceWatchParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
    }

    /// It lasts until `workspace.unwatch`, or as long as the connection.
    pub struct WorkspaceWatching {
        /// Names this watch on this connection.
        pub watch: u64,
        /// The workspace, as the feed calls it.
        pub root: FilePath,
        /// Follow or read the feed after this position: what changes from now on is behind it.
        pub position: String,
        /// The system does not tell what changes, for this reason: it is looked every few seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub polled: Option<String>,
    }

    pub struct WorkspaceUnwatchParams {
        pub watch: u64,
    }
}
