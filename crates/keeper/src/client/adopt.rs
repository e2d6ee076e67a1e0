//! Connecting: the versioned hello, then the children in batches that are acknowledged one by one,
//! so that an unprivileged user's limit of descriptors in flight is never met.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_hooks::hook;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect as connect_socket};

use super::Keeper;
use super::launch::{Launched, address, directory, patient, socket};
use super::link::{Handle, Process, Service};
use super::listener;
use crate::channel::{self, Received};
use crate::shield;
use crate::spec::{Adopted, ChildIo, ConnectError, Event, Hello, Pty};
use crate::wire::{
    Body, ChildWire, Greeting, KeeperMessage, OLDEST, PACKET_MAX, PROTOCOL, Request, Role, Verb, encode, split,
};

/// How long a keeper may send us away or hang up before we believe that it always will.
const PERSISTENCE: Duration = Duration::from_secs(5);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects to the keeper in `dir` and takes over its children. Blocks; `on_event` runs on the
/// connection's own thread and may do so before this returns.
pub fn connect(
    dir: &Path,
    hello: Hello,
    on_event: impl Fn(Event) + Send + 'static,
) -> Result<(Keeper, Vec<Adopted>), ConnectError> {
    let (keeper, adopted, service) = connect_unserved(dir, None, hello, on_event)?;
    std::thread::Builder::new().name("keeper-link".into()).spawn(move || service.run())?;
    Ok((keeper, adopted))
}

/// As [`connect`], for a thread of the caller's, which gives the connection its turns: nobody is answered before. Over the
/// connection that was made when the keeper was started, if it was; else, and after that, over the socket in the folder.
pub fn connect_unserved(
    dir: &Path,
    launched: Option<Launched>,
    hello: Hello,
    on_event: impl Fn(Event) + Send + 'static,
) -> Result<(Keeper, Vec<Adopted>, Service), ConnectError> {
    let mut line = launched.map(|launched| launched.0);
    let mut buffer = vec![0; PACKET_MAX];
    let deadline = Instant::now() + PERSISTENCE;
    loop {
        let own = line.is_some();
        let socket = match line.take() {
            Some(line) => line,
            None => reach(dir)?,
        };
        match attempt(socket, &hello, &mut buffer) {
            Ok((socket, keeper, adopted)) => {
                let process = Process::at(&socket, &keeper, own);
                let known = (process, keeper.protocol, keeper.entrusted);
                let (handle, service) = Handle::new(socket, buffer, known, on_event)?;
                return Ok((Keeper { handle: Arc::new(handle) }, adopted, service));
            }
            // A keeper that hung up is not a dead one: who concluded that would start a second beside it. A dead one
            // refuses the next connection.
            Err(Attempt::Again(_)) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(Attempt::Again(error) | Attempt::Final(error)) => return Err(error),
        }
    }
}

/// What the keeper in `dir` says of its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// This process, which lived when the keeper said so.
    Process(u32),
    /// None at the moment, and it brings one back.
    Soon,
    /// None.
    Nobody,
    /// It hung up: one of before does not know the question.
    Unsaid,
}

/// Asks the keeper in `dir` which process its daemon is. Not for daemons: nothing is taken over. Blocks.
pub fn daemon_of(dir: &Path) -> Result<Serves, ConnectError> {
    let mut buffer = vec![0; PACKET_MAX];
    let deadline = Instant::now() + PERSISTENCE;
    loop {
        let socket = reach(dir)?;
        say(&socket, Verb::Daemon, &[])?;
        return match hear(&socket, &mut buffer) {
            Ok((Body::Daemon { pid: Some(pid), .. }, ..)) => Ok(Serves::Process(pid)),
            Ok((Body::Daemon { pid: None, soon: true }, ..)) => Ok(Serves::Soon),
            Ok((Body::Daemon { pid: None, soon: false }, ..)) => Ok(Serves::Nobody),
            Ok((Body::Refused { again: true, .. }, ..)) if Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Ok((Body::Refused { why, .. }, ..)) => Err(ConnectError::Hosted(why)),
            Ok(_) => Err(nonsense()),
            Err(Attempt::Again(_)) => Ok(Serves::Unsaid),
            Err(Attempt::Final(error)) => Err(error),
        };
    }
}

/// Why an attempt did not succeed.
enum Attempt {
    /// Another may.
    Again(ConnectError),
    Final(ConnectError),
}

impl From<ConnectError> for Attempt {
    fn from(error: ConnectError) -> Attempt {
        Attempt::Final(error)
    }
}

/// The connection, who is at its other end, and what it handed over.
type Connected = (OwnedFd, Greeting, Vec<Adopted>);

fn attempt(socket: OwnedFd, hello: &Hello, buffer: &mut [u8]) -> Result<Connected, Attempt> {
    let (pid, program) = (std::process::id(), hello.program.clone());
    let greeting = Greeting { protocol: PROTOCOL, oldest: OLDEST, pid, program, ..Greeting::default() };
    // It has to see that nobody hosts us, and may not be able to look.
    say(&socket, Verb::Hello(greeting), shield::environ().as_slice())?;
    let keeper = match hear(&socket, buffer)?.0 {
        Body::Hello(keeper) => keeper,
        Body::Busy { pid } => return Err(ConnectError::Busy { pid }.into()),
        Body::Refused { why, again: true } => return Err(Attempt::Again(ConnectError::Hosted(why))),
        Body::Refused { why, again: false } => return Err(ConnectError::Hosted(why).into()),
        Body::Version { protocol } => return Err(version(protocol).into()),
        _ => return Err(nonsense().into()),
    };
    if keeper.protocol < OLDEST {
        return Err(version(keeper.protocol).into());
    }
    let mut adopted = Vec::new();
    loop {
        let (Body::Batch { children, more }, mut fds, raw) = hear(&socket, buffer)? else {
            return Err(nonsense().into());
        };
        let mut raw = raw.as_slice();
        for child in children {
            let meta = raw.split_off(..child.meta).ok_or_else(nonsense)?.to_vec();
            adopted.push(adopt(child, meta, &mut fds));
        }
        hook!("keeper.adopt.batch");
        say(&socket, Verb::Adopted, &[])?;
        if !more {
            // One of before says nothing of its file, and shows it.
            let file = keeper.file.or_else(|| shield::file_of(keeper.pid));
            return Ok((socket, Greeting { file, ..keeper }, adopted));
        }
    }
}

fn reach(dir: &Path) -> Result<OwnedFd, ConnectError> {
    let absent = |errno| match errno {
        Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR => ConnectError::NoKeeper,
        errno => io(errno),
    };
    let dir = directory(dir).map_err(absent)?;
    let socket = socket().map_err(io)?;
    patient(&socket).map_err(io)?;
    connect_socket(&socket, &address(&dir).map_err(io)?).map_err(absent)?;
    listener::check(&socket)?;
    Ok(socket)
}

fn io(errno: Errno) -> ConnectError {
    let errno = match errno {
        // What a socket timeout looks like.
        Errno::AGAIN => Errno::TIMEDOUT,
        errno => errno,
    };
    ConnectError::Io(errno.into())
}

fn nonsense() -> ConnectError {
    io(Errno::PROTO)
}

fn version(keeper: u32) -> ConnectError {
    ConnectError::Version { keeper, ours: PROTOCOL }
}

fn say(socket: &OwnedFd, verb: Verb, fds: &[BorrowedFd<'_>]) -> Result<(), ConnectError> {
    let packet = encode(&Request { id: 0, verb }, &[]);
    match channel::send(socket, &packet, fds, SendFlags::empty()) {
        Ok(()) => Ok(()),
        // A refusal may close the socket before we have spoken; it is still there to be read.
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(errno) => Err(io(errno)),
    }
}

fn hear(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(Body, VecDeque<OwnedFd>, Vec<u8>), Attempt> {
    match channel::receive(socket, buffer, RecvFlags::empty()).map_err(io)? {
        Received::Closed => Err(Attempt::Again(io(Errno::CONNRESET))),
        Received::Packet { cut: true, .. } => Err(io(Errno::MFILE).into()),
        Received::Packet { length, fds, .. } => {
            let packet = buffer.get(..length).unwrap_or_default();
            let (head, raw) = split(packet).ok_or_else(nonsense)?;
            let answer: KeeperMessage = serde_json::from_slice(head).map_err(|_| nonsense())?;
            Ok((answer.body, fds.into(), raw.to_vec()))
        }
    }
}

pub(super) fn adopt(child: ChildWire, meta: Vec<u8>, fds: &mut VecDeque<OwnedFd>) -> Adopted {
    Adopted {
        io: take(&child.fds, fds),
        key: child.key,
        pid: child.pid,
        start_ticks: child.start_ticks,
        meta,
        exit: child.exit,
        starting: child.starting,
    }
}

/// Sorts the descriptors beside a child by their roles.
pub(crate) fn take(roles: &[Role], fds: &mut VecDeque<OwnedFd>) -> ChildIo {
    let mut io = ChildIo::default();
    let (mut master, mut relay_read, mut relay_write) = (None, None, None);
    for role in roles {
        let Some(fd) = fds.pop_front() else { break };
        match role {
            Role::Stdin => io.stdin = Some(fd),
            Role::Stdout => io.stdout = Some(fd),
            Role::Stderr => io.stderr = Some(fd),
            Role::Master => master = Some(fd),
            Role::RelayRead => relay_read = Some(fd),
            Role::RelayWrite => relay_write = Some(fd),
            Role::Held => io.held.push(fd),
            Role::Other => {}
        }
    }
    if let (Some(master), Some(relay_read), Some(relay_write)) = (master, relay_read, relay_write) {
        io.pty = Some(Pty { master, relay_read, relay_write });
    }
    io
}
