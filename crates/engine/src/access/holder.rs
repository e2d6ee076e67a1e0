//! Which process holds a socket of this machine. The kernel's table of connections knows only its user and number, so every
//! process is looked at.
//!
//! Programs that changed their user, an `sshd` that forwards a port above all, show nobody what they hold. A socket that
//! no other process has is one of theirs, if there is such a program; they are told from agents by whom they descend from, like
//! everybody. Nobody else who hides speaks for such a socket: it may be under way between two sockets of an agent's.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ostler_keeper::procfs;

use super::{Caller, is_ours, lineage};

/// A machine on which it takes longer has to wait for a quieter moment.
const LOOK_FOR: Duration = Duration::from_secs(5);

/// How often somebody is looked at who cannot be told.
const LOOKS: usize = 3;

/// Who holds the socket with this number, which is `uid`'s. Whoever `is_our_own` hides, and holds no such thing.
pub(super) fn caller(inode: u64, uid: u32, is_our_own: impl Fn(u32) -> bool) -> Caller {
    told(|| look(inode, uid, Instant::now() + LOOK_FOR, &is_our_own))
}

/// What several looks say. Who cannot be told is looked at again: a parent that ends while descent is walked, or a look that
/// took too long, says nothing about who is there, and on a busy machine both happen.
fn told(mut look: impl FnMut() -> io::Result<(Vec<Caller>, Vec<Caller>)>) -> Caller {
    for _ in 0..LOOKS {
        let (holders, hidden) = look().unwrap_or_default();
        // One socket may have several holders, and any of them may have spoken.
        let all = if holders.is_empty() { hidden } else { holders };
        let found = worst(all.into_iter());
        if found != Caller::Unknown {
            return found;
        }
    }
    Caller::Unknown
}

fn worst(all: impl Iterator<Item = Caller>) -> Caller {
    let rank = |caller: &Caller| match caller {
        Caller::Free | Caller::Elsewhere => 0,
        Caller::Unknown => 1,
        Caller::Hosted(_) => 2,
    };
    all.max_by_key(rank).unwrap_or(Caller::Unknown)
}

/// Those who hold it; and those who could, because they show nothing: whoever is `uid`'s, or descends from one that is and is
/// not free.
fn look(
    inode: u64,
    uid: u32,
    until: Instant,
    is_our_own: impl Fn(u32) -> bool,
) -> io::Result<(Vec<Caller>, Vec<Caller>)> {
    let (mut holders, mut hidden) = (Vec::new(), Vec::new());
    let wanted = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match holds(pid, &entry.path(), Path::new(&wanted)) {
            Ok(true) => holders.push(Caller::of(pid)),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_our_own(pid) => {
                let caller = of_hidden(pid);
                let could = match caller {
                    Caller::Free => procfs::user(pid) == Some(uid) && (!is_ours(pid) || changed_user(pid)),
                    // Other users have agents too.
                    _ => pids(pid).any(|pid| procfs::user(pid) == Some(uid)),
                };
                if could {
                    hidden.push(caller);
                }
            }
            // It ended, or is ours.
            Err(_) => {}
        }
    }
    Ok((holders, hidden))
}

/// What one is that shows nothing. A keeper is not hosted by itself: it is what whoever started it is.
fn of_hidden(pid: u32) -> Caller {
    match procfs::stat(pid) {
        Ok(stat) if stat.name == ostler_keeper::NAME && stat.parent > 1 => Caller::of(stat.parent),
        Ok(stat) if stat.name == ostler_keeper::NAME => Caller::Free,
        _ => Caller::of(pid),
    }
}

/// Whether another user's program started this one, as `sshd` does: our own that hide, a keeper or a browser's parts, have our
/// programs for parents, or none.
fn changed_user(pid: u32) -> bool {
    let parent = procfs::stat(pid).ok().map(|stat| stat.parent).filter(|parent| *parent > 1);
    parent.is_some_and(|parent| !is_ours(parent))
}

/// Whether any thread has it: threads may have descriptors of their own. Ours have not, and are many when many connect.
fn holds(pid: u32, process: &Path, wanted: &Path) -> io::Result<bool> {
    if pid == std::process::id() {
        return is_among(fs::read_dir(process.join("fd"))?, wanted);
    }
    for thread in fs::read_dir(process.join("task"))? {
        let thread = thread?;
        let descriptors = match fs::read_dir(thread.path().join("fd")) {
            // It holds nothing any more, and shows nobody even that; or it is gone, and the others are not.
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_over(&thread.file_name()) => continue,
            shown => shown?,
        };
        if is_among(descriptors, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_among(descriptors: fs::ReadDir, wanted: &Path) -> io::Result<bool> {
    for descriptor in descriptors {
        match fs::read_link(descriptor?.path()) {
            Ok(target) if target == wanted => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

pub(super) fn is_over(thread: &OsStr) -> bool {
    let number = thread.to_str().and_then(|name| name.parse().ok());
    number.is_some_and(|number| procfs::stat(number).is_ok_and(|stat| stat.is_zombie()))
}

fn pids(pid: u32) -> impl Iterator<Item = u32> {
    lineage(pid).map_while(|step| step.ok().map(|(pid, _)| pid))
}

/// The user that a process acts as.
pub(super) fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn whoever_holds_a_socket_is_found_and_a_socket_of_nobody_is_nobodys() {
        let uid = rustix::process::geteuid().as_raw();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        let (holders, _) = look(inode, uid, Instant::now() + LOOK_FOR, |_| false).unwrap();
        assert_eq!(holders, [Caller::of(std::process::id())]);
        drop(socket);
        let (holders, _) = look(inode, uid, Instant::now() + LOOK_FOR, |_| false).unwrap();
        assert_eq!(holders, []);
    }

    #[test]
    fn one_hosted_holder_is_enough_and_none_is_nobody() {
        let hosted = || Caller::Hosted("pabc".into());
        assert_eq!(worst([Caller::Free, hosted(), Caller::Unknown].into_iter()), hosted());
        assert_eq!(worst([Caller::Free, Caller::Unknown].into_iter()), Caller::Unknown);
        assert_eq!(worst([Caller::Free].into_iter()), Caller::Free);
        assert_eq!(worst(std::iter::empty()), Caller::Unknown);
    }

    #[test]
    fn who_cannot_be_told_is_looked_at_again_but_not_for_ever() {
        let mut looks = 0;
        let late = told(|| {
            looks += 1;
            match looks {
                1 => Err(io::ErrorKind::TimedOut.into()),
                2 => Ok((vec![Caller::Unknown], Vec::new())),
                _ => Ok((vec![Caller::Free], Vec::new())),
            }
        });
        assert_eq!((late, looks), (Caller::Free, 3));
        let mut looks = 0;
        let never = told(|| {
            looks += 1;
            Ok((Vec::new(), Vec::new()))
        });
        assert_eq!((never, looks), (Caller::Unknown, LOOKS));
    }

    #[test]
    fn nobody_waits_for_ever() {
        assert!(look(1, 0, Instant::now() - Duration::from_secs(1), |_| false).is_err());
    }
}
