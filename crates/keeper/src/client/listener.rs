//! Who listens where a keeper should. Whoever can write the folder can put a socket of its own there, kill the daemon, and
//! greet the next one: it would be told every command, and would run what a person approved. A keeper calls `listen` itself,
//! so the kernel names it; nobody hosted is one. The same is asked of a daemon whose keeper cannot say that it is its own.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{getpid, getppid};

use crate::cgroup;
use crate::custody::COOKIE;
use crate::procfs::{self, Variable};
use crate::spec::ConnectError;
use crate::wire::NAME;

/// The flag of a daemon that a keeper brought back: it descends from that keeper without being hosted.
pub const GUARDED: &str = "--guarded";

/// Refuses one that is hosted by somebody who does not host us, and one that cannot be looked at. Known by descent; where its
/// keeper is gone, by the control group of a child or by the mark that it still carries.
pub fn check(socket: impl AsFd) -> Result<(), ConnectError> {
    let peer = sockopt::socket_peercred(socket).map_err(std::io::Error::from)?.pid;
    if peer == getpid() {
        // We made the socket a moment ago; the keeper that gets it has not said `listen` yet.
        return Ok(());
    }
    let peer = peer.as_raw_nonzero().get().unsigned_abs();
    let (theirs, mut ours) = match (keepers_above(peer), keepers_above(std::process::id())) {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        _ => return Err(ConnectError::Hosted(format!("pid {peer} listens in its place and cannot be looked at"))),
    };
    if std::env::args_os().any(|word| word == GUARDED) {
        let parent = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
        ours.retain(|keeper| Some(*keeper) != parent);
    }
    let is_free =
        theirs.iter().all(|keeper| ours.contains(keeper)) && (!is_marked(peer) || is_marked(std::process::id()));
    match is_free {
        true => Ok(()),
        false => Err(ConnectError::Hosted(format!(
            "pid {peer}, which runs in ostler, has put itself in its place; end it (kill {peer}), then: ostler up"
        ))),
    }
}

/// Whether something says that it was hosted by a keeper that may be gone. One that hides its environment carries no mark.
fn is_marked(pid: u32) -> bool {
    cgroup::group_of(pid).is_some() || matches!(procfs::variable(pid, COOKIE), Variable::Is(_))
}

/// The keepers that a process descends from.
fn keepers_above(pid: u32) -> Result<Vec<u32>, Errno> {
    let mut found = Vec::new();
    for step in procfs::lineage(pid) {
        let (current, stat) = step?;
        if current != pid && stat.name == NAME {
            found.push(current);
        }
    }
    Ok(found)
}
