//! Unix sockets as doors need them: owner-only from the first moment, of any path length, never another program's.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};

/// The longest path that fits a socket address, its final NUL left out.
const ADDRESS_MAX: usize = 107;
/// Clients that connect in one burst wait here instead of being refused.
const BACKLOG: i32 = 1024;

/// A listening socket. Its file is removed with it, unless another socket has taken the place, or it is another process's.
#[derive(Debug)]
pub struct Bound {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// None where another process made it and looks after it.
    file: Option<(u64, u64)>,
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Bound {
    /// A listening socket that another process made at `path` and handed over. Needs a tokio runtime.
    pub fn handed(socket: OwnedFd, path: &Path) -> io::Result<Self> {
        let listener = std::os::unix::net::UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, path: path.to_owned(), file: None })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets these users connect too, by an access list: nobody else gets as far as to be refused.
    pub fn admit(&self, uids: &[u32]) -> io::Result<()> {
        let address = Address::of(&self.path)?;
        let list = access_list(uids);
        rustix::fs::setxattr(&address.path, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty())?;
        Ok(())
    }

    /// Whether the file at the path is still this socket's.
    pub fn is_in_place(&self) -> bool {
        let is_in_place = |file| fs::symlink_metadata(&self.path).is_ok_and(|meta| identity(&meta) == file);
        self.file.is_none_or(is_in_place)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.file.is_some() && self.is_in_place() {
            // Somebody may have removed it in this very moment; either way it is gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The kernel's form of `user::rw-, user:UID:rw- …, group::---, mask::rw-, other::---`: users in the order of their numbers.
fn access_list(uids: &[u32]) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    const READ_WRITE: u16 = 6;
    let (owner, user, group, mask, other) = (0x01_u16, 0x02_u16, 0x04_u16, 0x10_u16, 0x20_u16);
    let mut uids = uids.to_vec();
    uids.sort_unstable();
    uids.dedup();
    let users = uids.into_iter().map(|uid| (user, READ_WRITE, uid));
    let rest = [(group, 0, NOBODY), (mask, READ_WRITE, NOBODY), (other, 0, NOBODY)];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in std::iter::once((owner, READ_WRITE, NOBODY)).chain(users).chain(rest) {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Listens at `path` with mode 0600. A dead socket or an empty file there is replaced; a living socket, or anything that
/// somebody could miss, is left alone and `AddrInUse` comes back. Needs a tokio runtime.
pub fn bind(path: &Path) -> io::Result<Bound> {
    make_way(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let address = Address::of(path)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&address.path)?)?;
    // Nobody can connect before `listen`, so nobody can slip in before the mode is set.
    rustix::fs::chmod(&address.path, Mode::RUSR | Mode::WUSR)?;
    let file = identity(&fs::symlink_metadata(&address.path)?);
    rustix::net::listen(&socket, BACKLOG)?;
    let listener = UnixListener::from_std(socket.into())?;
    Ok(Bound { listener, path: path.to_owned(), file: Some(file) })
}

/// Connects to the socket at `path`, however long that is.
pub fn connect(path: &Path) -> io::Result<StdUnixStream> {
    StdUnixStream::connect(&Address::of(path)?.path)
}

/// The same, and then every write, for no longer than this: a daemon that hangs accepts nobody.
pub fn connect_within(path: &Path, within: Duration) -> io::Result<StdUnixStream> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(within))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(&Address::of(path)?.path)?)?;
    Ok(socket.into())
}

/// What stands where a socket is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    /// Nothing that anybody could miss.
    Free,
    /// A living socket of the process with this pid; none when it takes no more connections, so that it cannot be asked.
    Listener(Option<u32>),
    /// A file, a folder, a socket that is not ours to ask.
    Occupied,
}

/// Looks at `path` and changes nothing. A folder that is not there is an error, as it is for [`bind`].
pub fn look(path: &Path) -> io::Result<Occupant> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return path.parent().map_or(Ok(()), |folder| fs::metadata(folder).map(drop)).map(|()| Occupant::Free);
        }
        Err(error) => return Err(error),
    };
    let kind = meta.file_type();
    match kind.is_socket().then(|| knock(path)).transpose() {
        Ok(Some(peer)) => Ok(Occupant::Listener(peer)),
        Ok(None) if kind.is_file() && meta.len() == 0 => Ok(Occupant::Free),
        Ok(None) if kind.is_symlink() && leads_nowhere(path) => Ok(Occupant::Free),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Occupant::Free),
        Ok(None) | Err(_) => Ok(Occupant::Occupied),
    }
}

/// Whether a link leads to nothing: nobody listens behind it, and nobody can.
fn leads_nowhere(link: &Path) -> bool {
    fs::metadata(link).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Who listens at `path`. Does not wait for a listener that has stopped to accept.
fn knock(path: &Path) -> io::Result<Option<u32>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(&Address::of(path)?.path)?) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let peer = rustix::net::sockopt::socket_peercred(&socket)?;
    Ok(u32::try_from(peer.pid.as_raw_nonzero().get()).ok())
}

fn make_way(path: &Path) -> io::Result<()> {
    if look(path)? != Occupant::Free {
        return Err(Errno::ADDRINUSE.into());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A path that fits a socket address: the given one, or one through a descriptor of its folder.
struct Address {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl Address {
    fn of(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::NOENT.into());
        };
        if path.as_os_str().len() <= ADDRESS_MAX {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let folder = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}

/// Whether the peer is the user that this daemon runs as.
pub fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::getuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_socket_is_private_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let bound = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(bound);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_living_socket_and_a_file_with_content_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (living, file, dead) = (dir.path().join("living"), dir.path().join("file"), dir.path().join("dead"));
        let _other = std::os::unix::net::UnixListener::bind(&living).unwrap();
        fs::write(&file, "precious").unwrap();
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        assert_eq!(bind(&living).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(bind(&file).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        bind(&dead).unwrap();
    }

    #[tokio::test]
    async fn who_listens_is_told_and_nothing_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let _living = bind(&at("living")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("dead")).unwrap());
        fs::write(at("empty"), "").unwrap();
        fs::write(at("file"), "precious").unwrap();
        std::os::unix::fs::symlink(at("nothing"), at("astray")).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        let _other_kind = std::os::unix::net::UnixDatagram::bind(at("datagrams")).unwrap();
        assert_eq!(look(&at("living")).unwrap(), Occupant::Listener(Some(std::process::id())));
        for free in ["dead", "empty", "nothing", "astray"] {
            assert_eq!(look(&at(free)).unwrap(), Occupant::Free, "{free}");
        }
        for occupied in ["file", "link", "datagrams", "."] {
            assert_eq!(look(&at(occupied)).unwrap(), Occupant::Occupied, "{occupied}");
        }
        assert_eq!(look(&at("no/such/folder")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(at("dead").exists() && at("empty").exists());
    }

    #[tokio::test]
    async fn a_listener_that_accepts_nobody_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _hung = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // More than any backlog; each knock leaves one connection that nobody accepts.
        let mut seen = Occupant::Free;
        for _ in 0..100_000 {
            seen = look(&path).unwrap();
            if seen == Occupant::Listener(None) {
                break;
            }
        }
        assert_eq!(seen, Occupant::Listener(None));
        assert_eq!(bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_socket_that_replaced_ours_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let ours = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _theirs = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(ours);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn paths_longer_than_an_address_work() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let bound = bind(&deep.join("s")).unwrap();
        let (client, server) = (connect(&deep.join("s")), bound.listener.accept().await);
        assert!(client.is_ok() && is_ours(&server.unwrap().0));
    }
}
