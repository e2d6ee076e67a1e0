//! Who is at the other end of a socket, and whether that is a place where a person decides.
//!
//! A person's place is a process with a controlling terminal that descends from no keeper. Hosted agents, whatever they
//! start, and programs without a terminal are none. What loosens an agent needs no terminal, but nobody hosted may ask for
//! it. What another program of the same user can still do (type into a person's terminal, trace a person's process) no
//! check on this side can see; SECURITY.md says so.

pub(crate) mod at_large;
mod daemon;
pub mod device;
mod folder;
mod holder;
mod locked;
mod reach;
mod terminal;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use ostler_keeper::procfs::{self, Stat, Variable, lineage};
use ostler_story::By;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

pub use daemon::{NotTheDaemon, daemon_comes, is_the_daemon};
pub(crate) use holder::Lookout;
pub use locked::{SUDO, Unlock, is_proof};
pub(crate) use locked::{WHY, fresh_proof};

use crate::{Engine, MayWait};

pub use reach::{Origin, OutOfReach, Target};
pub use terminal::{Hidden, NotAlone, own_multiplexer, shares_terminal_with, terminal_is_ours_alone};

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
    /// It, whoever has its number.
    process: OwnedFd,
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
        Self::Terminal { uid, pid: Some(pid), tty }
    }
}

/// Why somebody may not decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPlace {
    /// It runs under a keeper.
    #[error(
        "pid {pid} runs in ostler (started by {ancestor}), and whoever asks cannot approve: use a terminal of your own"
    )]
    Hosted {
        /// The process.
        pid: u32,
        /// What gave it away.
        ancestor: String,
    },
    /// The same at the other end of a connection, whichever process it is.
    #[error("that client runs in ostler (started by {0}), and whoever asks cannot answer: use a terminal of your own")]
    HostedClient(String),
    /// There is nobody to press a key.
    #[error("pid {0} has no terminal: use a terminal of your own")]
    NoTerminal(u32),
    /// It is gone, or hides.
    #[error("cannot check pid {0}: use a terminal of your own")]
    Unknown(u32),
    /// The same at the other end of a connection.
    #[error("cannot check which program is answering: use a terminal of your own")]
    UnknownClient,
}

/// Who asks for something that is not for an agent to do to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A program of this machine that descends from no keeper.
    Free,
    /// One that does; what gave it away.
    Hosted(String),
    /// Another machine's, let in by a token: a token is a person's.
    Elsewhere,
    /// It is gone, or hides.
    Unknown,
}

impl Caller {
    /// What a process is.
    fn of(pid: u32) -> Self {
        Self::hosted(host_of(pid))
    }

    fn hosted(by: Result<Option<String>, NotAPlace>) -> Self {
        match by {
            Ok(Some(host)) => Self::Hosted(host),
            Ok(None) => Self::Free,
            Err(_) => Self::Unknown,
        }
    }
}

impl Peer {
    /// The process that connected this socket. One that has ended is nobody: its number may be another's.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let credentials = rustix::net::sockopt::socket_peercred(&socket)?;
        let process = match ostler_keeper::peer_process(&socket) {
            // An old kernel: whoever has the number now. `ostler doctor` says so.
            Err(Errno::NOPROTOOPT) => pidfd_open(credentials.pid, PidfdFlags::empty())?,
            held => held?,
        };
        let pid = credentials.pid.as_raw_nonzero().get().unsigned_abs();
        let peer = Self { uid: credentials.uid.as_raw(), pid, start_ticks: procfs::stat(pid)?.start_ticks, process };
        // Looked at afterwards: as long as it lives, the number is its own.
        if peer.lives() { Ok(peer) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Whether the process that connected has not ended, and is the one that was looked at.
    fn lives(&self) -> bool {
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        let ended = poll(&mut watched, Some(&Timespec::default()));
        ended == Ok(0) && procfs::stat(self.pid).is_ok_and(|stat| stat.start_ticks == self.start_ticks)
    }

    /// The place it is, if a person can be there.
    pub fn place(&self) -> Result<Place, NotAPlace> {
        let place = place_of(self.pid, self.uid);
        // Looked at afterwards: whoever has the number now had it all the time.
        if self.lives() { place } else { Err(NotAPlace::Unknown(self.pid)) }
    }

    /// What it is, for what is not for an agent to do to itself.
    pub fn caller(&self) -> Caller {
        let caller = Caller::of(self.pid);
        if self.lives() { caller } else { Caller::Unknown }
    }

    /// The same of one that hides, and hands over its environment as [`ostler_keeper::shield::environ`] has it: an orphan could
    /// not be known otherwise.
    pub fn caller_showing(&self, environ: impl AsFd) -> Caller {
        let caller = Caller::hosted(host_of_showing(self.pid, Some(environ.as_fd())));
        if self.lives() { caller } else { Caller::Unknown }
    }

    /// It and those that it descends from, as far as they can be looked at: each by its number and when it started.
    fn lineage(&self) -> impl Iterator<Item = (u32, u64)> {
        lineage(self.pid).map_while(|step| step.ok().map(|(pid, stat)| (pid, stat.start_ticks)))
    }
}

/// What hosts a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The id of a session, or else of a process; without either, the keeper in words, or that it cannot be told.
    pub name: String,
    /// Where the session works.
    pub workspace: Option<PathBuf>,
}

impl Host {
    /// Whoever ends before it can be looked at, or hides, may be hosted: it has a name that is no session's, so that no rule for
    /// one is about it, and it takes nobody else's places.
    fn unknown() -> Self {
        Self { name: "a program that cannot be checked".to_owned(), workspace: None }
    }
}

impl Engine {
    /// What hosts the program at the other end of a socket. A session is named only where that descends from its process,
    /// whatever mark it carries: anybody can write a mark.
    pub fn host_of(&self, socket: impl AsFd) -> Option<Host> {
        let Ok(peer) = Peer::of(socket) else { return Some(Host::unknown()) };
        let process = peer.lineage().find_map(|(pid, start_ticks)| self.inner.with_pid(pid, start_ticks));
        let Some(process) = process else {
            return match peer.caller() {
                Caller::Free | Caller::Elsewhere => None,
                Caller::Hosted(name) => Some(Host { name, workspace: None }),
                Caller::Unknown => Some(Host::unknown()),
            };
        };
        let session = process.about().session.as_deref().and_then(|id| self.sessions().get(id));
        Some(match session {
            Some(session) => Host { name: session.id().to_owned(), workspace: Some(session.view().workspace) },
            None => Host { name: process.id().to_owned(), workspace: None },
        })
    }
}

impl Engine {
    /// Whoever holds this socket of this machine, which the kernel's table says is `uid`'s. Waits for a look at every process there is.
    pub fn caller_holding(&self, inode: u64, uid: u32) -> Caller {
        self.inner.lookout.caller(inode, uid, |pid| self.is_runner(pid))
    }

    /// Whether a process runs an approved command for us: it is hosted and hides, and is our own program.
    fn is_runner(&self, pid: u32) -> bool {
        let process = procfs::stat(pid).ok().and_then(|stat| self.inner.with_pid(pid, stat.start_ticks));
        process.is_some_and(|process| {
            let about = process.about();
            about.args.first().is_some_and(|arg| arg == crate::RUNNER_VERB)
                && about.program == self.inner.config.runner.to_string_lossy()
        })
    }

    /// The person who decides about a request, or about rules: the one at the peer's terminal. Otherwise why there is none,
    /// which goes on record. May wait for the disk.
    pub fn person(&self, wait: &MayWait, peer: Option<&Peer>, about: &str) -> Result<By, String> {
        self.decider(wait, peer, about, None)
    }

    /// The same; or, where the peer has no terminal and nobody hosts it, the peer itself as a client of this door. What such a
    /// client may decide is little. May wait for the disk.
    pub fn person_or_client(&self, wait: &MayWait, peer: Option<&Peer>, about: &str, door: &str) -> Result<By, String> {
        self.decider(wait, peer, about, Some(door))
    }

    /// Whoever is at the other end of a connection of this door's, as a client of it, unless it is hosted or hides: why not
    /// goes on record. May wait for the disk.
    pub fn client(&self, wait: &MayWait, caller: &Caller, about: &str, protocol: &str) -> Result<By, String> {
        let why = match (self.locked(), caller) {
            (Some(locked), _) => locked.to_owned(),
            (None, Caller::Free | Caller::Elsewhere) => {
                return Ok(By::Client { door: protocol.to_owned(), uid: rustix::process::geteuid().as_raw() });
            }
            (None, Caller::Hosted(host)) => NotAPlace::HostedClient(host.clone()).to_string(),
            (None, Caller::Unknown) => NotAPlace::UnknownClient.to_string(),
        };
        self.refused(wait, about, format!("a client of {protocol}"), &why);
        Err(why)
    }

    fn decider(&self, wait: &MayWait, peer: Option<&Peer>, about: &str, door: Option<&str>) -> Result<By, String> {
        let locked = self.locked().map(str::to_owned);
        let (who, why) = match peer.map(|peer| (peer, peer.place())) {
            Some((peer, _)) if locked.is_some() => {
                (format!("uid {} pid {}", peer.uid, peer.pid), locked.unwrap_or_default())
            }
            Some((_, Ok(place))) => return Ok(place.into()),
            Some((peer, Err(why))) => {
                let alone = matches!(why, NotAPlace::NoTerminal(_)) && peer.caller() == Caller::Free;
                if let Some(door) = door.filter(|_| alone) {
                    return Ok(By::Client { door: door.to_owned(), uid: peer.uid });
                }
                (format!("uid {} pid {}", peer.uid, peer.pid), why.to_string())
            }
            None => ("nobody known".to_owned(), "the system does not say who is calling".to_owned()),
        };
        self.refused(wait, about, who, &why);
        Err(why)
    }

    /// An attempt to decide that was refused goes on record.
    fn refused(&self, wait: &MayWait, about: &str, who: String, why: &str) {
        if let Err(error) = self.inbox().attempted(wait, about, who, why.to_owned()) {
            tracing::error!("a refused attempt to decide could not be recorded: {error}");
        }
    }
}

/// The place that this very process is.
pub fn own_place() -> Result<Place, NotAPlace> {
    place_of(std::process::id(), rustix::process::geteuid().as_raw())
}

/// What hosts this very process: the process that it is or descends from, a keeper, or something that cannot be told.
pub fn own_host() -> Option<String> {
    host_of(std::process::id()).unwrap_or_else(|_| Some("a program that cannot be checked".to_owned()))
}

/// What hosts a process: the mark that is nearest to the keeper; the keeper, if it is an orphan that shed its mark; or the
/// control group of a child of a keeper that is gone.
///
/// A process of our user that hides its environment, as our own clients do, is spoken for by whoever started it: the first
/// above it whose environment can be read, or a process of another user (an `sshd`), which nobody hosted gets for a parent. An
/// orphan that hides is nobody: the child of a keeper that is gone would look like that.
fn host_of(pid: u32) -> Result<Option<String>, NotAPlace> {
    host_of_showing(pid, None)
}

/// The same of a process that handed over its environment.
fn host_of_showing(pid: u32, environ: Option<BorrowedFd<'_>>) -> Result<Option<String>, NotAPlace> {
    let mut mark = None;
    let mut hides = true;
    for (depth, step) in lineage(pid).enumerate() {
        let (current, stat) = step.map_err(|_| NotAPlace::Unknown(pid))?;
        if stat.name == ostler_keeper::NAME {
            return Ok(Some(mark.unwrap_or_else(|| format!("ostler, pid {current}"))));
        }
        mark = match cookie(current, environ.filter(|_| depth == 0)).ok_or(NotAPlace::Unknown(pid))? {
            Cookie::Hidden => {
                hides &= is_ours(current);
                // Entered from outside, into a container: it has no parent here.
                hides &= stat.parent != 0;
                mark
            }
            Cookie::Is(found) => {
                hides = false;
                found.or(mark)
            }
        };
    }
    // Its keeper may be gone; the control group that it made for its child is not.
    let host = mark.or_else(|| ostler_keeper::group_of(pid).map(|group| format!("control group {}", group.display())));
    if hides && host.is_none() { Err(NotAPlace::Unknown(pid)) } else { Ok(host) }
}

fn place_of(pid: u32, uid: u32) -> Result<Place, NotAPlace> {
    if let Some(ancestor) = host_of(pid)? {
        return Err(NotAPlace::Hosted { pid, ancestor });
    }
    let stat = procfs::stat(pid).map_err(|_| NotAPlace::Unknown(pid))?;
    match terminal(&stat) {
        Some(tty) => Ok(Place { uid, pid, tty }),
        None => Err(NotAPlace::NoTerminal(pid)),
    }
}

/// What the environment of a process says.
enum Cookie {
    /// The mark that every hosted process inherits, if it has one.
    Is(Option<String>),
    /// We may not look.
    Hidden,
}

/// Whether a process is our own user's, or is gone and may have been. Those of others, which we may not look into, are nobody's
/// agents.
fn is_ours(pid: u32) -> bool {
    procfs::user(pid).is_none_or(|user| user == rustix::process::geteuid().as_raw())
}

/// What the environment of a process says, or the one that it handed over; nothing at all where that cannot be said yet.
fn cookie(pid: u32, environ: Option<BorrowedFd<'_>>) -> Option<Cookie> {
    let shown = || environ.and_then(|environ| ostler_keeper::shield::shown(environ, pid, ostler_keeper::COOKIE));
    let variable = match procfs::variable(pid, ostler_keeper::COOKIE) {
        Variable::Hidden => shown().unwrap_or(Variable::Hidden),
        seen => seen,
    };
    let value = match variable {
        Variable::Is(value) => value,
        Variable::Unset => return Some(Cookie::Is(None)),
        Variable::Hidden => return Some(Cookie::Hidden),
        Variable::NotYet => return None,
    };
    // Anybody can write there: it is never taken for anything but the id of a process.
    let value = String::from_utf8_lossy(&value).into_owned();
    let is_process = value.starts_with(['p', 'h']) && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Some(Cookie::Is(Some(if is_process { value } else { format!("a false mark in pid {pid}") })))
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

    fn wait_until(mut is_so: impl FnMut() -> bool) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !is_so() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
    }

    /// The kernel says that a program runs a moment before it shows the program's environment.
    fn wait_for_environment(pid: u32) {
        wait_until(|| !std::fs::read(format!("/proc/{pid}/environ")).unwrap().is_empty());
    }

    #[test]
    fn a_process_with_the_mark_is_hosted_whatever_else_it_is() {
        let mut child = Command::new("sleep").arg("30").env(ostler_keeper::COOKIE, "pabc").spawn().unwrap();
        wait_for_environment(child.id());
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

    /// A keeper is known by its name alone.
    fn keep(dir: &std::path::Path, script: &str) -> (std::process::Child, u32) {
        let keeper = dir.join(ostler_keeper::NAME);
        std::fs::copy("/bin/sh", &keeper).unwrap();
        let mut keeper = Command::new(keeper)
            .args(["-c", script])
            .process_group(0)
            .env_remove(ostler_keeper::COOKIE)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(keeper.stdout.take().unwrap()), &mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        // The shell says the number before the program is there.
        wait_until(|| procfs::stat(pid).unwrap().name == "sleep");
        (keeper, pid)
    }

    fn end(mut parent: std::process::Child) {
        let group = Pid::from_raw(parent.id() as i32).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        parent.wait().unwrap();
    }

    #[test]
    fn an_orphan_without_a_mark_is_known_by_the_keeper_that_took_it_in() {
        let dir = tempfile::tempdir().unwrap();
        let (keeper, pid) = keep(dir.path(), "env -i sleep 30 & echo $!; wait");
        let (found, host) = (place_of(pid, 0), format!("ostler, pid {}", keeper.id()));
        let caller = Caller::of(pid);
        end(keeper);
        assert_eq!(found, Err(NotAPlace::Hosted { pid, ancestor: host.clone() }));
        assert_eq!(caller, Caller::Hosted(host));
    }

    #[test]
    fn a_mark_that_names_no_process_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("{}=sabcdefghijkl sleep 30 & echo $!; wait", ostler_keeper::COOKIE);
        let (keeper, pid) = keep(dir.path(), &script);
        wait_for_environment(pid);
        let caller = Caller::of(pid);
        end(keeper);
        assert_eq!(caller, Caller::Hosted(format!("a false mark in pid {pid}")));
    }

    /// A program that connects to a socket and tells what it did; nothing where there is no python.
    fn connected(socket: &std::path::Path, then: &str) -> Option<std::process::Child> {
        let script =
            format!("import socket, os, sys, time\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n{then}");
        Command::new("python3").args(["-c", &script]).arg(socket).stdin(std::process::Stdio::piped()).spawn().ok()
    }

    #[test]
    fn a_peer_that_ended_is_nobody_whoever_has_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let Some(mut living) = connected(&path, "sys.stdin.read()") else { return };
        let stream = listener.accept().unwrap().0;
        let peer = Peer::of(&stream).unwrap();
        assert_eq!(peer.pid, living.id());
        drop(living.stdin.take());
        living.wait().unwrap();
        assert_eq!((peer.caller(), peer.place()), (Caller::Unknown, Err(NotAPlace::Unknown(peer.pid))));
        // Somebody else holds the socket, and the one that connected it is gone before we look.
        let mut gone = connected(&path, "os.fork() or s.recv(1)").unwrap();
        gone.wait().unwrap();
        let stream = listener.accept().unwrap().0;
        assert!(Peer::of(&stream).is_err());
        // Its child ends with the connection.
        drop(stream);
    }

    #[test]
    fn nobody_who_is_gone_is_free() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Caller::of(child.id()), Caller::Unknown);
    }

    #[test]
    fn a_process_without_a_terminal_is_no_place() {
        let mut child = Command::new("setsid").args(["sleep", "30"]).env_clear().spawn().unwrap();
        // The one that runs the tests may itself be hosted or have no terminal: either way this child has none, once it is in
        // a session of its own.
        wait_until(|| {
            rustix::process::getsid(Pid::from_raw(child.id() as i32))
                .is_ok_and(|session| session.as_raw_pid() as u32 == child.id())
        });
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
