//! Whether a file is text: by its name where that says it, else by its first bytes, which are looked at when somebody asks and
//! remembered until the file changes.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::OFlags;

use crate::beneath::{FileKind, Root};

/// As many bytes as git looks at.
const LOOK: usize = 8000;

/// Endings of files that are text in every project.
const TEXT: &str = " bash bat c cc cfg cjs clj cmake cpp cs css csv cts cxx dart diff ejs el erl ex exs fish fs go gradle graphql \
    h haml hbs hpp hs htm html hxx ini ipynb java jl js json json5 jsonl jsx kt kts less lisp lock log lua m makefile markdown \
    md mdx mjs mk ml mli mm mts nim nix patch php pl pm pod properties proto ps1 py pyi r rb rs rst sass sbt scala scm scss sh \
    sql svelte svg swift tcl tex tf toml ts tsv tsx txt vim vue xhtml xml yaml yml zig zsh ";
/// Endings of files that never are.
const BINARY: &str = " 7z a avi avif bin bmp bz2 class db dll dylib eot exe flac gif gz heic ico jar jpeg jpg lib mkv mov mp3 mp4 \
    mpeg o obj ogg otf pdf png psd pyc rar rlib rmeta so sqlite tar tgz tif tiff ttf war wasm wav webm webp woff woff2 xls xlsx \
    xz zip zst ";

/// The ending of a name, without its dot and in small letters; none for a name that only begins with a dot.
pub(super) fn extension(name: &[u8]) -> Option<String> {
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
    let ending = name.get(dot + 1..).filter(|ending| !ending.is_empty())?;
    Some(String::from_utf8_lossy(ending).to_lowercase())
}

/// The longest ending that either list has, and more.
const ENDING_MAX: usize = 16;

/// Whether a file of this name is binary, if the name says it. What is no file has no content that is text or not.
pub(super) fn by_name(name: &[u8], kind: FileKind) -> Option<bool> {
    static ENDINGS: LazyLock<HashMap<&[u8], bool>> = LazyLock::new(|| {
        let of =
            |list: &'static str, is: bool| list.split_ascii_whitespace().map(move |ending| (ending.as_bytes(), is));
        of(TEXT, false).chain(of(BINARY, true)).collect()
    });
    if kind != FileKind::File {
        return Some(false);
    }
    let dot = memchr::memrchr(b'.', name).filter(|dot| *dot > 0)?;
    let ending = name.get(dot + 1..).filter(|ending| ending.len() <= ENDING_MAX)?;
    ENDINGS.get(ending).or_else(|| ENDINGS.get(ending.to_ascii_lowercase().as_slice())).copied()
}

/// Whether a file's first bytes are not text; what cannot be read is not said to be binary.
pub(super) fn by_content(root: &Root, path: &Path) -> bool {
    let Ok(file) = root.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) else { return false };
    let mut first = Vec::new();
    let read = File::from(file).take(LOOK as u64).read_to_end(&mut first);
    read.is_ok() && first.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_can_and_no_more() {
        let by = |name: &str| by_name(name.as_bytes(), FileKind::File);
        assert_eq!((by("a.rs"), by("a.PNG"), by("a.xyz"), by("Makefile")), (Some(false), Some(true), None, None));
        assert_eq!(extension(b".gitignore"), None);
        assert_eq!((extension(b"a.tar.GZ").as_deref(), extension(b"a.")), (Some("gz"), None));
    }
}
