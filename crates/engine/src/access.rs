//! Who is at the other end of a socket, and whether that is a place where a person decides.
//!
//! A person's place is a process with a controlling terminal that descends from no keeper. Hosted agents, whatever they
//! start, and programs without a terminal are none. What another program of the same user can still do (type into a
//! person's terminal, trace a person's process) no check on this side can see; SECURITY.md says so.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ostler_keeper::procfs::{self, Stat};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::By;

/// No honest chain of parents is this long, and a walk must end.
const ANCESTORS_MAX: usize = 512;
/// Majors of pseudo terminals.
const PTS_MAJORS: std::ops::Range<u32> = 136..144;

/// The process that connected.
#[derive(Debug)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: u32,
    /// When that process started: with the pid, a name that is never used again.
    start_ticks: u64,
    _process: OwnedFd,
}

/// Where a person sits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Their user.
    pub uid: u32,
    /// The process they use.
    pub pid: u32,
    /// Their terminal.
    pub tty: String,
}

impl From<Place> for By {
    fn from(Place { uid, pid, tty }: Place) -> Self {
        Self::Terminal { uid, pid, tty }
    }
}

/// Why somebody may not decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPlace {
    /// It runs under a keeper.
    #[error(
        "pid {pid} is hosted by ostler (it descends from {ancestor}), and who asks may not answer: decide from a terminal of your own"
    )]
    Hosted {
        /// The process.
        pid: u32,
        /// What gave it away.
        ancestor: String,
    },
    /// There is nobody to press a key.
    #[error("pid {0} has no terminal: decide from a terminal of your own")]
    NoTerminal(u32),
    /// It is gone, or hides.
    #[error("pid {0} cannot be looked at: decide from a terminal of your own")]
    Unknown(u32),
}

impl Peer {
    /// The process that connected this socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        let process = pidfd_open(credentials.pid, PidfdFlags::empty())?;
        let pid = credentials.pid.as_raw_nonzero().get().unsigned_abs();
        let start_ticks = procfs::stat(pid)?.start_ticks;
        Ok(Self { uid: credentials.uid.as_raw(), pid, start_ticks, _process: process })
    }

    /// The place it is, if a person can be there.
    pub fn place(&self) -> Result<Place, NotAPlace> {
        match procfs::stat(self.pid) {
            Ok(stat) if stat.start_ticks == self.start_ticks => place_of(self.pid, self.uid),
            _ => Err(NotAPlace::Unknown(self.pid)),
        }
    }

    /// The hosted process that it is or descends from, if it does.
    pub fn hosted_by(&self) -> Option<String> {
        host_of(self.pid)
    }
}

/// The place that this very process is.
pub fn own_place() -> Result<Place, NotAPlace> {
    place_of(std::process::id(), rustix::process::geteuid().as_raw())
}

/// The hosted process that this very process is or descends from.
pub fn own_host() -> Option<String> {
    host_of(std::process::id())
}

fn host_of(pid: u32) -> Option<String> {
    lineage(pid).take(ANCESTORS_MAX).map_while(Result::ok).find_map(|(pid, _)| cookie(pid))
}

fn place_of(pid: u32, uid: u32) -> Result<Place, NotAPlace> {
    let mut tty = None;
    for (depth, step) in lineage(pid).enumerate() {
        if depth >= ANCESTORS_MAX {
            return Err(NotAPlace::Unknown(pid));
        }
        // A parent that ends while we look has handed its children on: better to refuse than to miss one.
        let (current, stat) = step.map_err(|_| NotAPlace::Unknown(pid))?;
        if stat.name == ostler_keeper::NAME {
            return Err(NotAPlace::Hosted { pid, ancestor: format!("keeper {current}") });
        }
        if let Some(process) = cookie(current) {
            return Err(NotAPlace::Hosted { pid, ancestor: process });
        }
        if current == pid {
            tty = terminal(&stat);
        }
    }
    match tty {
        Some(tty) => Ok(Place { uid, pid, tty }),
        None => Err(NotAPlace::NoTerminal(pid)),
    }
}

/// A process, its parent, and so on up to the first of all; an error where one can not be looked at.
fn lineage(pid: u32) -> impl Iterator<Item = Result<(u32, Stat), rustix::io::Errno>> {
    let look = |pid: u32| procfs::stat(pid).map(|stat| (pid, stat));
    let parent = move |step: &Result<(u32, Stat), _>| match step {
        Ok((_, stat)) if stat.parent > 1 => Some(look(stat.parent)),
        _ => None,
    };
    std::iter::successors(Some(look(pid)), parent)
}

/// The mark that every hosted process inherits. Processes of other users, which we may not look into, are nobody's agents.
fn cookie(pid: u32) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mark = format!("{}=", ostler_keeper::COOKIE);
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(mark.as_bytes()))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The device of the controlling terminal.
fn terminal(stat: &Stat) -> Option<String> {
    let device = u32::try_from(stat.terminal).ok().filter(|device| *device != 0)?;
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    Some(match PTS_MAJORS.contains(&major) {
        true => format!("/dev/pts/{}", (major - PTS_MAJORS.start) * 256 + minor),
        false => format!("tty {major}:{minor}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Pid;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_process_with_the_mark_is_hosted_whatever_else_it_is() {
        let mut child = Command::new("sleep").arg("30").env(ostler_keeper::COOKIE, "pabc").spawn().unwrap();
        // The kernel says that a program runs a moment before it shows the program's environment.
        let environ = format!("/proc/{}/environ", child.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while std::fs::read(&environ).unwrap().is_empty() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let found = place_of(child.id(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, Err(NotAPlace::Hosted { pid: child.id(), ancestor: "pabc".into() }));
    }

    #[test]
    fn a_child_that_cleared_its_environment_is_known_by_its_parent() {
        let script = "exec 3>&1; env -i sleep 30 3>&- & echo $!; wait";
        let mut parent = Command::new("sh")
            .args(["-c", script])
            .env(ostler_keeper::COOKIE, "pabc")
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(parent.stdout.take().unwrap()), &mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        let found = place_of(pid, 0);
        let group = Pid::from_raw(parent.id() as i32).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        parent.wait().unwrap();
        assert_eq!(found, Err(NotAPlace::Hosted { pid, ancestor: "pabc".into() }));
    }

    #[test]
    fn a_process_without_a_terminal_is_no_place() {
        let mut child = Command::new("setsid").args(["sleep", "30"]).env_clear().spawn().unwrap();
        // The shell that runs the tests may itself be hosted or have no terminal: either way this child has none.
        let found = place_of(child.id(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(found, Err(NotAPlace::NoTerminal(_) | NotAPlace::Hosted { .. })), "{found:?}");
    }

    #[test]
    fn terminals_are_named_by_their_device() {
        let mut stat = procfs::stat(std::process::id()).unwrap();
        for (device, name) in
            [(0, None), (0x8803, Some("/dev/pts/3")), (0x8901, Some("/dev/pts/257")), (0x0401, Some("tty 4:1"))]
        {
            stat.terminal = device;
            assert_eq!(terminal(&stat).as_deref(), name);
        }
    }
}
