//! Which process holds a socket of this machine. The kernel's table of connections knows only its user and number, so every
//! process is looked at.
//!
//! Programs that changed their user, an `sshd` that forwards a port above all, show nobody what they hold. A socket that
//! no other process has is one of theirs, if there is such a program; they are told from agents by whom they descend from, like
//! everybody. Nobody else who hides speaks for such a socket: it may be under way between two sockets of an agent's.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ostler_keeper::procfs;

use super::{Caller, is_ours, lineage};

/// A machine on which it takes longer has to wait for a quieter moment.
const LOOK_FOR: Duration = Duration::from_secs(5);

/// How often somebody is looked at who cannot be told.
const LOOKS: usize = 3;

/// Hosted processes that are looked at first: one that comes often is soon found.
const SUSPECTS: usize = 16;

/// A socket, by its number and user.
type Socket = (u64, u32);

/// What a look finds about a socket.
#[derive(Debug, Clone, Default)]
struct Found {
    /// Those who hold it.
    holders: Vec<(u32, Caller)>,
    /// Those who could, because they show nothing: whoever is its user's, or descends from one that is and is not free.
    hidden: Vec<Caller>,
}

/// One look at a time: who asks meanwhile is answered by the next one, with all the others. However many come, the machine's
/// processes are walked by one thread.
#[derive(Default)]
pub(crate) struct Lookout {
    asked: Mutex<Asked>,
    looked: Condvar,
}

#[derive(Default)]
struct Asked {
    waiting: Vec<(Socket, Answer)>,
    is_looking: bool,
    /// Who was found to be hosted, the last one first.
    suspects: VecDeque<u32>,
}

type Answer = Arc<OnceLock<Caller>>;

/// A look that is under way; whatever becomes of it, nobody waits for ever.
struct Round<'a> {
    lookout: &'a Lookout,
    wanted: Vec<(Socket, Answer)>,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        for (_, answer) in &self.wanted {
            let _ = answer.set(Caller::Unknown);
        }
        self.lookout.asked().is_looking = false;
        self.lookout.looked.notify_all();
    }
}

impl Lookout {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who holds the socket with this number, which is `uid`'s. Whoever `is_our_own` hides, and holds no such thing.
    pub(super) fn caller(&self, inode: u64, uid: u32, is_our_own: impl Fn(u32) -> bool) -> Caller {
        self.told((inode, uid), |wanted, among| look(wanted, among, Instant::now() + LOOK_FOR, &is_our_own))
    }

    fn told(&self, socket: Socket, look: impl FnMut(&[Socket], Among<'_>) -> io::Result<Vec<Found>>) -> Caller {
        let (answer, mut asked) = (Answer::default(), self.asked());
        asked.waiting.push((socket, Arc::clone(&answer)));
        while asked.is_looking && answer.get().is_none() {
            asked = self.looked.wait(asked).unwrap_or_else(PoisonError::into_inner);
        }
        if answer.get().is_none() {
            asked.is_looking = true;
            let round = Round { lookout: self, wanted: std::mem::take(&mut asked.waiting) };
            let mut suspects = std::mem::take(&mut asked.suspects);
            drop(asked);
            tell(&round.wanted, &mut suspects, look);
            self.asked().suspects = suspects;
        }
        answer.get().cloned().unwrap_or(Caller::Unknown)
    }
}

/// Whom a look is at.
#[derive(Clone, Copy)]
enum Among<'a> {
    These(&'a VecDeque<u32>),
    Everybody,
}

/// What several looks say. Who cannot be told is looked at again: a parent that ends while descent is walked, or a look that
/// took too long, says nothing about who is there, and on a busy machine both happen.
fn tell(
    wanted: &[(Socket, Answer)],
    suspects: &mut VecDeque<u32>,
    mut look: impl FnMut(&[Socket], Among<'_>) -> io::Result<Vec<Found>>,
) {
    for at in 0..=LOOKS {
        let open: Vec<_> = wanted.iter().filter(|(_, answer)| answer.get().is_none()).collect();
        let sockets: Vec<Socket> = open.iter().map(|(socket, _)| *socket).collect();
        let among = if at == 0 { Among::These(suspects) } else { Among::Everybody };
        if sockets.is_empty() || matches!(among, Among::These(none) if none.is_empty()) {
            continue;
        }
        let found = look(&sockets, among).unwrap_or_default();
        for ((_, answer), Found { holders, hidden }) in open.into_iter().zip(found) {
            // One socket may have several holders, and any of them may have spoken.
            let (pids, callers): (Vec<u32>, Vec<Caller>) = holders.into_iter().unzip();
            match worst(if callers.is_empty() { hidden } else { callers }.into_iter()) {
                Caller::Unknown => {}
                // Nothing that others are would change that.
                told @ Caller::Hosted(_) => {
                    suspects.retain(|pid| !pids.contains(pid));
                    pids.into_iter().for_each(|pid| suspects.push_front(pid));
                    suspects.truncate(SUSPECTS);
                    let _ = answer.set(told);
                }
                told if at > 0 => _ = answer.set(told),
                _ => {}
            }
        }
    }
}

fn worst(all: impl Iterator<Item = Caller>) -> Caller {
    let rank = |caller: &Caller| match caller {
        Caller::Free | Caller::Elsewhere => 0,
        Caller::Unknown => 1,
        Caller::Hosted(_) => 2,
    };
    all.max_by_key(rank).unwrap_or(Caller::Unknown)
}

/// What is found of each of these, in their order.
fn look(
    sockets: &[Socket],
    among: Among<'_>,
    until: Instant,
    is_our_own: impl Fn(u32) -> bool,
) -> io::Result<Vec<Found>> {
    let mut found = vec![Found::default(); sockets.len()];
    let links = sockets.iter().enumerate().map(|(at, (inode, _))| (format!("socket:[{inode}]").into(), at));
    let wanted: HashMap<PathBuf, usize> = links.collect();
    let users: BTreeSet<u32> = sockets.iter().map(|(_, uid)| *uid).collect();
    let pids = match among {
        Among::These(pids) => pids.iter().copied().collect(),
        Among::Everybody => everybody()?,
    };
    for pid in pids {
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut held = BTreeSet::new();
        let shown = hold(pid, &wanted, &mut held);
        let holder = (!held.is_empty()).then(|| Caller::of(pid));
        // Otherwise it ended, or is ours.
        let denied = shown.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) && !is_our_own(pid);
        let hides = denied.then(|| of_hidden(pid));
        let could: Vec<u32> =
            hides.iter().flat_map(|caller| users.iter().copied().filter(|uid| could_hold(pid, *uid, caller))).collect();
        for (at, ((_, uid), Found { holders, hidden })) in sockets.iter().zip(&mut found).enumerate() {
            if held.contains(&at) {
                holders.extend(holder.clone().map(|caller| (pid, caller)));
            } else if let Some(caller) = hides.clone().filter(|_| could.contains(uid)) {
                hidden.push(caller);
            }
        }
    }
    Ok(found)
}

fn everybody() -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.map(|entry| Ok(entry?.file_name().to_str().and_then(|name| name.parse().ok())));
    names.filter_map(Result::transpose).collect()
}

/// Whether a process that shows nothing could hold a socket of this user's.
fn could_hold(pid: u32, uid: u32, caller: &Caller) -> bool {
    match caller {
        Caller::Free => procfs::user(pid) == Some(uid) && (!is_ours(pid) || changed_user(pid)),
        // Other users have agents too.
        _ => pids(pid).any(|pid| procfs::user(pid) == Some(uid)),
    }
}

/// What one is that shows nothing. A keeper is not hosted by itself: it is what whoever started it is.
fn of_hidden(pid: u32) -> Caller {
    match procfs::stat(pid) {
        Ok(stat) if stat.name == ostler_keeper::NAME && stat.parent > 1 => Caller::of(stat.parent),
        Ok(stat) if stat.name == ostler_keeper::NAME => Caller::Free,
        _ => Caller::of(pid),
    }
}

/// Whether another user's program started this one, as `sshd` does: our own that hide, a keeper or a browser's parts, have our
/// programs for parents, or none.
fn changed_user(pid: u32) -> bool {
    let parent = procfs::stat(pid).ok().map(|stat| stat.parent).filter(|parent| *parent > 1);
    parent.is_some_and(|parent| !is_ours(parent))
}

/// Which of the wanted any thread has: threads may have descriptors of their own. Ours have not, and are many when many connect.
fn hold(pid: u32, wanted: &HashMap<PathBuf, usize>, held: &mut BTreeSet<usize>) -> io::Result<()> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if pid == std::process::id() {
        return gather(fs::read_dir(process.join("fd"))?, wanted, held);
    }
    for thread in fs::read_dir(process.join("task"))? {
        let thread = thread?;
        let descriptors = match fs::read_dir(thread.path().join("fd")) {
            // It holds nothing any more, and shows nobody even that; or it is gone, and the others are not.
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_over(&thread.file_name()) => continue,
            shown => shown?,
        };
        gather(descriptors, wanted, held)?;
        if held.len() == wanted.len() {
            break;
        }
    }
    Ok(())
}

fn gather(descriptors: fs::ReadDir, wanted: &HashMap<PathBuf, usize>, held: &mut BTreeSet<usize>) -> io::Result<()> {
    for descriptor in descriptors {
        match fs::read_link(descriptor?.path()) {
            Ok(target) => held.extend(wanted.get(&target)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => {}
        }
    }
    Ok(())
}

pub(super) fn is_over(thread: &OsStr) -> bool {
    let number = thread.to_str().and_then(|name| name.parse().ok());
    number.is_some_and(|number| procfs::stat(number).is_ok_and(|stat| stat.is_zombie()))
}

fn pids(pid: u32) -> impl Iterator<Item = u32> {
    lineage(pid).map_while(|step| step.ok().map(|(pid, _)| pid))
}

/// The user that a process acts as.
pub(super) fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn held_by(pid: u32, caller: Caller) -> Found {
        Found { holders: vec![(pid, caller)], hidden: Vec::new() }
    }

    #[test]
    fn whoever_holds_a_socket_is_found_and_a_socket_of_nobody_is_nobodys() {
        let uid = rustix::process::geteuid().as_raw();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let [one, two] = [0, 1].map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let sockets = [&one, &two].map(|socket| (rustix::fs::fstat(socket.as_fd()).unwrap().st_ino, uid));
        let holders = || {
            let found = look(&sockets, Among::Everybody, Instant::now() + LOOK_FOR, |_| false).unwrap();
            found.into_iter().map(|found| found.holders).collect::<Vec<_>>()
        };
        let us = (std::process::id(), Caller::of(std::process::id()));
        assert_eq!(holders(), [[us.clone()], [us.clone()]]);
        drop(one);
        assert_eq!(holders(), [vec![], vec![us]]);
    }

    #[test]
    fn who_asks_while_somebody_looks_is_answered_by_one_look_with_all_the_others() {
        let (lookout, looks) = (Lookout::default(), AtomicUsize::new(0));
        let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
        let look = |wanted: &[Socket], among: Among<'_>| {
            if matches!(among, Among::These(_)) {
                return Ok(vec![Found::default(); wanted.len()]);
            }
            if looks.fetch_add(1, Ordering::SeqCst) == 0 {
                begun.wait();
                go_on.wait();
            }
            let found = |(inode, _): &Socket| held_by(7, Caller::Hosted(format!("p{inode}")));
            Ok(wanted.iter().map(found).collect())
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| lookout.told((1, 0), look));
            begun.wait();
            let lookout = &lookout;
            let ask = |inode| (inode, scope.spawn(move || lookout.told((inode, 0), look)));
            let asking: Vec<_> = (2..50).map(ask).collect();
            while lookout.asked().waiting.len() < asking.len() {
                std::thread::yield_now();
            }
            go_on.wait();
            assert_eq!(first.join().unwrap(), Caller::Hosted("p1".into()));
            for (inode, asked) in asking {
                assert_eq!(asked.join().unwrap(), Caller::Hosted(format!("p{inode}")));
            }
        });
        assert_eq!(looks.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn one_that_was_found_to_be_hosted_is_looked_at_before_everybody_and_nobody_is_free_by_such_a_look() {
        let (lookout, looks) = (Lookout::default(), AtomicUsize::new(0));
        let ask = |inode, caller: Caller| {
            lookout.told((inode, 0), |_, among| {
                looks.fetch_add(usize::from(matches!(among, Among::Everybody)), Ordering::SeqCst);
                Ok(vec![held_by(7, caller.clone())])
            })
        };
        let hosted = Caller::Hosted("p1".into());
        assert_eq!((ask(1, hosted.clone()), looks.load(Ordering::SeqCst)), (hosted.clone(), 1));
        assert_eq!((ask(2, hosted.clone()), looks.load(Ordering::SeqCst)), (hosted, 1));
        assert_eq!((ask(3, Caller::Free), looks.load(Ordering::SeqCst)), (Caller::Free, 2));
    }

    #[test]
    fn a_look_that_dies_leaves_nobody_waiting() {
        let lookout = Lookout::default();
        let dies =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lookout.told((1, 0), |_, _| panic!("looking"))));
        assert!(dies.is_err() && !lookout.asked().is_looking);
        assert_eq!(lookout.told((1, 0), |_, _| Ok(vec![held_by(7, Caller::Free)])), Caller::Free);
    }

    #[test]
    fn one_hosted_holder_is_enough_and_none_is_nobody() {
        let hosted = || Caller::Hosted("pabc".into());
        assert_eq!(worst([Caller::Free, hosted(), Caller::Unknown].into_iter()), hosted());
        assert_eq!(worst([Caller::Free, Caller::Unknown].into_iter()), Caller::Unknown);
        assert_eq!(worst([Caller::Free].into_iter()), Caller::Free);
        assert_eq!(worst(std::iter::empty()), Caller::Unknown);
    }

    #[test]
    fn who_cannot_be_told_is_looked_at_again_but_not_for_ever() {
        let mut looks = 0;
        let late = Lookout::default().told((1, 0), |_, _| {
            looks += 1;
            match looks {
                1 => Err(io::ErrorKind::TimedOut.into()),
                2 => Ok(vec![held_by(7, Caller::Unknown)]),
                _ => Ok(vec![held_by(7, Caller::Free)]),
            }
        });
        assert_eq!((late, looks), (Caller::Free, 3));
        let mut looks = 0;
        let never = Lookout::default().told((1, 0), |_, _| {
            looks += 1;
            Ok(vec![Found::default()])
        });
        assert_eq!((never, looks), (Caller::Unknown, LOOKS));
    }

    #[test]
    fn nobody_waits_for_ever() {
        assert!(look(&[(1, 0)], Among::Everybody, Instant::now() - Duration::from_secs(1), |_| false).is_err());
    }
}
