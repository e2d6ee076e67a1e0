//! Where the daemon's token comes from. It passes through memory and pipes only, never argv, environment or disk.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A token is a line; whoever sends more has the wrong file.
const TOKEN_MAX: u64 = 64 * 1024;

/// Reads the token file, which is gone afterwards.
pub(crate) fn from_file(path: &Path) -> io::Result<String> {
    let token = read(File::open(path)?)?;
    std::fs::remove_file(path)?;
    Ok(line(token))
}

/// Reads what the caller left in an open descriptor.
pub(crate) fn from_descriptor(number: i64) -> io::Result<String> {
    let number = i32::try_from(number).map_err(|_| rustix::io::Errno::BADF)?;
    let token = read(File::from(ostler_keeper::duplicate(number)?))?;
    Ok(line(token))
}

/// Reads what the launcher passed on.
pub(crate) fn from_launcher(launcher: impl Read) -> io::Result<String> {
    read(launcher).map(|token| String::from_utf8_lossy(&token).into_owned())
}

fn read(source: impl Read) -> io::Result<Vec<u8>> {
    let mut token = Vec::new();
    source.take(TOKEN_MAX).read_to_end(&mut token)?;
    Ok(token)
}

/// One line end goes; every other blank is part of the token.
fn line(token: Vec<u8>) -> String {
    let text = String::from_utf8_lossy(&token);
    let text = text.strip_suffix('\n').map_or(text.as_ref(), |line| line.strip_suffix('\r').unwrap_or(line));
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn exactly_one_line_end_is_cut() {
        for (given, want) in
            [("t", "t"), ("t\n", "t"), ("t\r\n", "t"), ("t\n\n", "t\n"), (" t ", " t "), ("t\r", "t\r"), ("", "")]
        {
            assert_eq!(line(given.into()), want);
        }
    }

    #[test]
    fn the_file_is_gone_after_reading() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, "secret\n").unwrap();
        assert_eq!(from_file(&path).unwrap(), "secret");
        assert!(!path.exists());
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_said_to_be_bad() {
        for number in [987, -1, i64::MAX] {
            assert_eq!(from_descriptor(number).unwrap_err().raw_os_error(), Some(9));
        }
    }

    #[test]
    fn a_socket_is_read_and_a_file_from_where_it_stands() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.write_all(b"secret\n").unwrap();
        drop(theirs);
        assert_eq!(from_descriptor(ours.as_raw_fd().into()).unwrap(), "secret");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"something else\nsecret\n").unwrap();
        file.seek(SeekFrom::Start(15)).unwrap();
        assert_eq!(from_descriptor(file.as_raw_fd().into()).unwrap(), "secret");
    }
}
