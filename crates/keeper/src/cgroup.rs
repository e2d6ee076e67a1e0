//! Control groups, version 2: where ours is, and whether we may make groups below it. A process leaves its group, its
//! session, its parents and its environment behind by usual calls, but its control group only by asking the kernel for another of its user's.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// How every keeper's own folder of groups begins; its pid follows.
pub(crate) const PREFIX: &str = "ostler-keeper-";

/// What a child's descendants are known by when its whole tree is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Custody {
    /// Each child is in a control group of its own, below this one, with all that it starts.
    Groups(PathBuf),
    /// By descent, group, session and a variable in their environment. Why there are no control groups.
    Cookies(String),
}

/// What a keeper in the control group of process `pid` can do.
pub fn custody_of(pid: u32) -> Custody {
    match home_of(pid) {
        Ok(home) => Custody::Groups(home),
        Err(why) => Custody::Cookies(why),
    }
}

/// The control group in which a keeper that is started by `pid` makes its own, if it may.
pub(crate) fn home_of(pid: u32) -> Result<PathBuf, String> {
    let read = |path: String| std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"));
    let (groups, mounts) = (read(format!("/proc/{pid}/cgroup"))?, read("/proc/self/mountinfo".into())?);
    let place = place(&groups, &mounts).ok_or("no control groups of version 2 are mounted")?;
    let home = outside(&place);
    for path in [home.clone(), home.join("cgroup.procs")] {
        access(&path, Access::WRITE_OK).map_err(|_| format!("{} is not delegated to this user", home.display()))?;
    }
    Ok(home)
}

/// The folder of a process's group.
fn place(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        let mut fields = head.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        tail.starts_with("cgroup2 ").then(|| Path::new(point).join(below))
    })
}

/// A keeper that a hosted child started is nobody's descendant: its groups are beside those of the outer keeper.
fn outside(place: &Path) -> PathBuf {
    let is_ours = |part: &std::path::Component<'_>| part.as_os_str().to_string_lossy().starts_with(PREFIX);
    place.components().take_while(|part| !is_ours(part)).collect()
}

/// The group that a keeper made for the child `pid`, whichever keeper that was.
pub fn group_of(pid: u32) -> Option<PathBuf> {
    let read = |path: String| std::fs::read_to_string(path).ok();
    made_for_child(&place(&read(format!("/proc/{pid}/cgroup"))?, &read("/proc/self/mountinfo".into())?)?)
}

/// A keeper's folder, and the one below it: what the child made for itself goes with that.
fn made_for_child(place: &Path) -> Option<PathBuf> {
    let below = place.strip_prefix(outside(place)).ok()?;
    let mut parts = below.components();
    Some(outside(place).join(parts.next()?).join(parts.next()?))
}

/// Ends everything in a group and below it, whatever it does meanwhile.
pub(crate) fn kill(group: &Path) {
    // A kernel before 5.14 can not; the members are then killed one by one.
    let _ = std::fs::write(group.join("cgroup.kill"), "1");
}

/// The processes in a group and below it.
pub(crate) fn members(group: &Path) -> Vec<u32> {
    let mut members = Vec::new();
    let mut waiting = vec![group.to_owned()];
    while let Some(group) = waiting.pop() {
        let procs = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        members.extend(procs.lines().filter_map(|line| line.parse::<u32>().ok()));
        waiting.extend(below(&group));
    }
    members
}

/// Removes a group and those that its members made below it. `false`: somebody is in it.
pub(crate) fn remove(group: &Path) -> bool {
    for group in below(group) {
        remove(&group);
    }
    !matches!(std::fs::remove_dir(group), Err(error) if error.kind() != std::io::ErrorKind::NotFound)
}

/// Groups directly below.
pub(crate) fn below(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - tmpfs tmpfs rw
41 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn the_folder_of_a_group_is_found_in_a_hybrid_and_in_a_container() {
        let groups = "4:memory:/x\n0::/user.slice/a.scope\n";
        let found = place(groups, MOUNTS);
        assert_eq!(found.unwrap(), Path::new("/sys/fs/cgroup/unified/user.slice/a.scope"));
        let mounts = "41 30 0:37 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(place(groups, mounts).unwrap(), Path::new("/sys/fs/cgroup/a.scope"));
        assert_eq!(place("4:memory:/x\n", MOUNTS), None);
        assert_eq!(place(groups, ""), None);
    }

    #[test]
    fn a_keeper_inside_a_hosted_child_makes_its_groups_beside_the_outer_ones() {
        let inner = Path::new("/cg/a.scope/ostler-keeper-7/c3/ostler-keeper-9/c1");
        assert_eq!(outside(inner), Path::new("/cg/a.scope"));
        assert_eq!(outside(Path::new("/cg/a.scope")), Path::new("/cg/a.scope"));
    }

    #[test]
    fn a_childs_group_is_the_one_that_its_keeper_made() {
        let found = |path: &str| made_for_child(Path::new(path));
        assert_eq!(found("/cg/a.scope/ostler-keeper-7/c3"), Some("/cg/a.scope/ostler-keeper-7/c3".into()));
        assert_eq!(found("/cg/a.scope/ostler-keeper-7/c3/own/deep"), Some("/cg/a.scope/ostler-keeper-7/c3".into()));
        assert_eq!(found("/cg/a.scope/ostler-keeper-7"), None);
        assert_eq!(found("/cg/a.scope"), None);
    }
}
