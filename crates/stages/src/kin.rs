//! Whoever the stages started. What sudo ends is its command alone: that command's children belong to root, live on without
//! it, and have to be known before their parent is gone.

use std::collections::HashSet;

use rustix::process::Pid;

use crate::child::Child;

/// A process for all time: its pid and when it started.
type Name = (i32, u64);

/// What `/proc` says of a process.
struct Seen {
    name: Name,
    parent: i32,
    group: i32,
}

/// Everybody who is known to belong to a stage, stage by stage.
pub(crate) struct Kin(Vec<HashSet<Name>>);

impl Kin {
    pub(crate) fn of(stages: usize) -> Self {
        Self(vec![HashSet::new(); stages])
    }

    /// Looks who is there now. To be called before each signal: afterwards a child may have no parent that tells whose it is.
    pub(crate) fn look(&mut self, children: &[Child]) {
        let seen = everybody();
        for (kin, child) in self.0.iter_mut().zip(children) {
            descend(kin, &seen, child.pid());
        }
        // Whoever shares a group with a stage is of that stage, or of one of those that have the same group.
        let known: HashSet<Name> = self.0.iter().flatten().copied().collect();
        for (kin, child) in self.0.iter_mut().zip(children) {
            let group = child.group().as_raw_nonzero().get();
            kin.extend(
                seen.iter().filter(|seen| seen.group == group && !known.contains(&seen.name)).map(|seen| seen.name),
            );
        }
    }

    /// The stages of which somebody lives.
    pub(crate) fn living(&self) -> Vec<usize> {
        let alive: HashSet<Name> = everybody().into_iter().map(|seen| seen.name).collect();
        let lives = |(index, kin): (usize, &HashSet<Name>)| (!kin.is_disjoint(&alive)).then_some(index);
        self.0.iter().enumerate().filter_map(lives).collect()
    }
}

/// Adds `stage` and everybody below it or below those who are known.
fn descend(kin: &mut HashSet<Name>, seen: &[Seen], stage: Pid) {
    let stage = stage.as_raw_nonzero().get();
    loop {
        let parents: HashSet<i32> =
            seen.iter().filter(|seen| kin.contains(&seen.name)).map(|seen| seen.name.0).chain([stage]).collect();
        let before = kin.len();
        kin.extend(
            seen.iter().filter(|seen| seen.name.0 == stage || parents.contains(&seen.parent)).map(|seen| seen.name),
        );
        if kin.len() == before {
            return;
        }
    }
}

/// Every process that has not ended.
fn everybody() -> Vec<Seen> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Its name is between brackets and may hold anything, brackets too.
fn parse(pid: i32, stat: &[u8]) -> Option<Seen> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let mut fields = std::str::from_utf8(stat.get(after..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let started = fields.nth(16)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Seen { name: (pid, started), parent, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let stat = b"7 (a) S 1 (b)) S 5 6 6 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1\n";
        let seen = parse(7, stat).unwrap();
        assert_eq!((seen.name, seen.parent, seen.group), ((7, 4711), 5, 6));
        assert!(parse(7, b"7 (dead) Z 5 6 6 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1").is_none());
        assert!(parse(7, b"7 (cut").is_none());
    }

    #[test]
    fn who_lost_its_parent_since_is_still_known() {
        let seen = |pid, parent| Seen { name: (pid, 1), parent, group: 0 };
        let mut kin = HashSet::new();
        descend(&mut kin, &[seen(3, 2), seen(2, 1), seen(1, 0), seen(9, 0)], Pid::from_raw(1).unwrap());
        assert_eq!(kin, HashSet::from([(1, 1), (2, 1), (3, 1)]));
        descend(&mut kin, &[seen(3, 0), seen(4, 3), seen(9, 0)], Pid::from_raw(1).unwrap());
        assert!(kin.contains(&(4, 1)) && !kin.contains(&(9, 1)));
    }
}
