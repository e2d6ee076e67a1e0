//! What a caller may touch. Whoever is not hosted may touch everything; a hosted process what is its own: itself, its session,
//! and what was started from there, however deep. Neither ending the daemon nor what others say and do is its own. Of folders
//! a device reaches those in which somebody works: see [`folder`](super::folder).
//!
//! A person may open everything to one process, from a place of theirs; that is kept in memory only, so that nobody writes
//! it into a file, and is in the audit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_keeper::procfs;
use ostler_story::By;

use super::device::Guest;
use super::{Caller, Peer, host_of, lineage};
use crate::approval::StoreError;
use crate::session::Session;
use crate::{Engine, MayWait, Process};

/// For how long after its birth a child may be unknown here: the keeper tells of it once its program runs, and that may come
/// here sooner than the news of it. In clock ticks, a quarter of a second.
const NEWBORN: u64 = 25;
/// How often such a one is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Nobody starts shells in shells in shells so deep.
const OWNERS_MAX: usize = 64;

/// Where a caller comes from, as far as it matters for what it may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// From outside.
    Free,
    /// From a device, whose rights are looked up with each request.
    Device(Arc<Guest>),
    /// From a hosted process; without an id, from one that lost its parents or that another instance hosts.
    Hosted {
        /// The hosted process that it is or descends from.
        process: Option<String>,
        /// What gave it away.
        host: String,
    },
    /// It is gone, or hides.
    Unknown,
}

/// What is to be touched.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// A process: its output, its input, its life.
    Process(&'a Process),
    /// A session: what was said, and what it is told.
    Session(&'a Session),
    /// What is everybody's: the daemon itself, what others decided, old output.
    Instance,
}

/// Why it may not be touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutOfReach {
    /// It is not the caller's own.
    #[error("{what} is not this session's own, and programs that run in ostler ({host}) only reach their own")]
    Others {
        /// What was to be touched.
        what: String,
        /// What hosts the caller.
        host: String,
        /// The hosted process that a person may open everything to.
        process: Option<String>,
    },
    /// Nobody knows whose it would be.
    #[error("cannot check which program is calling, so it cannot reach {what}")]
    Unknown {
        /// What was to be touched.
        what: String,
    },
    /// No session works there, and the device may start nothing by itself.
    #[error("nobody works in {} yet: begin a session there at the machine, or give this device the right to `type`", .0.display())]
    NoWorkspace(PathBuf),
    /// It holds what only this program and its user may see.
    #[error("{} is, or holds, a folder of ostler's own", .0.display())]
    OurOwn(PathBuf),
}

impl Engine {
    /// Where a caller comes from. Looks at its ancestors, and may wait for the news of one that was just started.
    pub fn origin(&self, _wait: &MayWait, peer: Option<&Peer>) -> Origin {
        let Some(peer) = peer else { return Origin::Unknown };
        let host = match peer.caller() {
            Caller::Free | Caller::Elsewhere => return Origin::Free,
            Caller::Unknown => return Origin::Unknown,
            Caller::Hosted(host) => host,
        };
        let keeper = self.inner.keeper().pid();
        let process = self.process_of(peer, keeper);
        let is_ours = process.is_some() || peer.lineage().any(|(pid, _)| pid == keeper);
        if !is_ours && is_nested(keeper) {
            // This whole instance was started in another one: its neighbours there are its people.
            return Origin::Free;
        }
        Origin::Hosted { process: process.map(|process| process.id().to_owned()), host }
    }

    /// The hosted process that a caller is or descends from.
    fn process_of(&self, peer: &Peer, keeper: u32) -> Option<Process> {
        loop {
            let line: Vec<(u32, u64)> = peer.lineage().collect();
            if let Some(known) = line.iter().find_map(|&(pid, start_ticks)| self.inner.with_pid(pid, start_ticks)) {
                return Some(known);
            }
            let child = line.iter().zip(line.iter().skip(1)).find(|(_, parent)| parent.0 == keeper);
            let (_, born) = child.map(|(child, _)| *child)?;
            if procfs::now_ticks().saturating_sub(born) > NEWBORN {
                return None;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether a caller may touch this.
    pub fn may_touch(&self, origin: &Origin, target: Target<'_>) -> Result<(), OutOfReach> {
        let what = || match target {
            Target::Process(process) => process.id().to_owned(),
            Target::Session(session) => session.id().to_owned(),
            Target::Instance => "ostler itself".to_owned(),
        };
        let (process, host) = match origin {
            Origin::Free | Origin::Device(_) => return Ok(()),
            Origin::Unknown => return Err(OutOfReach::Unknown { what: what() }),
            Origin::Hosted { process, host } => (process, host),
        };
        let caller = process.as_deref().and_then(|id| self.inner.process(id));
        let is_own = caller.as_ref().is_some_and(|caller| {
            let own = [Some(caller.id().to_owned()), self.session_of(caller)];
            self.inner.is_open_to(caller.id()) || self.owners(target).any(|owner| own.contains(&Some(owner)))
        });
        if is_own {
            return Ok(());
        }
        Err(OutOfReach::Others { what: what(), host: host.clone(), process: process.clone() })
    }

    /// Whether a caller may begin a session in a folder. A hosted one may: what it begins is its own.
    pub fn may_begin_in(&self, wait: &MayWait, origin: &Origin, folder: &Path) -> Result<(), OutOfReach> {
        match origin {
            Origin::Device(guest) => self.device_reaches(wait, guest, folder),
            Origin::Free | Origin::Hosted { .. } | Origin::Unknown => Ok(()),
        }
    }

    /// Whether a caller may look at what is beneath a folder: a hosted one at its own session's workspace.
    pub fn may_look_into(&self, wait: &MayWait, origin: &Origin, folder: &Path) -> Result<(), OutOfReach> {
        if let Origin::Device(guest) = origin {
            return self.device_reaches(wait, guest, folder);
        }
        let own = self.owner_for(origin).and_then(|id| self.sessions().get(&id)).is_some_and(|session| {
            let view = session.view();
            let real = |path: PathBuf| path.canonicalize().ok();
            let folders = [Some(view.workspace), view.worktree].into_iter().flatten().filter_map(real);
            folders.into_iter().any(|workspace| folder.starts_with(workspace))
        });
        if own { Ok(()) } else { self.is_free(origin, || folder.display().to_string()) }
    }

    /// Whether a caller may change files and git: nobody hosted, also not its own.
    pub fn may_change(&self, origin: &Origin, folder: &Path) -> Result<(), OutOfReach> {
        self.is_free(origin, || format!("changing {}", folder.display()))
    }

    /// Not hosted, or opened to by a person.
    fn is_free(&self, origin: &Origin, what: impl Fn() -> String) -> Result<(), OutOfReach> {
        match origin {
            Origin::Free | Origin::Device(_) => Ok(()),
            Origin::Unknown => Err(OutOfReach::Unknown { what: what() }),
            Origin::Hosted { process: Some(id), .. } if self.inner.is_open_to(id) => Ok(()),
            Origin::Hosted { process, host } => {
                Err(OutOfReach::Others { what: what(), host: host.clone(), process: process.clone() })
            }
        }
    }

    /// To whom belongs what this caller starts: its session, or else its process; to nobody where it is not hosted here.
    pub fn owner_for(&self, origin: &Origin) -> Option<String> {
        let Origin::Hosted { process: Some(id), .. } = origin else { return None };
        let caller = self.inner.process(id)?;
        Some(self.session_of(&caller).unwrap_or_else(|| caller.id().to_owned()))
    }

    /// Opens everything to a process, or only what is its own again; by whom is in the audit. May wait for the disk.
    pub fn open_access(&self, wait: &MayWait, process: &Process, all: bool, by: By) -> Result<(), StoreError> {
        // What would be open without a record is not opened.
        self.inbox().access_changed(wait, process.id(), all, by)?;
        self.inner.set_open_to(process.id(), all);
        Ok(())
    }

    /// The session that a process is part of.
    fn session_of(&self, process: &Process) -> Option<String> {
        let about = process.about();
        let own = about.session.clone().or_else(|| about.screen_of.clone());
        own.or_else(|| about.owner.clone().filter(|owner| self.sessions().get(owner).is_some()))
    }

    /// Whatever this belongs to, itself first.
    fn owners(&self, target: Target<'_>) -> impl Iterator<Item = String> {
        let mut next = match target {
            Target::Process(process) => vec![process.id().to_owned()],
            Target::Session(session) => vec![session.id().to_owned()],
            Target::Instance => Vec::new(),
        };
        let mut all = Vec::new();
        while let Some(id) = next.pop() {
            if all.contains(&id) || all.len() >= OWNERS_MAX {
                continue;
            }
            if let Some(process) = self.inner.process(&id) {
                let about = process.about();
                next.extend([&about.session, &about.screen_of, &about.owner].into_iter().flatten().cloned());
            } else if let Some(session) = self.sessions().get(&id) {
                next.extend(session.owner());
            }
            all.push(id);
        }
        all.into_iter()
    }
}

/// Whether this keeper itself runs in another instance.
fn is_nested(keeper: u32) -> bool {
    let above = lineage(keeper).nth(1).and_then(Result::ok);
    above.is_some_and(|(parent, _)| procfs::stat(parent).is_ok() && matches!(host_of(parent), Ok(Some(_))))
}
