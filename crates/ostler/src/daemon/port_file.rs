//! A file that tells clients on which port a door listens, for as long as it does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ostler_workspace::{Durable, replace};

/// The file; removed when dropped, unless somebody else's port stands in it by then.
pub(crate) struct PortFile {
    path: PathBuf,
    text: String,
}

impl PortFile {
    /// Writes the port, whole or not at all: clients read this at any moment.
    pub(crate) fn write(path: &Path, port: u16) -> io::Result<Self> {
        let (text, beside) = (port.to_string(), path.with_extension(format!("port.{}", std::process::id())));
        replace(path, &beside, text.as_bytes(), Durable::No)?;
        Ok(Self { path: path.to_owned(), text })
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_while_the_door_is_open_and_a_successors_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.port");
        let first = PortFile::write(&path, 9100).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "9100");
        let second = PortFile::write(&path, 9101).unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "9101");
        drop(second);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
