//! Errands: what the keeper must have done but must not do itself, because it may block. A forked
//! helper does it, says its result through a pipe, and is given up at a deadline.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::Server;
use super::greet::Stranger;
use super::verbs::reach;
use crate::custody::{self, LOOKED, Outcome, Target};
use crate::spec::{Scope, Signalled};
use crate::sys;
use crate::wire::Body;

/// Longest result read: a list of survivors fits many times.
const RESULT_MAX: usize = 512 * 1024;
/// How long a helper may take: longer than it waits for the killed to die.
const PATIENCE: Duration = Duration::from_secs(12);
/// Helpers that may signal trees at a time: one that waits for the unkillable holds up nobody.
const HUNTS_MAX: usize = 4;
/// Tree signals that may wait for the helper before them.
const TARGETS_MAX: usize = 4096;

/// What a helper was sent for.
pub(super) enum Task {
    /// Signal trees.
    Hunt(Vec<Hunted>),
    /// Look for strays.
    Survey(u64),
    /// Ask a program whether it can take over.
    Probe { id: u64, program: OwnedFd },
    /// Look whose cookie a stranger carries that said hello.
    Look { stranger: Stranger, id: u64 },
    /// Write a line into a log.
    Log,
    /// Remove the control groups with these numbers.
    Tidy(Vec<u32>),
}

/// A tree that a helper signals.
pub(super) struct Hunted {
    /// The request that waits for the outcome, 0 if nobody does any more.
    id: u64,
    key: String,
    deadly: bool,
}

pub(super) struct Errand {
    /// `None` once reaped: then the number is not its own any more.
    pub(super) pid: Option<u32>,
    pub(super) result: OwnedFd,
    pub(super) deadline: Instant,
    text: Vec<u8>,
    pub(super) task: Task,
}

impl Server {
    /// Sends a helper; what `work` returns arrives in `hear_errand`.
    pub(super) fn send_errand(&mut self, task: Task, work: impl FnOnce() -> Vec<u8>) {
        self.start_errand(task, |out| sys::helper(out, None, work));
    }

    /// Sends a helper that `fork` makes, given where to write its result.
    pub(super) fn start_errand(&mut self, task: Task, fork: impl FnOnce(BorrowedFd<'_>) -> Result<u32, Errno>) {
        let sent = pipe_with(PipeFlags::CLOEXEC).and_then(|(result, out)| {
            fcntl_setfl(&result, OFlags::NONBLOCK)?;
            Ok((result, fork(out.as_fd())?))
        });
        match sent {
            Ok((result, pid)) => self.errands.push(Errand {
                pid: Some(pid),
                result,
                deadline: Instant::now() + PATIENCE,
                text: Vec::new(),
                task,
            }),
            Err(errno) => self.errand_failed(task, errno),
        }
    }

    /// Signals the trees that wait, all with one helper.
    pub(super) fn hunt(&mut self) {
        let hunting = |errand: &&Errand| matches!(errand.task, Task::Hunt(_));
        if self.targets.is_empty() || self.errands.iter().filter(hunting).count() >= HUNTS_MAX {
            return;
        }
        let targets = std::mem::take(&mut self.targets);
        let hunted = targets.iter().map(|target| Hunted {
            id: target.id,
            key: target.key.clone(),
            deadly: target.signal == libc::SIGKILL,
        });
        let keeper = std::process::id();
        self.send_errand(Task::Hunt(hunted.collect()), || {
            serde_json::to_vec(&custody::hunt(&targets, keeper)).unwrap_or_default()
        });
    }

    pub(super) fn add_target(&mut self, target: Target) {
        if self.targets.len() < TARGETS_MAX {
            self.targets.push(target);
        } else {
            self.refuse(target.id, "too many trees wait to be signalled");
        }
    }

    pub(super) fn survey(&mut self, id: u64) {
        let living = self.children.iter().filter(|(_, child)| child.exit.is_none());
        let children: HashMap<u32, String> = living.map(|(key, child)| (child.pid, key.to_string())).collect();
        let mut helpers: Vec<u32> = self.errands.iter().filter_map(|errand| errand.pid).collect();
        helpers.extend(self.daemon.as_ref().map(|daemon| daemon.pid));
        helpers.extend(self.guard.running);
        let keeper = std::process::id();
        self.send_errand(Task::Survey(id), || {
            serde_json::to_vec(&custody::survey(&children, &helpers, keeper)).unwrap_or_default()
        });
    }

    /// Reads what a helper says; at the end of it, acts on it.
    pub(super) fn hear_errand(&mut self, index: usize) {
        let Some(errand) = self.errands.get_mut(index) else {
            return;
        };
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&errand.result, &mut buffer) {
                Ok(0) => break,
                Ok(length) if errand.text.len() < RESULT_MAX => {
                    errand.text.extend_from_slice(buffer.get(..length).unwrap_or_default())
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => break,
            }
        }
        let errand = self.errands.swap_remove(index);
        match errand.task {
            Task::Hunt(hunted) => self.hunted(hunted, &errand.text),
            Task::Survey(id) => match serde_json::from_slice(&errand.text) {
                Ok(strays) => self.answer(id, Body::Strays { strays }),
                Err(_) => self.errand_failed(Task::Survey(id), Errno::IO),
            },
            Task::Probe { id, program } => self.probed(id, program, &errand.text),
            Task::Tidy(spent) => self.tidied(spent, &errand.text),
            Task::Look { stranger, id } => match errand.text.as_slice() {
                [LOOKED, cookie @ ..] => self.looked(stranger, id, cookie),
                _ => self.not_looked(&stranger, id),
            },
            Task::Log => {}
        }
    }

    fn hunted(&mut self, hunted: Vec<Hunted>, text: &[u8]) {
        let mut outcomes: Vec<Outcome> = serde_json::from_slice(text).unwrap_or_default();
        for hunted in hunted {
            self.make_sure(&hunted);
            let place = outcomes.iter().position(|outcome| outcome.key == hunted.key);
            let body = match place.map(|place| outcomes.swap_remove(place)) {
                Some(outcome) => Body::Signalled(Signalled { strays: outcome.strays, left: outcome.left }),
                None => Body::System { errno: Errno::IO.raw_os_error() },
            };
            self.answer_hunted(&hunted, body);
        }
    }

    /// A group that was stopped to be killed is killed, whatever became of the helper.
    fn make_sure(&self, hunted: &Hunted) {
        if hunted.deadly
            && let Some((_, child)) = self.children.get(&hunted.key)
            && child.exit.is_none()
        {
            let _ = reach(child, libc::SIGKILL, Scope::Group);
        }
    }

    fn answer_hunted(&mut self, hunted: &Hunted, body: Body) {
        if hunted.id != 0 {
            self.answer(hunted.id, body);
        }
    }

    fn errand_failed(&mut self, task: Task, errno: Errno) {
        let errno = errno.raw_os_error();
        match task {
            Task::Hunt(hunted) => {
                for hunted in hunted {
                    self.make_sure(&hunted);
                    self.answer_hunted(&hunted, Body::System { errno });
                }
            }
            Task::Survey(id) | Task::Probe { id, .. } => self.answer(id, Body::System { errno }),
            Task::Tidy(spent) => self.groups.keep(spent),
            Task::Look { stranger, id } => self.not_looked(&stranger, id),
            Task::Log => {}
        }
    }

    /// The daemon that asked is gone: the work goes on, the answers have nowhere to go.
    pub(super) fn orphan_errands(&mut self) {
        for target in &mut self.targets {
            target.id = 0;
        }
        self.errands.retain(|errand| !matches!(errand.task, Task::Survey(_) | Task::Probe { .. }));
        for errand in &mut self.errands {
            if let Task::Hunt(hunted) = &mut errand.task {
                for hunted in hunted {
                    hunted.id = 0;
                }
            }
        }
    }

    /// Gives up helpers that took too long.
    pub(super) fn recall_errands(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(errand) = self.errands.get(index) {
            if errand.deadline > now {
                index += 1;
                continue;
            }
            let errand = self.errands.swap_remove(index);
            if let Some(pid) = errand.pid.and_then(|pid| i32::try_from(pid).ok()) {
                let _ = sys::kill(pid, libc::SIGKILL);
            }
            self.errand_failed(errand.task, Errno::TIMEDOUT);
        }
    }
}
