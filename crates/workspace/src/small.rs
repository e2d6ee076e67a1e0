//! Reading a small file of our own in whose place somebody may have put something else: what is no file, or has no end, is
//! refused and never waited for.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The text of a file of at most this many bytes.
pub fn read_small(path: &Path, most: u64) -> io::Result<String> {
    // Opening a pipe would wait for whoever writes to it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("this is not a file"));
    }
    let mut text = String::new();
    if file.take(most + 1).read_to_string(&mut text)? as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        std::fs::write(&file, "12345").unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read_small(&file, 5).unwrap(), "12345");
        assert_eq!(read_small(&file, 4).unwrap_err().to_string(), "it has more than 4 bytes");
        for path in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            assert_eq!(read_small(path, 5).unwrap_err().to_string(), "this is not a file");
        }
        assert_eq!(read_small(&dir.path().join("none"), 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
