//! Starting a keeper. It gets a bound, listening socket as its stdin and nothing else: no argument,
//! no environment, no working directory of ours.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, fchmod, open, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};
use rustix::process::getpid;

use crate::wire::{NAME, SOCKET};

/// Connections that may wait: one daemon, its impatient successors.
pub(crate) const BACKLOG: i32 = 8;

/// A connection to a keeper that was just started, made before anybody else could pose as it.
#[derive(Debug)]
pub struct Launched(pub(super) OwnedFd);

/// Starts a keeper that listens in `dir`. Call it only while holding the instance's lock: a socket
/// that is already there is taken for a dead keeper's.
pub fn launch(dir: &Path) -> io::Result<Launched> {
    let (listener, line) = listener(dir)?;
    let status = Command::new("/proc/self/exe")
        .arg0(NAME)
        .env_clear()
        .envs(hooks())
        .current_dir("/")
        .stdin(Stdio::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(Launched(line)) } else { Err(io::Error::other(format!("it did not start: {status}"))) }
}

/// Test hooks reach the keeper of an armed build; nothing else of our environment does.
fn hooks() -> Option<(&'static str, std::ffi::OsString)> {
    if cfg!(feature = "armed") { std::env::var_os("OSTLER_HOOKS").map(|dir| ("OSTLER_HOOKS", dir)) } else { None }
}

/// The socket that the keeper will listen on, and a connection to it. Whoever can write the folder can put another socket in
/// its place; the kernel says whose the one is that was reached, and only this process listens on its own.
fn listener(dir: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
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
    let line = socket()?;
    patient(&line)?;
    connect(&line, &address(&dir)?)?;
    if sockopt::socket_peercred(&line)?.pid != getpid() {
        return Err(io::Error::other("somebody else listens in its place"));
    }
    Ok((listener, line))
}

pub(super) fn directory(dir: &Path) -> Result<OwnedFd, Errno> {
    open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// How long a keeper may take to answer: it never blocks, so it is stopped or the machine is.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stopped keeper neither accepts nor reads nor answers.
pub(super) fn patient(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(PATIENCE))
}

/// The socket's address through the descriptor of its directory: a path of any length fits, and no
/// listing of sockets shows it.
pub(super) fn address(dir: &OwnedFd) -> Result<SocketAddrUnix, Errno> {
    use std::os::fd::AsRawFd;
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()).as_str())
}
