//! What a program cannot hand over, so that it must be the same at both ends: what it sees of the system, its groups, and the
//! settings by which sessions go; and its limits, which its children are given as long as a keeper can: none is raised. The kernel
//! knows who connects; this is what an honest program says of itself.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ostler_engine::SessionConfig;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

const NAMESPACES: [&str; 8] = ["mnt", "pid", "user", "net", "ipc", "uts", "cgroup", "time"];

/// All but that of descriptors, which a daemon raises for itself: name, kind, and the kernel's number.
const LIMITS: [(&str, Resource, u32); 15] = [
    ("address space", Resource::As, 9),
    ("core", Resource::Core, 4),
    ("cpu", Resource::Cpu, 0),
    ("data", Resource::Data, 2),
    ("file size", Resource::Fsize, 1),
    ("locks", Resource::Locks, 10),
    ("locked memory", Resource::Memlock, 8),
    ("message queue", Resource::Msgqueue, 12),
    ("nice", Resource::Nice, 13),
    ("processes", Resource::Nproc, 6),
    ("resident memory", Resource::Rss, 5),
    ("real-time priority", Resource::Rtprio, 14),
    ("real-time", Resource::Rttime, 15),
    ("signals", Resource::Sigpending, 11),
    ("stack", Resource::Stack, 3),
];

/// Soft and hard; nothing where there is none.
type Limit = (Option<u64>, Option<u64>);

/// Where a process stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Surroundings {
    /// By what the kernel calls them.
    namespaces: Vec<String>,
    /// Device and number of the root folder.
    root: (u64, u64),
    groups: Vec<u32>,
    /// Soft and hard; nothing where there is none.
    limits: Vec<Limit>,
    /// The most descriptors that a child can be given.
    descriptors: Option<u64>,
    /// How sessions behave, in words that both ends find alike; nothing of a program that has none.
    sessions: Option<String>,
}

impl Surroundings {
    pub(super) fn of_this_process(sessions: Option<&SessionConfig>) -> Self {
        let namespace = |name: &str| {
            let link = std::fs::read_link(Path::new("/proc/self/ns").join(name));
            link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut groups: Vec<u32> =
            rustix::process::getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect();
        groups.push(rustix::process::getegid().as_raw());
        groups.sort_unstable();
        groups.dedup();
        let limit = |resource| {
            let limit = getrlimit(resource);
            (limit.current, limit.maximum)
        };
        Self {
            namespaces: NAMESPACES.map(namespace).to_vec(),
            root: std::fs::metadata("/").map(|root| (root.dev(), root.ino())).unwrap_or_default(),
            groups,
            limits: LIMITS.map(|(_, resource, _)| limit(resource)).to_vec(),
            descriptors: limit(Resource::Nofile).1,
            sessions: sessions.map(|sessions| format!("{sessions:?}")),
        }
    }

    /// Why a program that stands like this can not live with a daemon that stands like `other`.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        let mut namespaces = NAMESPACES.iter().zip(self.namespaces.iter().zip(&other.namespaces));
        if let Some((name, _)) = namespaces.find(|(_, (ours, theirs))| ours != theirs) {
            return Some(format!("another {name} namespace"));
        }
        if self.root != other.root {
            return Some("another root folder".to_owned());
        }
        if self.groups != other.groups {
            return Some("other groups".to_owned());
        }
        let above = |ours: Option<u64>, theirs: Option<u64>| ours.unwrap_or(u64::MAX) > theirs.unwrap_or(u64::MAX);
        let mut limits = LIMITS.iter().zip(self.limits.iter().zip(&other.limits));
        if let Some(((name, ..), _)) = limits.find(|(_, (ours, theirs))| above(ours.1, theirs.1)) {
            return Some(format!("a higher limit of {name}"));
        }
        if above(self.descriptors, other.descriptors) {
            return Some("a higher limit of descriptors".to_owned());
        }
        (self.sessions.is_some() && self.sessions != other.sessions)
            .then(|| "other settings of sessions than ostler was started with".to_owned())
    }

    /// What the children of a program that stands like this must be given by a daemon that stands like `other`: number, soft and
    /// hard of each limit that is not the daemon's.
    pub(super) fn own_limits(&self, other: &Self) -> Vec<(u32, u64, u64)> {
        let limits = LIMITS.iter().zip(self.limits.iter().zip(&other.limits));
        let own = limits.filter(|(_, (ours, theirs))| ours != theirs);
        let given = |((_, _, number), ((soft, hard), _)): (&(&str, Resource, u32), (&Limit, &Limit))| {
            (*number, soft.unwrap_or(u64::MAX), hard.unwrap_or(u64::MAX))
        };
        own.map(given).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_lower_limits_are_handed_over() {
        let here = Surroundings::of_this_process(Some(&SessionConfig::default()));
        assert_eq!(here.differs(&here.clone()), None);
        assert!(here.namespaces.iter().take(4).all(|name| !name.is_empty()), "{here:?}");
        let mut other = here.clone();
        other.namespaces[3] = "net:[1]".to_owned();
        assert_eq!(other.differs(&here).unwrap(), "another net namespace");
        let mut other = here.clone();
        other.limits[14] = (Some(1), Some(2));
        assert_eq!(other.differs(&here), None);
        assert_eq!((other.own_limits(&here), here.own_limits(&here)), (vec![(3, 1, 2)], vec![]));
        assert_eq!(here.differs(&other).unwrap(), "a higher limit of stack");
        let mut other = here.clone();
        other.descriptors = Some(16);
        assert_eq!(other.differs(&here), None);
        assert!(here.differs(&other).is_some());
        let sessions = SessionConfig { oneshot: true, ..SessionConfig::default() };
        assert!(Surroundings::of_this_process(Some(&sessions)).differs(&here).unwrap().contains("settings"));
    }
}
