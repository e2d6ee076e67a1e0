//! What a file is, from its mode and from its first bytes. Nothing is guessed from a name.

use rustix::fs::FileType;

/// What a name in a folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, wherever it leads.
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// First bytes that tell a media type apart from every other.
const SIGNS: [(&[u8], &str); 7] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
];

/// The media type of a content, by how it begins; text only where all of it is UTF-8 without a NUL.
pub fn media_type(content: &[u8]) -> &'static str {
    if let Some((_, kind)) = SIGNS.iter().find(|(sign, _)| content.starts_with(sign)) {
        return kind;
    }
    let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP".as_slice());
    match () {
        () if is_webp => "image/webp",
        () if is_text(content) => "text/plain",
        () => "application/octet-stream",
    }
}

pub(super) fn is_text(content: &[u8]) -> bool {
    !content.contains(&0) && std::str::from_utf8(content).is_ok()
}
