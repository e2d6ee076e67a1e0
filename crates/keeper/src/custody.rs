//! Finding the processes that belong to a child although they left its group: by the cookie in
//! their environment, by descent, by session. Reading another process's environment can block, so
//! all of this runs in a short-lived helper and never in the poll loop.
//!
//! Where the keeper may make control groups, a child's group tells more than all of these: nobody leaves it. Elsewhere
//! what escapes (a daemon that cleared its environment and lost its parent) is listed; a set-uid descendant always is.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};
use rustix::stdio::stdin;
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::procfs::{self, Stat, Variable};
use crate::shield;
use crate::spec::Stray;
use crate::sys;

/// The variable that names the child a process belongs to.
pub const COOKIE: &str = "OSTLER_PROCESS";
/// How long killed processes that sleep uninterruptibly are watched before they count as left.
const GRACE: Duration = Duration::from_secs(2);
/// The same for those that only wait for a processor to die on.
const LONG_GRACE: Duration = Duration::from_secs(8);
/// Most survivors named in one answer: it has to fit into a message.
const LEFT_MAX: usize = 32;

/// A child whose tree is to be signalled.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The request that waits.
    pub(crate) id: u64,
    pub(crate) key: String,
    pub(crate) pid: u32,
    /// While a process with this pid and start time exists, the pid, group and session of that
    /// number are the child's own.
    pub(crate) start_ticks: u64,
    /// Only members of its former group.
    pub(crate) group_only: bool,
    pub(crate) signal: i32,
    /// Its control group, where there are any.
    pub(crate) group: Option<PathBuf>,
}

/// What became of a target.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) key: String,
    pub(crate) strays: u32,
    pub(crate) left: Vec<Stray>,
}

struct Process {
    pid: u32,
    stat: Stat,
    cookie: Option<String>,
}

impl Process {
    fn name(&self) -> Name {
        (self.pid, self.stat.start_ticks)
    }
}

/// A process for all time: its pid and when it started.
type Name = (u32, u64);

/// Cookies already found: a process that carries one keeps it.
type Seen = HashMap<Name, String>;

/// Signals all that belongs to the targets. For SIGKILL, goes on until nothing new appears and
/// everything is gone, or the grace is over.
pub(crate) fn hunt(targets: &[Target], keeper: u32) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> =
        targets.iter().map(|target| Outcome { key: target.key.clone(), ..Outcome::default() }).collect();
    let mut seen = Seen::new();
    let mut known = HashMap::new();
    let mut reached = HashSet::new();
    let mut denied = HashMap::new();
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let deadly = targets.iter().any(|target| target.signal == libc::SIGKILL);
    let mut round = 0;
    loop {
        let mut alive = false;
        let mut dying = false;
        let mut news = false;
        for outcome in &mut outcomes {
            outcome.left.clear();
        }
        let processes = scan(&mut seen);
        remember_members(targets, &processes, &mut known);
        for owned in owned(&processes, targets, keeper, &mut known) {
            let process = owned.process;
            let (Some(target), Some(outcome)) = (targets.get(owned.target), outcomes.get_mut(owned.target)) else {
                continue;
            };
            // The keeper signalled the whole group itself, or stopped it to be killed here: while
            // it lives, its descendants are known by descent.
            if owned.in_group && target.signal != libc::SIGKILL {
                continue;
            }
            let name = process.name();
            if reached.insert(name) {
                news = true;
                match signal(process, target.signal) {
                    Ok(()) => outcome.strays += u32::from(!owned.in_group),
                    Err(Errno::SRCH) => continue,
                    Err(errno) => drop(denied.insert(name, errno)),
                }
            }
            let why = match denied.get(&name) {
                Some(errno) => std::io::Error::from(*errno).to_string(),
                None if target.signal == libc::SIGKILL => {
                    alive = true;
                    dying |= process.stat.state != b'D';
                    format!("killed, but still there (state {})", char::from(process.stat.state))
                }
                None => continue,
            };
            if outcome.left.len() < LEFT_MAX {
                outcome.left.push(stray(process, Some(target.key.clone()), why));
            }
        }
        // After the members that were seen, so that those are counted; whatever was born meanwhile goes with the group.
        let doomed = targets.iter().filter(|target| target.signal == libc::SIGKILL);
        doomed.filter_map(|target| target.group.as_deref()).for_each(cgroup::kill);
        round += 1;
        let finished = if deadly { !alive && !news } else { round > 1 };
        let grace = if dying { LONG_GRACE } else { GRACE };
        if finished || start.elapsed() > grace {
            return outcomes;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Processes of ours outside every child's group: descendants of the keeper, and owners of a
/// cookie it knows. `children` are the known pids and keys; `helpers` are the keeper's own processes
/// and the daemon, whose descendants are nobody's strays.
pub(crate) fn survey(children: &HashMap<u32, String>, helpers: &[u32], keeper: u32) -> Vec<Stray> {
    let processes = scan(&mut Seen::new());
    let keys: HashSet<&str> = children.values().map(String::as_str).collect();
    let mut below: HashSet<u32> = HashSet::from([keeper]);
    spread(&processes, |process| {
        let own = helpers.contains(&process.pid);
        !own && below.contains(&process.stat.parent) && below.insert(process.pid)
    });
    let known = |process: &&Process| {
        let ours = below.contains(&process.pid) || process.cookie.as_deref().is_some_and(|key| keys.contains(key));
        ours && process.pid != keeper
            && process.pid != std::process::id()
            && !helpers.contains(&process.pid)
            && !children.contains_key(&process.stat.group)
            && !process.stat.is_zombie()
    };
    processes
        .iter()
        .filter(known)
        .take(LEFT_MAX * 8)
        .map(|process| stray(process, process.cookie.clone(), String::new()))
        .collect()
}

/// The first byte of what [`carried`] says: a helper that was killed has said nothing, which is not the same as no cookie.
pub(crate) const LOOKED: u8 = b'=';

/// The cookie of this process, or of the nearest ancestor that has one; nothing behind the first byte if none has. What the
/// process has `shown` of its environment is our stdin: who hides that and shows nothing is not let in.
pub(crate) fn carried(pid: u32, shown: bool) -> String {
    for step in procfs::lineage(pid) {
        // Whom it descends from could not be found out, which is not the same as no cookie.
        let Ok((current, stat)) = step else { return String::new() };
        let found = match procfs::variable(current, COOKIE) {
            Variable::Hidden if current == pid && procfs::user(pid) == Some(geteuid().as_raw()) => {
                shown.then(|| shield::shown(stdin(), pid, COOKIE)).flatten().unwrap_or(Variable::NotYet)
            }
            found => found,
        };
        match found {
            Variable::Is(value) => return format!("{}{}", char::from(LOOKED), String::from_utf8_lossy(&value)),
            // It could not be looked at, which is not the same either.
            Variable::NotYet => return String::new(),
            Variable::Hidden if !is_still(current, &stat) => return String::new(),
            Variable::Unset | Variable::Hidden => {}
        }
    }
    char::from(LOOKED).into()
}

/// Whether a process is there, and is the one that was looked at.
fn is_still(pid: u32, seen: &Stat) -> bool {
    procfs::stat(pid).is_ok_and(|now| now.start_ticks == seen.start_ticks)
}

/// How long a tool has between TERM and KILL.
const TOOL_GRACE: Duration = Duration::from_secs(1);

/// Ends what the living child `key` (its pid and start time) has started since `ticks`, and waits for it; gives how many.
/// What it started before, it still needs. Reads the whole of `/proc`, and may wait.
pub fn end_younger(key: &str, (pid, start_ticks): Name, ticks: u64) -> usize {
    let target =
        Target { id: 0, key: key.to_owned(), pid, start_ticks, group_only: false, signal: libc::SIGTERM, group: None };
    let (mut seen, mut known, mut met) = (Seen::new(), HashMap::new(), HashSet::new());
    let start = Instant::now();
    loop {
        let processes = scan(&mut seen);
        let young = owned(&processes, std::slice::from_ref(&target), 0, &mut known);
        let young = young.iter().filter(|found| found.process.pid != pid && found.process.stat.start_ticks >= ticks);
        let deadly = start.elapsed() >= TOOL_GRACE;
        let mut left = 0;
        for found in young {
            left += 1;
            let news = met.insert(found.process.name());
            if news || deadly {
                let _ = signal(found.process, if deadly { libc::SIGKILL } else { libc::SIGTERM });
            }
        }
        if left == 0 || start.elapsed() > TOOL_GRACE + GRACE {
            return met.len();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A child of a keeper that is gone, as far as anybody wrote it down.
#[derive(Clone, Debug, Default)]
pub struct Orphan {
    /// Its key.
    pub key: String,
    /// Its process id; 0 where that was never heard.
    pub pid: u32,
    /// Its start time; 0 where it is not known, or is of another boot of the machine.
    pub start_ticks: u64,
}

/// Finds which of these children live, by pid and start time or by their cookie; gives pid and start time of each, by key.
/// Reads the whole of `/proc`, and may wait.
pub fn find(orphans: &[Orphan]) -> HashMap<String, (u32, u64)> {
    if orphans.is_empty() { HashMap::new() } else { living(orphans, &scan(&mut Seen::new())) }
}

fn living(orphans: &[Orphan], processes: &[Process]) -> HashMap<String, (u32, u64)> {
    let alive: HashMap<u32, &Process> =
        processes.iter().filter(|process| !process.stat.is_zombie()).map(|process| (process.pid, process)).collect();
    let marked = |process: &Process, orphan: &Orphan| process.cookie.as_deref() == Some(&orphan.key);
    let find = |orphan: &Orphan| match (orphan.pid, orphan.start_ticks) {
        // It led a group, and was the first to carry its cookie.
        (0, _) => alive
            .values()
            .filter(|process| marked(process, orphan) && process.stat.group == process.pid)
            .min_by_key(|process| (process.stat.start_ticks, process.pid))
            .map(|process| process.name()),
        (pid, 0) => alive.get(&pid).filter(|process| marked(process, orphan)).map(|process| process.name()),
        (pid, ticks) => alive.get(&pid).filter(|process| process.stat.start_ticks == ticks).map(|found| found.name()),
    };
    orphans.iter().filter_map(|orphan| Some((orphan.key.clone(), find(orphan)?))).collect()
}

fn stray(process: &Process, key: Option<String>, why: String) -> Stray {
    Stray { key, pid: process.pid, name: process.stat.name.clone(), why }
}

/// Calls `visit` for every process until a pass changes nothing.
fn spread<'a>(processes: &'a [Process], mut visit: impl FnMut(&'a Process) -> bool) {
    let mut changed = true;
    while changed {
        changed = processes.iter().filter(|process| visit(process)).count() > 0;
    }
}

/// A living process and the target it belongs to.
struct Owned<'a> {
    process: &'a Process,
    target: usize,
    /// It is in the group that the child leads.
    in_group: bool,
}

/// Members of a target's control group belong to it, whatever else is said of them.
fn remember_members(targets: &[Target], processes: &[Process], known: &mut HashMap<Name, usize>) {
    for (index, target) in targets.iter().enumerate() {
        let members: HashSet<u32> = target.group.as_deref().map(cgroup::members).into_iter().flatten().collect();
        let found = processes.iter().filter(|process| members.contains(&process.pid));
        known.extend(found.map(|process| (process.name(), index)));
    }
}

/// Finds whom each process belongs to. What was `known` to belong to somebody still does when its
/// parent is gone.
fn owned<'a>(
    processes: &'a [Process],
    targets: &[Target],
    keeper: u32,
    known: &mut HashMap<Name, usize>,
) -> Vec<Owned<'a>> {
    let present: HashSet<Name> = processes.iter().map(Process::name).collect();
    let by_key: HashMap<&str, (usize, &Target)> =
        targets.iter().enumerate().map(|(index, target)| (target.key.as_str(), (index, target))).collect();
    let by_pid: HashMap<u32, usize> = targets
        .iter()
        .enumerate()
        .filter(|(_, target)| present.contains(&(target.pid, target.start_ticks)))
        .filter(|(_, target)| !target.group_only)
        .map(|(index, target)| (target.pid, index))
        .collect();
    let mut owners: HashMap<u32, usize> = HashMap::new();
    for process in processes {
        let stat = &process.stat;
        let carried = process.cookie.as_deref().and_then(|key| by_key.get(key));
        let carried =
            carried.filter(|(_, target)| !target.group_only || stat.group == target.pid).map(|(index, _)| *index);
        let owner = carried
            .or_else(|| by_pid.get(&process.pid).copied())
            .or_else(|| by_pid.get(&stat.group).copied())
            .or_else(|| by_pid.get(&stat.session).copied())
            .or_else(|| known.get(&process.name()).copied());
        if let Some(owner) = owner {
            owners.insert(process.pid, owner);
        }
    }
    spread(processes, |process| {
        if owners.contains_key(&process.pid) {
            return false;
        }
        let heir = owners.get(&process.stat.parent).copied();
        let heir = heir.filter(|index| targets.get(*index).is_some_and(|target| !target.group_only));
        heir.is_some_and(|index| owners.insert(process.pid, index).is_none())
    });
    let spared = [keeper, std::process::id(), 1];
    processes
        .iter()
        .filter(|process| !process.stat.is_zombie() && !spared.contains(&process.pid))
        .filter_map(|process| {
            let target = *owners.get(&process.pid)?;
            known.insert(process.name(), target);
            Some(Owned { process, target, in_group: by_pid.get(&process.stat.group) == Some(&target) })
        })
        .collect()
}

/// Signals exactly this process: the descriptor is opened first, then it is checked to be the one
/// that was seen.
fn signal(process: &Process, signal: i32) -> Result<(), Errno> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let fd = pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    if procfs::stat(process.pid)?.start_ticks != process.stat.start_ticks {
        return Err(Errno::SRCH);
    }
    sys::pidfd_signal(&fd, signal, false)
}

fn scan(seen: &mut Seen) -> Vec<Process> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return found;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = procfs::stat(pid) else {
            continue;
        };
        let name = (pid, stat.start_ticks);
        let cookie = seen.get(&name).cloned().or_else(|| cookie(pid));
        if let Some(cookie) = &cookie {
            seen.insert(name, cookie.clone());
        }
        found.push(Process { pid, stat, cookie });
    }
    found
}

fn cookie(pid: u32) -> Option<String> {
    match procfs::variable(pid, COOKIE) {
        Variable::Is(value) => String::from_utf8(value).ok(),
        Variable::Unset | Variable::NotYet | Variable::Hidden => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, group: u32, cookie: Option<&str>) -> Process {
        Process { pid, stat: Stat::fake(parent, group), cookie: cookie.map(str::to_owned) }
    }

    fn target(key: &str, pid: u32) -> Target {
        Target { id: 1, key: key.into(), pid, start_ticks: 1, group_only: false, signal: libc::SIGKILL, group: None }
    }

    fn pids(processes: &[Process], target: Target) -> Vec<u32> {
        let found = owned(processes, &[target], 10, &mut HashMap::new());
        found.iter().map(|owned| owned.process.pid).collect()
    }

    #[test]
    fn a_tree_is_the_group_the_descendants_and_the_cookie() {
        let processes = [
            process(10, 1, 10, None),
            process(20, 10, 20, Some("k")),
            process(21, 20, 20, None),
            process(22, 21, 22, None),
            process(23, 22, 22, None),
            process(30, 10, 30, Some("k")),
            process(40, 10, 40, Some("other")),
            process(41, 40, 40, None),
        ];
        assert_eq!(pids(&processes, target("k", 20)), [20, 21, 22, 23, 30]);
    }

    #[test]
    fn an_orphan_is_remembered_from_before() {
        let targets = [target("k", 20)];
        let mut known = HashMap::new();
        let before = [process(20, 10, 20, Some("k")), process(21, 20, 21, None)];
        assert_eq!(owned(&before, &targets, 10, &mut known).len(), 2);
        let after = [process(21, 10, 21, None), process(22, 21, 22, None)];
        assert_eq!(owned(&after, &targets, 10, &mut known).len(), 2);
    }

    #[test]
    fn a_reaped_childs_numbers_mean_nothing() {
        let processes = [process(20, 1, 20, None), process(21, 20, 20, None), process(30, 10, 30, Some("k"))];
        let mut gone = target("k", 20);
        gone.start_ticks = 0;
        assert_eq!(pids(&processes, gone), [30]);
    }

    #[test]
    fn the_group_of_a_reaped_child_is_known_by_cookie_and_number() {
        let processes = [process(21, 1, 20, Some("k")), process(22, 21, 22, Some("k")), process(23, 1, 20, None)];
        let mut gone = target("k", 20);
        gone.start_ticks = 0;
        gone.group_only = true;
        assert_eq!(pids(&processes, gone), [21]);
    }

    #[test]
    fn an_orphan_is_found_by_its_numbers_or_its_cookie_and_nobody_else_is() {
        let processes = [
            process(20, 1, 20, None),
            process(21, 20, 20, Some("b")),
            process(30, 1, 30, Some("b")),
            process(40, 1, 40, Some("c")),
        ];
        let found = |key: &str, pid, start_ticks| {
            living(&[Orphan { key: key.into(), pid, start_ticks }], &processes).remove(key)
        };
        assert_eq!(found("a", 20, 1), Some((20, 1)), "it cleared its environment");
        assert_eq!(found("a", 20, 2), None, "another process has its number");
        assert_eq!(found("a", 20, 0), None, "the number alone says nothing");
        assert_eq!(found("b", 0, 0), Some((30, 1)), "not the one in somebody's group");
        assert_eq!(found("c", 40, 0), Some((40, 1)));
        assert_eq!(found("c", 41, 0), None, "a descendant that lives on is not the child");
    }

    #[test]
    fn the_keeper_and_init_are_never_hit() {
        let processes = [process(1, 0, 1, Some("k")), process(10, 1, 10, Some("k"))];
        assert!(pids(&processes, target("k", 20)).is_empty());
    }
}
