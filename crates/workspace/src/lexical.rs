//! Paths as text: what `.`, `..` and doubled slashes come to without asking the file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The shortest path that means the same as text: no `.`, no `//`, and `..` only at the start of a
/// relative path. The empty path is `.`.
pub fn clean(path: &Path) -> PathBuf {
    let rooted = path.is_absolute();
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in parts(path.as_os_str().as_bytes()) {
        match part {
            b".." if kept.last().is_some_and(|last| *last != b"..") => {
                kept.pop();
            }
            b".." if rooted => {}
            other => kept.push(other),
        }
    }
    let mut text = if rooted { b"/".to_vec() } else { Vec::new() };
    text.extend_from_slice(&kept.join(&b'/'));
    if text.is_empty() {
        text.push(b'.');
    }
    PathBuf::from(OsStr::from_bytes(&text))
}

/// Where `name` leads when it is taken as text below the absolute, clean path `root`: the components
/// under `root`, or `None` when it leads outside. A leading slash does not leave `root`.
pub(crate) fn below<'a>(root: &'a Path, name: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let base: Vec<&[u8]> = parts(root.as_os_str().as_bytes()).collect();
    let mut kept = base.clone();
    for part in parts(name) {
        if part == b".." {
            kept.pop();
        } else {
            kept.push(part);
        }
    }
    kept.strip_prefix(base.as_slice()).map(<[_]>::to_vec)
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cleaned_as_text() {
        for (path, want) in [
            ("", "."),
            (".", "."),
            ("/", "/"),
            ("//", "/"),
            ("/.", "/"),
            ("/../..", "/"),
            ("/r/./sub//f", "/r/sub/f"),
            ("./rel.txt", "rel.txt"),
            ("a/../..", ".."),
            ("../../a", "../../a"),
            ("a/../b/", "b"),
            ("/a/..", "/"),
        ] {
            assert_eq!(clean(Path::new(path)), Path::new(want), "{path}");
        }
    }

    #[test]
    fn a_name_stays_below_its_root_or_is_refused() {
        let root = Path::new("/srv/out");
        for (name, want) in [
            ("f", Some("f")),
            ("./d/f", Some("d/f")),
            ("/abs/f", Some("abs/f")),
            ("a/../b.txt", Some("b.txt")),
            ("../out/f", Some("f")),
            ("../../../srv/out/f", Some("f")),
            (".", Some("")),
            ("", Some("")),
            ("a/..", Some("")),
            ("..", None),
            ("../evil", None),
            ("a/../../evil", None),
            ("../outside", None),
            ("/../f", None),
        ] {
            let got = below(root, name.as_bytes()).map(|parts| parts.join(&b'/'));
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{name}");
        }
    }
}
