//! Becoming the keeper. What descriptor 0 is decides: a listening socket starts a new keeper, a
//! sealed state file resumes one whose program was replaced, anything else is a program being asked
//! which states it understands.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, SealFlags, fcntl_get_seals, fcntl_setfl, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::listen;
use rustix::process::{Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};

use super::Server;
use crate::client::BACKLOG;
use crate::sys;

/// A buffer of a keeper: few are larger, and each for a moment.
const LARGE: u32 = 64 * 1024;
/// What the machine should give up before the keeper; only a privileged user may lower it.
const OOM_SCORE: &str = "-500";
const OOM_FILE: &str = "/proc/self/oom_score_adj";

/// How long after a birth the next one is waited for: writing the file twice for each would cost as much as the birth.
const BACK: Duration = Duration::from_secs(1);

/// What a new program finds on descriptor 0.
pub(super) enum Beginning {
    Fresh,
    Resumed,
    Asked,
}

/// What the keeper was before it changed itself, for its children to be.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) nofile: (u64, u64),
    pub(super) oom: Option<Vec<u8>>,
    /// Our own limit of descriptors.
    pub(super) fds_max: u64,
}

pub(super) fn beginning() -> Beginning {
    let kind = fstat(stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::Socket) => Beginning::Fresh,
        Ok(FileType::RegularFile) if fcntl_get_seals(stdin()).is_ok_and(|seals| seals.contains(SealFlags::WRITE)) => {
            Beginning::Resumed
        }
        _ => Beginning::Asked,
    }
}

/// Takes the listener from descriptor 0 and leaves everything else that was inherited: files,
/// parent, session, directory.
pub(super) fn leave_home() -> Result<(OwnedFd, OwnedFd, Origin), Errno> {
    let listener = fcntl_dupfd_cloexec(stdin(), 3)?;
    fcntl_setfl(&listener, OFlags::NONBLOCK)?;
    sys::keep_only(listener.as_fd());
    let null = settle()?;
    rustix::process::chdir("/")?;
    let origin = Origin::take();
    sys::detach()?;
    // Said again after the last fork: from now on the kernel names us, and not who made the socket, to whoever connects.
    listen(&listener, BACKLOG)?;
    Ok((listener, null, origin))
}

/// What a new keeper and one with a new program have in common.
pub(super) fn settle() -> Result<OwnedFd, Errno> {
    sys::tame_allocator(LARGE);
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(null)
}

/// Attributes of this very process: after the last fork.
pub(super) fn take_office() -> Result<OwnedFd, Errno> {
    set_child_subreaper(Some(getpid()))?;
    let _ = rustix::thread::set_name(c"ostler-keeper");
    sys::take_signals()
}

impl Origin {
    /// Raises our limit of descriptors to what is allowed and lowers our place in the queue of the
    /// out-of-memory killer, remembering both.
    fn take() -> Origin {
        let limit = getrlimit(Resource::Nofile);
        let nofile = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let _ = setrlimit(Resource::Nofile, raised);
        let before = std::fs::read_to_string(OOM_FILE).unwrap_or_default();
        let lower =
            before.trim().parse::<i32>().is_ok_and(|score| score > -500) && std::fs::write(OOM_FILE, OOM_SCORE).is_ok();
        Origin { nofile, oom: lower.then(|| before.into_bytes()), fds_max: fds_max() }
    }
}

impl Server {
    /// A child has its place in the queue of the out-of-memory killer from us, and may not change it before its program runs:
    /// while it shares our memory, the change would be ours too. So we take its place for a while before it is born.
    pub(super) fn step_back(&mut self) {
        let Some(theirs) = &self.origin.oom else { return };
        if self.back_until.is_none() {
            // Where it fails they have ours, which harms nobody but the machine.
            let _ = std::fs::write(OOM_FILE, theirs);
        }
        self.back_until = Some(Instant::now() + BACK);
    }

    /// Takes our own place again, when nobody was born for a while.
    pub(super) fn step_forward(&mut self, now: Instant) {
        if self.back_until.is_none_or(|until| until > now) {
            return;
        }
        if !self.children.starting().is_empty() {
            self.back_until = Some(now + BACK);
            return;
        }
        self.back_until = None;
        if self.origin.oom.is_some() {
            let _ = std::fs::write(OOM_FILE, OOM_SCORE);
        }
    }
}

/// How many descriptors we may have.
pub(super) fn fds_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
