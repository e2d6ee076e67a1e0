//! Starting a keeper. It gets a bound, listening socket as its stdin and nothing else: no argument,
//! no environment, no working directory of ours.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, open, unlinkat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::wire::{NAME, SOCKET};

/// Connections that may wait: one daemon, its impatient successors.
pub(crate) const BACKLOG: i32 = 8;

/// Starts a keeper that listens in `dir`. Call it only while holding the instance's lock: a socket
/// that is already there is taken for a dead keeper's.
pub fn launch(dir: &Path) -> io::Result<()> {
    let listener = listener(dir)?;
    let status = Command::new("/proc/self/exe")
        .arg0(NAME)
        .env_clear()
        .envs(hooks())
        .current_dir("/")
        .stdin(Stdio::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the keeper did not start: {status}"))) }
}

/// Test hooks reach the keeper of an armed build; nothing else of our environment does.
fn hooks() -> Option<(&'static str, std::ffi::OsString)> {
    if cfg!(feature = "armed") { std::env::var_os("OSTLER_HOOKS").map(|dir| ("OSTLER_HOOKS", dir)) } else { None }
}

fn listener(dir: &Path) -> io::Result<OwnedFd> {
    let dir = directory(dir)?;
    match unlinkat(&dir, SOCKET, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let listener = socket()?;
    // The mode of an unbound socket becomes the mode of the file that bind makes.
    fchmod(&listener, Mode::RUSR | Mode::WUSR)?;
    bind(&listener, &address(&dir)?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

pub(super) fn directory(dir: &Path) -> Result<OwnedFd, Errno> {
    open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// The socket's address through the descriptor of its directory: a path of any length fits, and no
/// listing of sockets shows it.
pub(super) fn address(dir: &OwnedFd) -> Result<SocketAddrUnix, Errno> {
    use std::os::fd::AsRawFd;
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()).as_str())
}
