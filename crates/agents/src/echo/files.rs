//! The files that the echo agent may touch: those that lie in its workspace itself, by their plain names.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// What is read out of a file: ten minutes of reading aloud.
const MOST: u64 = 64 << 10;

/// Whether `name` is a file of the workspace, and neither hidden nor somewhere else.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

/// The beginning of a file.
pub(super) fn read(name: &str) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(name)?.take(MOST).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Adds a line to a file, which is made if it is not there.
pub(super) fn add_line(name: &str, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(name)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_files_of_the_workspace() {
        for name in ["", ".git", "..", "/etc/passwd", "a/b", "../x"] {
            assert!(!is_plain(name), "{name}");
        }
        assert!(is_plain("NOTES.md"));
    }

    #[test]
    fn a_file_is_made_grown_and_read_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        let path = path.to_str().unwrap();
        add_line(path, "one").unwrap();
        add_line(path, "two").unwrap();
        assert_eq!(read(path).unwrap(), "one\ntwo\n");
        std::fs::write(path, "x".repeat(100_000)).unwrap();
        assert_eq!(read(path).unwrap().len(), 64 << 10);
    }
}
