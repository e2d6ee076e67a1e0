//! Which process holds a socket of this machine. The kernel's table of connections knows only its user and number, so every
//! process is looked at.
//!
//! Programs that changed their user, an `sshd` that forwards a port above all, show nobody what they hold. A socket that
//! no other process has is one of theirs; they are told from agents by whom they descend from, like everybody.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Caller;

/// A machine on which it takes longer has to wait for a quieter moment.
const LOOK_FOR: Duration = Duration::from_secs(5);

/// Who holds the socket with this number, which is `uid`'s.
pub(super) fn caller(inode: u64, uid: u32) -> Caller {
    let found = look(inode, uid, Instant::now() + LOOK_FOR);
    let (holders, hidden) = found.unwrap_or_default();
    // One socket may have several holders, and any of them may have spoken.
    let all = if holders.is_empty() { hidden } else { holders };
    worst(all.into_iter())
}

fn worst(all: impl Iterator<Item = Caller>) -> Caller {
    let rank = |caller: &Caller| match caller {
        Caller::Free | Caller::Elsewhere => 0,
        Caller::Unknown => 1,
        Caller::Hosted(_) => 2,
    };
    all.max_by_key(rank).unwrap_or(Caller::Unknown)
}

/// Those who hold it; and those who could, because they show nothing: who is `uid`'s, or hosted whoever it is.
fn look(inode: u64, uid: u32, until: Instant) -> io::Result<(Vec<Caller>, Vec<Caller>)> {
    let (mut holders, mut hidden) = (Vec::new(), Vec::new());
    let wanted = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match holds(&entry.path(), Path::new(&wanted)) {
            Ok(true) => holders.push(Caller::of(pid)),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => match Caller::of(pid) {
                Caller::Free if user_of(&entry.path()) != Some(uid) => {}
                caller => hidden.push(caller),
            },
            // It ended.
            Err(_) => {}
        }
    }
    Ok((holders, hidden))
}

/// Whether any thread has it: threads may have descriptors of their own.
fn holds(process: &Path, wanted: &Path) -> io::Result<bool> {
    for thread in fs::read_dir(process.join("task"))? {
        for descriptor in fs::read_dir(thread?.path().join("fd"))? {
            match fs::read_link(descriptor?.path()) {
                Ok(target) if target == wanted => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                _ => {}
            }
        }
    }
    Ok(false)
}

/// The user that a process acts as.
fn user_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
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
        let (holders, _) = look(inode, uid, Instant::now() + LOOK_FOR).unwrap();
        assert_eq!(holders, [Caller::of(std::process::id())]);
        drop(socket);
        let (holders, _) = look(inode, uid, Instant::now() + LOOK_FOR).unwrap();
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
    fn nobody_waits_for_ever() {
        assert!(look(1, 0, Instant::now() - Duration::from_secs(1)).is_err());
    }
}
