//! Where the daemon's token comes from. It passes through memory and pipes only, never argv, environment or disk.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A token is a line; whoever sends more has the wrong file.
const TOKEN_MAX: u64 = 64 * 1024;

/// A token, and the file that it came from.
pub(crate) struct Token {
    pub(crate) text: String,
    file: Option<(PathBuf, File)>,
}

impl Token {
    /// Removes its file: the token is in use. A file that somebody put in its place is another one's. Of a link to it the link
    /// goes, unless it is the system's (`/dev/fd/3`).
    pub(crate) fn used(&mut self) -> io::Result<()> {
        let Some((path, file)) = self.file.take() else { return Ok(()) };
        let is_the_same =
            |meta: Metadata| Ok((meta.dev(), meta.ino()) == (file.metadata()?.dev(), file.metadata()?.ino()));
        match std::fs::metadata(&path).and_then(is_the_same) {
            Ok(true) if path.is_symlink() => {
                let _ = std::fs::remove_file(&path);
                Ok(())
            }
            Ok(true) => std::fs::remove_file(&path),
            Ok(false) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Reads the token file. It stays until the token is [used](Token::used): who fails to start has not used it up.
pub(crate) fn from_file(path: &Path) -> io::Result<Token> {
    let file = File::open(path)?;
    let text = not_empty(line(read(&file)?))?;
    Ok(Token { text, file: Some((path.to_owned(), file)) })
}

/// Reads what the caller left in an open descriptor.
pub(crate) fn from_descriptor(number: i64) -> io::Result<String> {
    let number = i32::try_from(number).map_err(|_| rustix::io::Errno::BADF)?;
    let token = read(File::from(ostler_keeper::duplicate(number)?))?;
    not_empty(line(token))
}

/// Nobody could ever authenticate with an empty token.
fn not_empty(token: String) -> io::Result<String> {
    if token.is_empty() { Err(io::Error::new(io::ErrorKind::InvalidData, "the token is empty")) } else { Ok(token) }
}

/// Reads what the launcher passed on.
pub(crate) fn from_launcher(launcher: impl Read) -> io::Result<Token> {
    read(launcher).map(|token| Token { text: String::from_utf8_lossy(&token).into_owned(), file: None })
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
    fn the_file_is_gone_once_its_token_is_used_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("t"), dir.path().join("other"));
        std::fs::write(&path, "secret\n").unwrap();
        let mut token = from_file(&path).unwrap();
        assert_eq!(token.text, "secret");
        assert!(path.exists());
        token.used().unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "secret\n").unwrap();
        let mut token = from_file(&path).unwrap();
        std::fs::write(&other, "of somebody else\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        token.used().unwrap();
        assert!(path.exists(), "another file at its place is left alone");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        from_file(&link).unwrap().used().unwrap();
        assert!(!link.is_symlink() && path.exists(), "of a link the link goes");
    }

    #[test]
    fn an_empty_token_is_refused_and_its_file_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        for empty in ["", "\n", "\r\n"] {
            std::fs::write(&path, empty).unwrap();
            assert!(from_file(&path).is_err_and(|error| error.to_string() == "the token is empty"));
            assert!(path.exists());
        }
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
