//! One daemon per instance folder, guarded by a lock that dies with its holder.
//! A second daemon never takes over by accident; on purpose it asks the first to leave, and a first that does not listen is
//! killed, which loses nothing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The signal that asks a daemon to leave its children with the keeper and end.
pub const LEAVE: Signal = Signal::USR2;
/// A daemon that leaves answers what is in flight first; longer than that is stuck.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// The lock is polled: an exit frees it without telling anybody.
const POLL: Duration = Duration::from_millis(2);
/// How often it is looked whether somebody else was quicker: reading the kernel's list costs more than trying the lock.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The file whose lock decides.
const LOCK: &str = "lock";

/// How badly the instance is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Only when nobody has it.
    IfFree,
    /// Also from a living daemon.
    TakeOver,
}

/// The right to be this instance's daemon, for as long as it is held.
#[derive(Debug)]
pub struct Lease {
    _lock: File,
}

/// What a claim brought.
#[derive(Debug)]
pub enum Claimed {
    /// Nobody had it.
    Free(Lease),
    /// The daemon with this pid left for us.
    TakenFrom(Lease, u32),
    /// The daemon with this pid has it.
    Held(Option<u32>),
}

/// Claims the instance in `dir`, which exists.
pub fn claim(dir: &Path, how: Claim) -> io::Result<Claimed> {
    let file = open(&dir.join(LOCK))?;
    if try_lock(&file)? {
        sign(&file);
        return Ok(Claimed::Free(Lease { _lock: file }));
    }
    // A holder that is not to be seen is just ending: its lock goes with it.
    let deadline = Instant::now() + LEAVE_WITHIN;
    let pid = loop {
        match holder(&file)? {
            Some(pid) => break pid,
            None if try_lock(&file)? => {
                sign(&file);
                return Ok(Claimed::Free(Lease { _lock: file }));
            }
            None if Instant::now() > deadline => return Ok(Claimed::Held(None)),
            None => std::thread::sleep(POLL),
        }
    };
    if how == Claim::IfFree {
        return Ok(Claimed::Held(Some(pid)));
    }
    let pid = evict(&file, pid)?;
    sign(&file);
    Ok(Claimed::TakenFrom(Lease { _lock: file }, pid))
}

/// Never the file that a link leads to: it would be written to, and locked, wherever that is.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let no_link = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
    let file = options.custom_flags(no_link).open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => not_a_lock(path, "a link"),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_a_lock(path, "no file")),
    }
}

fn not_a_lock(path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("{} is {what}: nobody's lock. Remove it", path.display()))
}

fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The pid in the file is for people; who holds the lock is the kernel's to say. So a full disk is no reason to stay away, and
/// the text is written over the one before, which needs no room.
fn sign(file: &File) {
    let text = format!("{}\n", std::process::id());
    let _ = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
}

/// The pid that holds the lock on this very file, as the kernel tells it.
///
/// The kernel's list names a file by the number of its inode, which is another file's on another file system, and by the
/// device, which some file systems do not tell as `stat` does. So we put a lock of another kind on it, which is in nobody's
/// way, and look what the kernel calls the file there. Nobody's descriptors are looked at: a daemon shows them to nobody.
fn holder(file: &File) -> io::Result<Option<u32>> {
    let ours = fcntl_lock(file, FlockOperation::NonBlockingLockShared);
    let locks = std::fs::read_to_string("/proc/locks");
    if ours.is_ok() {
        let _ = fcntl_lock(file, FlockOperation::Unlock);
    }
    holder_among(&locks?, file)
}

/// One line of the kernel's list.
struct Held<'a> {
    kind: &'a str,
    pid: u32,
    device: &'a str,
    inode: u64,
}

fn parse(line: &str) -> Option<Held<'_>> {
    // 1: FLOCK  ADVISORY  WRITE 1234 00:31:5678 0 EOF
    let mut words = line.split_ascii_whitespace().skip(1);
    let (kind, pid, place) = (words.next()?, words.nth(2)?, words.next()?);
    let (device, inode) = place.rsplit_once(':')?;
    Some(Held { kind, pid: pid.parse().ok()?, device, inode: inode.parse().ok()? })
}

fn holder_among(locks: &str, file: &File) -> io::Result<Option<u32>> {
    let inode = file.metadata()?.ino();
    let of_inode: Vec<Held<'_>> = locks.lines().filter_map(parse).filter(|held| held.inode == inode).collect();
    let ours = |held: &&Held<'_>| held.kind == "POSIX" && held.pid == std::process::id();
    let device = of_inode.iter().find(ours).map(|held| held.device);
    let is_it = |held: &&Held<'_>| match device {
        Some(device) => held.device == device,
        // A file system where a lock is a lock, whatever its kind (NFS): who holds it has signed it.
        None => signed(file) == Some(held.pid),
    };
    Ok(of_inode.iter().filter(|held| held.kind == "FLOCK").find(is_it).map(|held| held.pid))
}

/// Who says in the file that it is theirs.
fn signed(file: &File) -> Option<u32> {
    let mut text = [0; 16];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok()
}

/// Asks whoever holds the lock to leave until it is ours; gives back who left last. Of several that claim at once, each asks
/// the one that was quicker.
fn evict(file: &File, mut pid: u32) -> io::Result<u32> {
    'holders: loop {
        for signal in [LEAVE, Signal::KILL] {
            if let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw)
                && let Ok(pidfd) = pidfd_open(target, PidfdFlags::empty())
                && holder(file)? == Some(pid)
            {
                // It may end between the look and the signal; then the lock is free below.
                let _ = pidfd_send_signal(pidfd, signal);
            }
            let (deadline, mut look) = (Instant::now() + LEAVE_WITHIN, Instant::now() + LOOK_EVERY);
            while Instant::now() < deadline {
                if try_lock(file)? {
                    return Ok(pid);
                }
                if Instant::now() > look {
                    look = Instant::now() + LOOK_EVERY;
                    if let Some(quicker) = holder(file)?.filter(|other| *other != pid) {
                        pid = quicker;
                        continue 'holders;
                    }
                }
                std::thread::sleep(POLL);
            }
        }
        return Err(io::Error::new(io::ErrorKind::TimedOut, format!("pid {pid} holds the instance and does not end")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_told_who_holds_the_instance() {
        let dir = tempfile::tempdir().unwrap();
        let Claimed::Free(lease) = claim(dir.path(), Claim::IfFree).unwrap() else { panic!("not free") };
        assert!(
            matches!(claim(dir.path(), Claim::IfFree).unwrap(), Claimed::Held(Some(pid)) if pid == std::process::id())
        );
        drop(lease);
        assert!(matches!(claim(dir.path(), Claim::IfFree).unwrap(), Claimed::Free(_)));
    }

    #[test]
    fn a_lock_that_is_a_link_or_no_file_is_refused_and_what_it_leads_to_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, elsewhere) = (dir.path().join(LOCK), dir.path().join("elsewhere"));
        std::fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
        let refused = claim(dir.path(), Claim::TakeOver).unwrap_err().to_string();
        assert!(refused.contains("is a link"), "{refused}");
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious");
        std::fs::remove_file(&lock).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &lock, 0o600.into()).unwrap();
        let refused = claim(dir.path(), Claim::IfFree).unwrap_err().to_string();
        assert!(refused.contains("is no file"), "{refused}");
    }

    #[test]
    fn a_file_is_the_one_that_the_kernel_calls_so_whatever_the_number_of_its_inode() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(dir.path().join("lock")).unwrap();
        let inode = file.metadata().unwrap().ino();
        let own = std::process::id();
        let line = |kind, pid, device| format!("1: {kind}  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF\n");
        let stranger = line("FLOCK", 7, "00:99");
        let probe = line("POSIX", own, "00:31");
        assert_eq!(holder_among(&(stranger.clone() + &probe), &file).unwrap(), None);
        let locks = stranger.clone() + &probe + &line("FLOCK", 8, "00:31");
        assert_eq!(holder_among(&locks, &file).unwrap(), Some(8));
        // Nobody knows what the kernel calls it: who signed it.
        let locks = stranger + &line("FLOCK", own, "00:31");
        assert_eq!(holder_among(&locks, &file).unwrap(), None);
        let file = open(&dir.path().join("lock")).unwrap();
        sign(&file);
        assert_eq!(holder_among(&locks, &file).unwrap(), Some(own));
    }

    #[test]
    fn of_several_that_take_over_at_once_each_gets_its_turn_soon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let holder = || std::process::Command::new("flock").arg("-o").arg(&path).args(["sleep", "5"]).spawn().unwrap();
        let stands = |child: &std::process::Child, waits: bool| {
            let deadline = Instant::now() + Duration::from_secs(20);
            let is_there = |line: &str| line.contains("-> ") == waits && line.contains(&format!(" {} ", child.id()));
            while !std::fs::read_to_string("/proc/locks").unwrap().lines().any(is_there) {
                assert!(Instant::now() < deadline, "flock does not come so far");
                std::thread::sleep(POLL);
            }
        };
        let mut first = holder();
        stands(&first, false);
        // It waits for the lock, and nearly always has it before us the moment the first is gone.
        let mut second = holder();
        stands(&second, true);
        let started = Instant::now();
        let claimed = claim(dir.path(), Claim::TakeOver).unwrap();
        let either = [first.id(), second.id()];
        assert!(matches!(&claimed, Claimed::TakenFrom(_, pid) if either.contains(pid)), "{claimed:?}");
        assert!(started.elapsed() < LEAVE_WITHIN, "{:?}", started.elapsed());
        drop(claimed);
        first.wait().unwrap();
        second.wait().unwrap();
    }

    #[test]
    fn a_holder_that_ignores_the_request_is_killed_and_named() {
        let dir = tempfile::tempdir().unwrap();
        // Ignored signals stay ignored through exec; -o keeps the lock out of the hands of the command.
        let script = r#"trap "" USR2; exec flock -o "$0" sh -c "echo held; exec cat""#;
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(dir.path().join("lock"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
        let claimed = claim(dir.path(), Claim::TakeOver).unwrap();
        child.wait().unwrap();
        assert!(matches!(claimed, Claimed::TakenFrom(_, pid) if pid == child.id()), "{claimed:?}");
    }
}
