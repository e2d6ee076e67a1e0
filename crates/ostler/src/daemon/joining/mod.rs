//! One engine per user: a program that ostler stands in for, started while `ostler up` runs, opens its door there.
//!
//! The started process keeps the lock of its place, its listening socket, its pid, signals and exit code; the daemon gets a
//! duplicate of the socket, the environment and what the door must be told, over a connection that lasts as long as the lease.
//! Either end may be killed: the daemon then closes the door and leaves everything running, the program offers its door to the
//! next daemon. Nothing of it is ever on the disk.
//!
//! It has a socket of its own: the native door speaks lines of JSON through a buffered reader, which would lose descriptors
//! that travel beside them.

mod holder;
mod leases;
mod line;
mod offer;
mod prompt;
mod surroundings;

pub(crate) use holder::{Answering, Invitation};
pub(super) use leases::Leases;
pub(crate) use prompt::{Decide, KEEP_OUTPUT, Relay, SURFACE, Said, Told, UNATTENDED, Verdict};

/// What the socket is called beside the doors'.
pub(crate) const SOCKET: &str = "join";

/// The umask of this process. The kernel tells it in passing: to ask by setting it would change it for other threads.
fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o77)
}
