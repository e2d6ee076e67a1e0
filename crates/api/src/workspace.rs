//! `workspace.*`: files beneath a folder. A workspace is named by its absolute path, or by the session that works in it.

use crate::path::FilePath;
use crate::schema::{wire, words};
use crate::time::Timestamp;

words! {
    /// What a name in a folder stands for.
    pub enum FileKind {
        File = "file",
        Folder = "folder",
        /// A symbolic link; it is not followed in lists.
        Link = "link",
        /// A pipe, a socket or a device.
        Special = "special",
    }
}

wire! {
    /// What the system says of a file.
    pub struct FileStat {
        pub kind: FileKind,
        pub size: u64,
        pub modified: Timestamp,
        /// Permission bits.
        pub mode: u32,
    }

    /// A page of a folder.
    pub struct WorkspaceListParams {
        /// The workspace, as an absolute path.
        pub root: Option<FilePath>,
        /// Or the session that works in it.
        pub session: Option<String>,
        /// The folder; the root when left out.
        #[serde(default)]
        pub path: FilePath,
        /// Only names behind this one.
        pub after: Option<FilePath>,
        /// At most so many, up to 1000; 0 for as many as fit.
        #[serde(default)]
        pub limit: u32,
        /// Also how many names each folder holds.
        #[serde(default)]
        pub counts: bool,
    }

    pub struct WorkspaceList {
        /// In the order of their bytes.
        pub entries: Vec<ListedFile>,
        /// Names in the whole folder.
        pub total: u64,
        /// There are more: go on after the last of these.
        pub more: bool,
    }

    pub struct ListedFile {
        pub name: FilePath,
        /// Absent where it was gone before it was looked at.
        pub stat: Option<FileStat>,
        /// Where a link leads, as it says.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub target: Option<FilePath>,
        /// Names in a folder, counted up to 1000; absent where nobody asked, or it cannot be looked into.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub count: Option<u64>,
        /// There are more than `count`.
        #[serde(default)]
        pub count_more: bool,
        /// The folder cannot be looked into.
        #[serde(default)]
        pub unreadable: bool,
    }

    /// A folder and what is beneath it.
    pub struct WorkspaceTreeParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        #[serde(default)]
        pub path: FilePath,
        /// Folders in folders, up to 32; 1 is the folder alone.
        pub depth: u32,
        /// At most so many entries, up to 5000; 0 for as many as fit.
        #[serde(default)]
        pub limit: u32,
    }

    pub struct WorkspaceTree {
        /// Each folder before what is in it; links are not followed, what git keeps is not entered.
        pub entries: Vec<TreeFile>,
        /// Something is missing because there is too much of it.
        pub cut: bool,
    }

    pub struct TreeFile {
        /// From the folder on.
        pub path: FilePath,
        pub stat: FileStat,
        /// What is in this folder is not here, or not all of it.
        #[serde(default)]
        pub cut: bool,
    }

    /// A file, or a range of it.
    pub struct WorkspaceReadParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub path: FilePath,
        /// Refuse a file that is larger; 1 MiB when left out, at most 4 MiB. The refusal says its size.
        pub limit: Option<u64>,
        /// Instead of the whole: from here on.
        pub offset: Option<u64>,
        /// With `offset`: at most so many bytes, up to 4 MiB.
        pub length: Option<u64>,
    }

    pub struct WorkspaceFile {
        pub stat: FileStat,
        /// Where the content begins in the file.
        pub offset: u64,
        /// The content, if it is UTF-8 without a NUL.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        /// Else its bytes, in base64.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub data: Option<String>,
        /// By how the content begins; absent for a range from the middle.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub media_type: Option<String>,
        /// SHA-256 of a file that was read whole: what `workspace.write` wants to see.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hash: Option<String>,
    }

    /// A file to be written whole, up to 8 MiB. Never one that belongs to git. Not for hosted processes.
    pub struct WorkspaceWriteParams {
        pub root: Option<FilePath>,
        pub session: Option<String>,
        pub path: FilePath,
        /// The content as text; or else `data`.
        pub text: Option<String>,
        /// In base64.
        pub data: Option<String>,
        /// The hash of the content that it replaces. Left out: there must be no such file.
        pub replaces: Option<String>,
    }

    pub struct WorkspaceWritten {
        /// What the file is known by now.
        pub hash: String,
    }
}
