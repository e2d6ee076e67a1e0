//! Keeping the hands of other programs of our user off this process. A process that is not dumpable gives nobody but root its
//! descriptors (`pidfd_getfd`), its memory or its registers (`ptrace`), and leaves no core file.
//!
//! What it costs: `/proc/PID/{environ,exe,fd,...}` of such a process are root's, so nobody of the same user reads them, the
//! process itself included. Whoever has to see our environment is handed a descriptor of it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};

use crate::procfs::{ENVIRON_MAX, Variable, value_of};

/// Our environment as the kernel knows it, opened while it could be.
static ENVIRON: OnceLock<OwnedFd> = OnceLock::new();

/// Makes this process one that gives nothing away. First thing in a program, and again after every exec, which undoes it:
/// until then it is like any other. Not where `/proc` hides processes that may not be looked into: there nobody could tell any
/// more who descends from whom, which is worth more.
pub fn raise() {
    if is_hidden(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()) {
        return;
    }
    if let Ok(environ) = File::open("/proc/self/environ") {
        // Set once: whoever calls again has nothing new to show.
        let _ = ENVIRON.set(environ.into());
    }
    // Refuses only a value that it does not know.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Lets this process leave core files, and with that be looked into.
pub fn lower() {
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
}

/// Whether this process gives nothing away.
pub fn is_raised() -> bool {
    dumpable_behavior().is_ok_and(|behavior| behavior == DumpableBehavior::NotDumpable)
}

/// Whether `/proc` is mounted so (`hidepid`) that it shows only processes that may be looked into.
fn is_hidden(mounts: &str) -> bool {
    // 23 28 0:21 / /proc rw,nosuid - proc proc rw,hidepid=invisible
    let mut of_proc = mounts.lines().filter_map(|line| {
        let (place, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        (place.split(' ').nth(4)? == "/proc" && system.next()? == "proc").then(|| system.next_back()).flatten()
    });
    let hides = |option: &str| option.strip_prefix("hidepid=").is_some_and(|how| how != "0" && how != "off");
    of_proc.next_back().is_some_and(|options| options.split(',').any(hides))
}

/// The file that this process runs, by device and number.
pub fn own_file() -> Option<(u64, u64)> {
    file_at("/proc/self/exe")
}

/// The same of another, as long as it can be looked at.
pub(crate) fn file_of(pid: u32) -> Option<(u64, u64)> {
    file_at(&format!("/proc/{pid}/exe"))
}

fn file_at(link: &str) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(link).map(|file| (file.dev(), file.ino())).ok()
}

/// Our environment, for somebody who has to see it and can not.
pub fn environ() -> Option<BorrowedFd<'static>> {
    ENVIRON.get().map(AsFd::as_fd)
}

/// A variable of the process `pid`, read from the descriptor that it handed over; nothing if that is of anything but the
/// environment of that very process.
pub fn shown(environ: impl AsFd, pid: u32, name: &str) -> Option<Variable> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", environ.as_fd().as_raw_fd())).ok()?;
    let is_proc = rustix::fs::fstatfs(&environ).is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC);
    if !is_proc || link.to_str()? != format!("/proc/{pid}/environ") {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(environ.as_fd().try_clone_to_owned().ok()?).take(ENVIRON_MAX).read_to_end(&mut bytes).ok()?;
    Some(value_of(&bytes, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_that_hides_processes_is_known() {
        let mounted =
            |options: &str| format!("1 1 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:21 / /proc rw - proc proc {options}\n");
        assert!(!is_hidden(&mounted("rw")) && !is_hidden("") && !is_hidden(&mounted("rw,hidepid=0")));
        assert!(!is_hidden(&mounted("rw,hidepid=off")));
        assert!(is_hidden(&mounted("rw,hidepid=2")) && is_hidden(&mounted("rw,gid=4,hidepid=invisible")));
        // What was mounted last is seen.
        assert!(!is_hidden(&(mounted("rw,hidepid=2") + &mounted("rw"))));
    }

    fn environ_of(pid: u32) -> OwnedFd {
        File::open(format!("/proc/{pid}/environ")).unwrap().into()
    }

    #[test]
    fn an_environment_is_believed_only_of_the_process_it_is_of() {
        let mut other = std::process::Command::new("sleep").arg("30").env("MARK", "m").spawn().unwrap();
        while crate::procfs::stat(other.id()).unwrap().name != "sleep" {}
        assert_eq!(crate::procfs::variable(other.id(), "MARK"), Variable::Is(b"m".to_vec()));
        let (own, pid) = (std::process::id(), other.id());
        let (theirs, another) = (shown(environ_of(pid), pid, "MARK"), shown(environ_of(pid), own, "MARK"));
        let file = File::from(rustix::fs::memfd_create("environ", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let made_up = shown(&file, own, "MARK");
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((theirs, another, made_up), (Some(Variable::Is(b"m".to_vec())), None, None));
    }
}
