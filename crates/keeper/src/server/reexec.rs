//! Replacing the keeper's program in place. The new program is first asked, in a helper, whether it
//! understands our state; then every descriptor is left open, the state goes into a sealed memory
//! file on descriptor 0, and exec does the rest: same process, same children, same connection.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ostler_story::Exit;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::stdio::{dup2_stdin, stdin};
use serde::{Deserialize, Serialize};

use super::Server;
use super::begin::{self, Origin};
use super::child::{Child, Children, Start};
use super::daemon::Daemon;
use super::errand::Task;
use super::groups::Groups;
use super::guard::Guard;
use super::stdio::Spare;
use crate::client::take;
use crate::sys;
use crate::wire::{Body, PACKET_MAX, PROTOCOL, Role, encode, split};

/// The newest state we write and read.
const STATE: u32 = 1;
/// The oldest state we read.
const STATE_OLDEST: u32 = 1;

/// What a program says when asked.
#[derive(Debug, Serialize, Deserialize)]
struct Abilities {
    state: u32,
    state_oldest: u32,
    protocol: u32,
}

#[derive(Serialize, Deserialize)]
struct State {
    version: u32,
    listener: RawFd,
    daemon: Option<DaemonState>,
    children: Vec<ChildState>,
    #[serde(default)]
    guard: Option<RawFd>,
    #[serde(default)]
    guard_running: Option<u32>,
    nofile: (u64, u64),
    #[serde(default)]
    oom: Option<Vec<u8>>,
    #[serde(default)]
    groups: GroupsState,
    #[serde(default)]
    entrusted: Vec<u8>,
    #[serde(default)]
    note: Option<RawFd>,
    /// The request that waits to hear that the new program serves.
    answer: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct GroupsState {
    base: Option<PathBuf>,
    last: u32,
    spent: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct DaemonState {
    socket: RawFd,
    pid: u32,
    life: Option<RawFd>,
}

#[derive(Serialize, Deserialize)]
struct ChildState {
    key: String,
    pid: u32,
    start_ticks: u64,
    meta: usize,
    fds: Vec<(Role, RawFd)>,
    #[serde(default)]
    exit: Option<Exit>,
    #[serde(default)]
    told: bool,
    #[serde(default)]
    start: Option<StartState>,
    #[serde(default)]
    watch: Option<RawFd>,
    #[serde(default)]
    group: Option<u32>,
    #[serde(default)]
    void_exit: Option<i32>,
    #[serde(default)]
    inherited: Option<PathBuf>,
    /// What is left of a helper's time.
    #[serde(default)]
    within_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct StartState {
    errors: RawFd,
    waiters: Vec<u64>,
    announced: bool,
}

/// Says which states this program understands, to whoever asks.
pub(super) fn introduce() -> std::io::Result<()> {
    let abilities = Abilities { state: STATE, state_oldest: STATE_OLDEST, protocol: PROTOCOL };
    serde_json::to_writer(std::io::stdout(), &abilities)?;
    Ok(())
}

impl Server {
    /// Asks a program whether it can take over.
    pub(super) fn probe(&mut self, id: u64, program: OwnedFd) {
        match program.try_clone() {
            Ok(asked) => {
                let task = Task::Probe { id, program };
                self.start_errand(task, |out| sys::ask(asked.as_fd(), out));
            }
            Err(_) => self.refuse(id, "no descriptor left"),
        }
    }

    /// The answer of the program, or nothing if it could not even be executed.
    pub(super) fn probed(&mut self, id: u64, program: OwnedFd, text: &[u8]) {
        match serde_json::from_slice::<Abilities>(text) {
            Ok(able) if (able.state_oldest..=able.state).contains(&STATE) => {
                self.successor = Some((id, program));
            }
            Ok(able) => {
                let why = format!(
                    "the new program reads states {} to {}, this keeper writes {STATE}",
                    able.state_oldest, able.state
                );
                self.refuse(id, &why);
            }
            Err(_) => self.refuse(id, "the new program does not answer as a keeper"),
        }
    }

    /// Hands over if a program waits and nothing is half said.
    pub(super) fn hand_over(&mut self) {
        let quiet = self.daemon.as_ref().is_some_and(Daemon::is_quiet);
        if !quiet || !self.errands.is_empty() || !self.targets.is_empty() {
            return;
        }
        let Some((id, program)) = self.successor.take() else {
            return;
        };
        let errno = match self.exec(id, program.as_fd()) {
            Ok(errno) | Err(errno) => errno,
        };
        // Still here: the old program goes on as if nothing had been tried.
        let _ = dup2_stdin(&self.null);
        for fd in self.fds() {
            let _ = sys::survive(fd, false);
        }
        let errno = errno.raw_os_error();
        self.answer(id, Body::System { errno });
    }

    fn exec(&self, id: u64, program: BorrowedFd<'_>) -> Result<Errno, Errno> {
        let (state, metas) = self.state(id);
        let file = memfd_create("state", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let mut file = File::from(file);
        let written = file.write_all(&encode(&state, &metas)).and_then(|()| file.rewind());
        written.map_err(|_| Errno::NOMEM)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        for fd in self.fds() {
            sys::survive(fd, true)?;
        }
        dup2_stdin(&file)?;
        Ok(sys::become_program(program))
    }

    /// Every descriptor that the state names.
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let mut fds = vec![self.listener.as_fd()];
        if let Some(daemon) = &self.daemon {
            fds.push(daemon.socket.as_fd());
            fds.extend(daemon.life.as_ref().map(AsFd::as_fd));
        }
        fds.extend(self.guard.command.as_ref().map(AsFd::as_fd));
        fds.extend(self.note.as_ref().map(AsFd::as_fd));
        for (_, child) in self.children.iter() {
            fds.extend(child.fds().into_iter().map(|(_, fd)| fd));
            fds.extend(child.start.as_ref().map(|start| start.errors.as_fd()));
            fds.extend(child.watch.as_ref().map(AsFd::as_fd));
        }
        fds
    }

    fn state(&self, answer: u64) -> (State, Vec<u8>) {
        let mut metas = Vec::new();
        let children = self.children.iter().map(|(key, child)| {
            metas.extend_from_slice(&child.meta);
            let fds = child.fds().into_iter();
            ChildState {
                key: key.to_string(),
                pid: child.pid,
                start_ticks: child.start_ticks,
                meta: child.meta.len(),
                fds: fds.map(|(role, fd)| (role, fd.as_raw_fd())).collect(),
                exit: child.exit,
                told: child.told,
                start: child.start.as_ref().map(|start| StartState {
                    errors: start.errors.as_raw_fd(),
                    waiters: start.waiters.clone(),
                    announced: start.announced,
                }),
                watch: child.watch.as_ref().map(AsRawFd::as_raw_fd),
                group: child.group,
                void_exit: child.void_exit,
                inherited: child.inherited.clone(),
                within_ms: child.until.map(|until| {
                    let left = until.saturating_duration_since(Instant::now());
                    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
                }),
            }
        });
        let state = State {
            version: STATE,
            listener: self.listener.as_raw_fd(),
            children: children.collect(),
            daemon: self.daemon.as_ref().map(|daemon| DaemonState {
                socket: daemon.socket.as_raw_fd(),
                pid: daemon.pid,
                life: daemon.life.as_ref().map(AsRawFd::as_raw_fd),
            }),
            guard: self.guard.command.as_ref().map(AsRawFd::as_raw_fd),
            guard_running: self.guard.running,
            nofile: self.origin.nofile,
            oom: self.origin.oom.clone(),
            groups: GroupsState {
                base: self.groups.base.clone(),
                last: self.groups.last,
                spent: self.groups.spent.clone(),
            },
            entrusted: self.entrusted.clone(),
            note: self.note.as_ref().map(AsRawFd::as_raw_fd),
            answer,
        };
        (state, metas)
    }

    /// The keeper that the program before us was.
    pub(super) fn resume() -> Result<Server, Errno> {
        let mut bytes = Vec::new();
        let read = File::from(fcntl_dupfd_cloexec(stdin(), 3)?).read_to_end(&mut bytes);
        read.map_err(|_| Errno::IO)?;
        let null = begin::settle()?;
        let signals = begin::take_office()?;
        let (head, mut metas) = split(&bytes).ok_or(Errno::PROTO)?;
        let state: State = serde_json::from_slice(head).map_err(|_| Errno::PROTO)?;
        let daemon = state.daemon.map(|old| {
            let life = old.life.and_then(|fd| sys::inherit(fd).ok());
            Ok::<_, Errno>(Daemon::resumed(sys::inherit(old.socket)?, old.pid, life))
        });
        let mut server = Server {
            listener: sys::inherit(state.listener)?,
            null,
            signals,
            buffer: vec![0; PACKET_MAX],
            children: Children::default(),
            daemon: daemon.transpose()?,
            strangers: Vec::new(),
            errands: Vec::new(),
            targets: Vec::new(),
            guard: Guard::resumed(state.guard.map(sys::inherit).transpose()?, state.guard_running),
            origin: Origin { nofile: state.nofile, oom: state.oom, fds_max: begin::fds_max() },
            spare: Spare::default(),
            groups: Groups { base: state.groups.base, last: state.groups.last, ..Groups::default() },
            entrusted: state.entrusted,
            note: state.note.and_then(|fd| sys::inherit(fd).ok()),
            successor: None,
            left: false,
            asked_to_end: false,
            deaf_until: None,
            idle_since: Instant::now(),
            forgotten: 0,
            // The program before us may have been in its children's place.
            back_until: Some(Instant::now()),
        };
        server.groups.keep(state.groups.spent);
        for old in state.children {
            let meta = metas.split_off(..old.meta).unwrap_or_default();
            let (key, child) = revive(old, meta)?;
            server.children.insert(key, child);
        }
        // Exits that were not told are news again.
        let untold = server.children.iter();
        let untold = untold.filter(|(_, child)| child.exit.is_some() && !child.told);
        let untold: Vec<Rc<str>> = untold.map(|(key, _)| Rc::clone(key)).collect();
        if let Some(daemon) = &mut server.daemon {
            for key in untold {
                daemon.tell_exit(key);
            }
            daemon.answer(state.answer, Body::Done);
        }
        server.reap();
        Ok(server)
    }
}

fn revive(old: ChildState, meta: &[u8]) -> Result<(Rc<str>, Child), Errno> {
    let mut roles = Vec::with_capacity(old.fds.len());
    let mut fds = VecDeque::with_capacity(old.fds.len());
    for (role, fd) in old.fds {
        roles.push(role);
        fds.push_back(sys::inherit(fd)?);
    }
    let start = old.start.map(|start| {
        Ok::<_, Errno>(Start {
            errors: sys::inherit(start.errors)?,
            waiters: start.waiters,
            announced: start.announced,
            failed: None,
            // It reads the memory of the program before us.
            launch: sys::Launch::default(),
        })
    });
    let child = Child {
        pid: old.pid,
        start_ticks: old.start_ticks,
        meta: meta.into(),
        io: take(&roles, &mut fds),
        exit: old.exit,
        told: old.told,
        start: start.transpose()?,
        watch: old.watch.map(sys::inherit).transpose()?,
        group: old.group,
        void_exit: old.void_exit,
        until: old.within_ms.map(|left| Instant::now() + Duration::from_millis(left)),
        inherited: old.inherited,
    };
    Ok((old.key.into(), child))
}
