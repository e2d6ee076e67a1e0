//! What a daemon owes to the service manager that started it: its log where people look for it, and a word when it is ready.

use std::fs::OpenOptions;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Names the socket of a manager that waits; nothing for hosted processes to inherit.
pub(super) const NOTIFY: &str = "NOTIFY_SOCKET";

/// Writes to the instance's log from now on, as a daemon that `up` starts does.
pub(super) fn log_to(dir: &Path) -> io::Result<()> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join("daemon.log"))?;
    rustix::stdio::dup2_stdout(&log)?;
    Ok(rustix::stdio::dup2_stderr(&log)?)
}

/// Every socket is open. A manager that cannot be told gives up on us by itself, which its log says.
pub(super) fn tell_ready() {
    let Some(socket) = std::env::var_os(NOTIFY) else { return };
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&socket),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address));
    if let Err(error) = told {
        tracing::warn!("the service manager was not told: {error}");
    }
}
