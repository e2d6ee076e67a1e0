//! Who else has a person's terminal open. It is closed to newcomers while something is asked there, but whoever opened it
//! before keeps it, and reads what is typed.
//!
//! The rule: nothing is asked on a terminal that a hosted process has open, either end of it, nor on one that is the terminal
//! of a hosted process which hides what it has open. Other hosted processes that hide it are told of, because they could have
//! this one: sandboxes of browsers hide for reasons of their own, so they cannot be refused, and our own runners do too. Whoever is not hosted is not
//! told from the person, hidden or not. Processes of root's (`sudo`, `su`, `sshd`) are not agents, nor are the keeper that
//! nobody hosts and the daemon that is talked to. A descriptor that is under way between two sockets while we look is not seen.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ostler_keeper::procfs::{self, Stat};
use rustix::fs::{AtFlags, FileType, StatxFlags};

use super::holder::{is_over, user_of};
use super::{host_of, lineage};

/// A machine on which it takes longer has to wait for a quieter moment.
const LOOK_FOR: Duration = Duration::from_secs(5);
/// `/dev/tty`, which is whatever terminal its opener has, and `/dev/ptmx`, the other end of a pseudo terminal.
const TTY: (u32, u32) = (5, 0);
const PTMX: (u32, u32) = (5, 2);
/// Programs that hold the other end of the terminals in which they run others, and let their clients type there.
const MULTIPLEXERS: [&str; 5] = ["tmux", "screen", "zellij", "dtach", "abduco"];

/// What hides as the daemon that is talked to does: other daemons, runners of approved commands, and who stands for a port.
const OURS: [&str; 3] = ["ostler", "ostler-run", "ostler-port"];

/// Why nothing is asked on a terminal.
#[derive(Debug, thiserror::Error)]
pub enum NotAlone {
    /// Somebody hosted has it open.
    #[error(
        "pid {pid} ({name}), which runs in ostler ({host}), has this terminal open and could read what you type; end it \
         (kill {pid}) or use another terminal"
    )]
    Held {
        /// The process.
        pid: u32,
        /// Its short name.
        name: String,
        /// What hosts it.
        host: String,
    },
    /// Somebody hosted has it for its terminal, and does not show what it has open.
    #[error(
        "pid {pid} ({name}), which runs in ostler ({host}), is on this terminal and hides which files it has open; end it \
         (kill {pid}) or use another terminal"
    )]
    Hidden {
        /// The process.
        pid: u32,
        /// Its short name.
        name: String,
        /// What hosts it.
        host: String,
    },
    /// It cannot be said.
    #[error("cannot see who has this terminal open: {0}")]
    Unseen(#[from] io::Error),
}

/// Somebody hosted who does not show what it has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The process.
    pub pid: u32,
    /// Its short name.
    pub name: String,
}

/// Makes sure that nobody hosted has the terminal of this very process; gives back those who could. `daemon` is the process of the daemon that is talked to,
/// which may be a child of its keeper. Looks at every process there is.
pub fn terminal_is_ours_alone(daemon: Option<u32>) -> Result<Vec<Hidden>, NotAlone> {
    let own = procfs::stat(std::process::id()).map_err(io::Error::from)?;
    look(own.terminal, daemon, Instant::now() + LOOK_FOR)
}

/// The program in whose window this process runs, if it is one into which every program of the user may type.
pub fn own_multiplexer() -> Option<&'static str> {
    let ancestors = lineage(std::process::id()).map_while(Result::ok);
    ancestors.map(|(_, stat)| stat.name.to_ascii_lowercase()).find_map(|name| {
        // `tmux: server`, and `SCREEN`.
        let first = name.split(|sign: char| !sign.is_ascii_alphanumeric()).next().unwrap_or_default();
        MULTIPLEXERS.into_iter().find(|known| *known == first)
    })
}

/// Whether another process called one of `names` has the terminal of this one: it may be the one that asks there.
pub fn shares_terminal_with(names: &[&str]) -> bool {
    let Ok(own) = procfs::stat(std::process::id()) else { return false };
    let Ok(all) = fs::read_dir("/proc") else { return false };
    let others = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats = others.filter(|pid| *pid != std::process::id()).filter_map(|pid| procfs::stat(pid).ok());
    stats.filter(|stat| stat.terminal == own.terminal && !stat.is_zombie()).any(|stat| {
        // Who is stopped has given it back.
        !matches!(stat.state, b'T' | b't') && names.contains(&stat.name.as_str())
    })
}

fn look(terminal: i32, daemon: Option<u32>, until: Instant) -> Result<Vec<Hidden>, NotAlone> {
    let mut hidden = Vec::new();
    let own_uid = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if Instant::now() > until {
            return Err(NotAlone::Unseen(io::ErrorKind::TimedOut.into()));
        }
        // It ended.
        let Ok(stat) = procfs::stat(pid) else { continue };
        match has_open(&entry.path(), &stat, terminal) {
            Ok(true) => {
                if let Some(host) = host(pid) {
                    return Err(NotAlone::Held { pid, name: stat.name, host });
                }
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let ours = user_of(pid) == Some(own_uid) && Some(pid) != daemon && !is_first_keeper(pid, &stat);
                match ours.then(|| host(pid)).flatten() {
                    Some(host) if stat.terminal == terminal => {
                        return Err(NotAlone::Hidden { pid, name: stat.name, host });
                    }
                    Some(_) if is_called_as_ours(&stat) => {}
                    Some(_) => hidden.push(Hidden { pid, name: stat.name }),
                    None => {}
                }
            }
            Err(_) => {}
        }
    }
    Ok(hidden)
}

/// What hosts it. One that cannot be told is nobody's, if it has ended meanwhile.
fn host(pid: u32) -> Option<String> {
    match host_of(pid) {
        Ok(host) => host,
        Err(_) if procfs::stat(pid).is_ok() => Some("cannot be checked".to_owned()),
        Err(_) => None,
    }
}

/// A keeper that descends from no other. Hosted processes always do, whatever they call themselves: orphans come back.
fn is_first_keeper(pid: u32, stat: &Stat) -> bool {
    stat.name == ostler_keeper::NAME && matches!(host_of(stat.parent.max(1)), Ok(None)) && pid != stat.parent
}

/// A process that a keeper itself started under the name of one of ours, which hide too, or that init has, as it has a daemon
/// that somebody started. A hosted program that calls itself so is not told of either; what it could do with a terminal of
/// its own or an open one is refused above.
fn is_called_as_ours(stat: &Stat) -> bool {
    let by_keeper = || procfs::stat(stat.parent).is_ok_and(|parent| parent.name == ostler_keeper::NAME);
    OURS.contains(&stat.name.as_str()) && (stat.parent <= 1 || by_keeper())
}

/// Whether any thread has it open: threads may have descriptors of their own.
fn has_open(process: &Path, stat: &Stat, terminal: i32) -> io::Result<bool> {
    for thread in fs::read_dir(process.join("task"))? {
        let thread = thread?;
        let descriptors = match fs::read_dir(thread.path().join("fd")) {
            Err(_) if is_over(&thread.file_name()) => continue,
            shown => shown?,
        };
        for descriptor in descriptors {
            let descriptor = descriptor?;
            if is_terminal(&descriptor.path(), stat, terminal)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether this descriptor is an end of that terminal.
fn is_terminal(descriptor: &Path, stat: &Stat, terminal: i32) -> io::Result<bool> {
    // Asks no file system that may not answer.
    let found = rustix::fs::statx(rustix::fs::CWD, descriptor, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
    let found = match found {
        Ok(found) => found,
        Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // It was closed.
        Err(_) => return Ok(false),
    };
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::CharacterDevice {
        return Ok(false);
    }
    Ok(match (found.stx_rdev_major, found.stx_rdev_minor) {
        TTY => stat.terminal == terminal,
        PTMX => master_of(descriptor).is_some_and(|index| pseudo_terminal(terminal) == Some(index)),
        device => device == parts(terminal),
    })
}

/// Major and minor, as `/proc/PID/stat` packs them.
fn parts(device: i32) -> (u32, u32) {
    let device = device.cast_unsigned();
    ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00))
}

/// The number of a pseudo terminal.
fn pseudo_terminal(device: i32) -> Option<u32> {
    let (major, minor) = parts(device);
    super::PTS_MAJORS.contains(&major).then(|| (major - super::PTS_MAJORS.start) * 256 + minor)
}

/// Which pseudo terminal this is the other end of.
fn master_of(descriptor: &Path) -> Option<u32> {
    let (number, folder) = (descriptor.file_name()?, descriptor.parent()?.parent()?);
    let info = fs::read_to_string(folder.join("fdinfo").join(number)).ok()?;
    info.lines().find_map(|line| line.strip_prefix("tty-index:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};

    /// A terminal of nobody: its master, and what `stat` would call it.
    fn terminal() -> (OwnedFd, String, i32) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let number: i32 = name.rsplit('/').next().unwrap().parse().unwrap();
        assert!(number < 256, "{number}");
        (master, name, (136 << 8) | number)
    }

    fn sleep(place: &str, mark: Option<&str>) -> Child {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let place = open(place, flags, Mode::empty()).unwrap();
        let mut command = Command::new("sleep");
        command.arg("30").stdin(Stdio::from(place)).env_remove(ostler_keeper::COOKIE);
        if let Some(mark) = mark {
            command.env(ostler_keeper::COOKIE, mark);
        }
        command.spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn looked(terminal: i32) -> Result<(), NotAlone> {
        look(terminal, None, Instant::now() + LOOK_FOR).map(drop)
    }

    #[test]
    fn a_hosted_process_that_has_the_terminal_open_is_named_and_anybody_else_is_not() {
        let (_master, name, device) = terminal();
        let free = sleep(&name, None);
        assert!(looked(device).is_ok());
        let hosted = sleep(&name, Some("pabc"));
        let found = looked(device);
        let expected = hosted.id();
        end(hosted);
        end(free);
        let words = found.unwrap_err().to_string();
        assert!(words.starts_with(&format!("pid {expected} (sleep), which runs in ostler (pabc)")), "{words}");
        assert!(looked(device).is_ok());
    }

    #[test]
    fn who_holds_the_other_end_of_it_is_found_too() {
        let (master, _name, device) = terminal();
        let mut command = Command::new("sleep");
        command.arg("30").stdin(Stdio::from(master)).env(ostler_keeper::COOKIE, "pabc");
        let hosted = command.spawn().unwrap();
        drop(command);
        let found = looked(device);
        end(hosted);
        assert!(matches!(found, Err(NotAlone::Held { host, .. }) if host == "pabc"));
    }

    #[test]
    fn another_terminal_is_nobodys_business_and_nobody_looks_for_ever() {
        let (_master, name, _) = terminal();
        let (_other, _, device) = terminal();
        let hosted = sleep(&name, Some("pabc"));
        let found = looked(device);
        end(hosted);
        assert!(found.is_ok());
        assert!(matches!(look(device, None, Instant::now() - Duration::from_secs(1)), Err(NotAlone::Unseen(_))));
    }
}
