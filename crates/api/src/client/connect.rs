//! Connecting to unix sockets whose path is longer than a socket address can hold.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// `sun_path` holds 108 bytes, one of which is the final zero.
const SOCKET_PATH_MAX: usize = 107;

/// Connects to the daemon of our own user: whoever else listens there is told nothing.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = reach(path)?;
    let owner = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if owner != rustix::process::geteuid() {
        let what = format!("{} is served by a program of user {}", path.display(), owner.as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(stream)
}

fn reach(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return UnixStream::connect(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // The folder's descriptor gives the socket a short name; it is needed only while connecting.
    let folder = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    UnixStream::connect(Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_a_socket_address_works() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("x".repeat(120));
        std::fs::create_dir(&dir).unwrap();
        let folder = std::fs::File::open(&dir).unwrap();
        let short = format!("/proc/self/fd/{}/s", folder.as_raw_fd());
        let _listener = std::os::unix::net::UnixListener::bind(short).unwrap();
        assert!(UnixStream::connect(dir.join("s")).is_err(), "the plain way should not work");
        connect(&dir.join("s")).unwrap();
    }
}
