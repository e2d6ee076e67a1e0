//! A control group for each child, where the keeper's own group is delegated to it; elsewhere nothing at all. Making one
//! is a single fast call; children are born into theirs, because moving a process costs the whole machine a pause. An empty
//! one serves the next child, and is removed by a helper when there is none.

use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, pread};

use super::Server;
use super::errand::Task;
use crate::wire::NAME;
use crate::{cgroup, procfs};

/// How long groups of forgotten children wait for company before a helper removes them.
const SOON: Duration = Duration::from_millis(500);
/// When groups that somebody was still in are tried again.
const LATER: Duration = Duration::from_secs(30);
/// Groups that are held open for the next children: as many as end at once where many are started.
const OPEN_MAX: usize = 16;

/// A group that is held open.
pub(super) struct Group {
    pub(super) number: u32,
    /// Its folder: a child is born into it by this descriptor.
    pub(super) folder: OwnedFd,
    /// What the system says of who is in it.
    events: OwnedFd,
}

impl Group {
    fn open(number: u32, path: &Path) -> Result<Group, Errno> {
        let folder = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let events = openat(&folder, "cgroup.events", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Group { number, folder, events })
    }

    fn is_empty(&self) -> bool {
        let mut text = [0; 64];
        let length = pread(&self.events, &mut text, 0).unwrap_or_default();
        text.get(..length).is_some_and(|text| text.starts_with(b"populated 0"))
    }
}

#[derive(Default)]
pub(super) struct Groups {
    /// The folder of ours; none: no control groups here.
    pub(super) base: Option<PathBuf>,
    /// The number of the newest.
    pub(super) last: u32,
    /// Of children that were forgotten: as many as still have somebody in them, and a few.
    pub(super) spent: Vec<u32>,
    /// Those of them that the next child may be born into.
    pub(super) again: Vec<u32>,
    /// One of them that was seen to be empty.
    pub(super) ready: Option<Group>,
    /// Of children, alive or forgotten: whoever comes next may need one of them.
    pub(super) open: Vec<Group>,
    /// Of children whose tree somebody was sent to end: whoever came into such a group later would be ended too.
    pub(super) aimed: Vec<u32>,
    pub(super) due: Option<Instant>,
}

impl Groups {
    /// Finds out whether there can be groups. Before the first child.
    pub(super) fn begin() -> Groups {
        let Ok(home) = cgroup::home_of(std::process::id()) else {
            return Groups::default();
        };
        clear_up_after_others(&home);
        let base = home.join(format!("{}{}", cgroup::PREFIX, std::process::id()));
        // Out of the group of a child of another keeper: its end is not ours. Elsewhere we are there already.
        let inside = std::fs::read_to_string("/proc/self/cgroup").is_ok_and(|text| text.contains(cgroup::PREFIX));
        let settled = !inside || std::fs::write(home.join("cgroup.procs"), "0").is_ok();
        let made = settled && DirBuilder::new().mode(0o700).create(&base).is_ok();
        Groups { base: made.then_some(base), ..Groups::default() }
    }

    /// A group for a child, who is born into it next; to be given back by [`Groups::born`].
    pub(super) fn make(&mut self) -> Option<Group> {
        self.base.as_ref()?;
        self.look_ahead();
        if let Some(group) = self.ready.take() {
            self.spent.retain(|spent| *spent != group.number);
            return Some(group);
        }
        self.last = self.last.wrapping_add(1);
        let path = self.path(Some(self.last))?;
        // Also the folder around it, should somebody have tidied that away.
        DirBuilder::new().mode(0o700).recursive(true).create(&path).ok()?;
        let made = Group::open(self.last, &path);
        if made.is_err() {
            self.release(Some(self.last));
        }
        made.ok()
    }

    /// A child is in it. Whoever was born last mostly ends first, so that the oldest is let go.
    pub(super) fn born(&mut self, group: Group) {
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(group);
    }

    /// Finds the group of the next child among those of children that were forgotten: making and removing one costs as much as
    /// a birth. Nobody comes into an empty one, so it is looked at while nobody waits for it.
    pub(super) fn look_ahead(&mut self) {
        if self.ready.is_none()
            && let Some(number) = self.again.pop()
        {
            let held = self.open.iter().position(|group| group.number == number).map(|at| self.open.remove(at));
            let group = held.or_else(|| Group::open(number, &self.path(Some(number))?).ok());
            self.ready = group.filter(Group::is_empty);
        }
    }

    /// Somebody is sent to end the tree of the child in this group.
    pub(super) fn aim(&mut self, number: Option<u32>) {
        self.aimed.extend(number.filter(|number| !self.aimed.contains(number)));
    }

    pub(super) fn path(&self, number: Option<u32>) -> Option<PathBuf> {
        Some(self.base.as_ref()?.join(format!("c{}", number?)))
    }

    /// Its child was forgotten.
    pub(super) fn release(&mut self, number: Option<u32>) {
        if let Some(number) = number {
            self.spent.push(number);
            match self.aimed.iter().position(|aimed| *aimed == number) {
                Some(at) => drop(self.aimed.swap_remove(at)),
                None => self.again.push(number),
            }
            let soon = Instant::now() + SOON;
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
    }

    /// Somebody is in these.
    pub(super) fn keep(&mut self, busy: Vec<u32>) {
        self.spent.extend(busy);
        if !self.spent.is_empty() {
            self.due.get_or_insert(Instant::now() + LATER);
        }
    }

    /// The keeper ends. What is still in use is cleared up by another one, some day.
    pub(super) fn end(&self) {
        if let Some(base) = &self.base {
            cgroup::remove(base);
        }
    }
}

/// A keeper lives under this number.
fn is_keeper(pid: u32) -> bool {
    procfs::stat(pid).is_ok_and(|stat| !stat.is_zombie() && stat.name == NAME)
}

/// Removes what keepers left that are no more.
fn clear_up_after_others(home: &Path) {
    for group in cgroup::below(home) {
        let name = group.file_name().unwrap_or_default().to_string_lossy();
        if let Some(pid) = name.strip_prefix(cgroup::PREFIX)
            && !pid.parse().is_ok_and(is_keeper)
        {
            cgroup::remove(&group);
        }
    }
}

impl Server {
    /// Sends a helper to remove spent groups, if it is time.
    pub(super) fn tidy(&mut self, now: Instant) {
        if self.groups.due.is_none_or(|due| due > now) {
            return;
        }
        self.groups.due = None;
        self.groups.again.clear();
        (self.groups.ready, self.groups.open) = (None, Vec::new());
        let spent = std::mem::take(&mut self.groups.spent);
        let paths: Vec<(u32, PathBuf)> =
            spent.iter().filter_map(|number| Some((*number, self.groups.path(Some(*number))?))).collect();
        self.send_errand(Task::Tidy(spent), || {
            let busy = paths.iter().filter(|(_, path)| !cgroup::remove(path)).map(|(number, _)| *number);
            serde_json::to_vec(&busy.collect::<Vec<u32>>()).unwrap_or_default()
        });
    }

    /// The helper's answer: the groups that somebody is in. No answer: all of them, for all we know.
    pub(super) fn tidied(&mut self, spent: Vec<u32>, text: &[u8]) {
        self.groups.keep(serde_json::from_slice(text).unwrap_or(spent));
    }
}
